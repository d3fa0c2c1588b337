"""suspend, resume and fail a real Job: the same object, one effect, every crash between harmless."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from actuators.jobs.keeping_off import KEPT_OFF
from runtime import paths
from runtime.kubernetes import Cluster
from sandbox.control_plane import Options
from schemas.cluster import EPOCH, POD_RETRIES_USED, RETRIES_USED, RUN
from schemas.commands import OutcomeResult
from schemas.records import Counters
from tests.actuators.real_job import make_job, pods_of, wait_until
from tests.actuators.real_scene import RealScene
from tests.actuators.real_steps import (
    JOB,
    DyingAfter,
    a_node,
    bind,
    fail,
    kept_off,
    read,
    resume,
    run_all,
    set_phase,
    suspend,
    until_it_ends,
)
from tests.real.kubernetes import NewCluster, client_of, make_namespace, real_plane_only

pytestmark = pytest.mark.slow  # each waits for controllers, the stand-in's as well


def test_suspend_and_resume_make_new_pods_of_the_next_epoch_on_the_same_object(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 3)
    old = {pod["metadata"]["uid"] for pod in pods_of(api, job)}

    assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE
    assert pods_of(api, job) == []

    order = resume(job, keep_off=("bad-node", "worse-node"))
    outcome = scene.perform(order)
    assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "requeue")
    run_all(api, job, 3)
    outcome = scene.perform(order.model_copy(update={"action": "look", "look": 1}))
    assert (outcome.result, outcome.epoch) == (OutcomeResult.DONE, 2)

    now = read(api, job)
    assert now["metadata"]["uid"] == job["metadata"]["uid"]
    assert now["metadata"]["annotations"][EPOCH] == "2"
    for pod in pods_of(api, job):
        assert pod["metadata"]["uid"] not in old
        assert pod["metadata"]["annotations"][EPOCH] == "2"
        assert pod["metadata"]["annotations"][RUN] == job["metadata"]["uid"]
        assert kept_off(pod["spec"]) == ["bad-node", "worse-node"]


def test_what_is_used_of_the_budgets_is_mirrored_on_the_job(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1)
    until_it_ends(scene, suspend(job))

    order = resume(job)
    counters = Counters(job_retries_used=2, pod_retries_used=1).model_dump()
    scene.perform(order.model_copy(update={"arguments": {**order.arguments, "counters": counters}}))

    annotations = read(api, job)["metadata"]["annotations"]
    assert (annotations[RETRIES_USED], annotations[POD_RETRIES_USED]) == ("2", "1")


def test_the_same_commands_twice_have_one_effect(scene: RealScene, api: Cluster, namespace: str) -> None:
    job = make_job(api, namespace, 2)
    until_it_ends(scene, suspend(job))
    scene.perform(resume(job))
    run_all(api, job, 2)
    assert until_it_ends(scene, resume(job)).result is OutcomeResult.DONE
    pods = {pod["metadata"]["uid"] for pod in pods_of(api, job)}
    generation = read(api, job)["metadata"]["generation"]

    assert scene.perform(resume(job)).result is OutcomeResult.DONE
    assert scene.perform(suspend(job)).cause == "other_epoch", "an old suspend never stops the new issue"

    assert {pod["metadata"]["uid"] for pod in pods_of(api, job)} == pods
    assert read(api, job)["metadata"]["generation"] == generation


def test_nodes_to_keep_off_are_made_anew_each_time_beside_the_teams_own_affinity(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    own = {"key": "zone", "operator": "In", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [own]}]}
    job = make_job(api, namespace, 1)
    until_it_ends(scene, suspend(job))
    path = paths.jobs(namespace, JOB)
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    api.patch(path, {"spec": {"template": {"spec": {"affinity": affinity}}}}, manager="a-team")

    for to, keep_off in ((2, ("one", "two")), (3, ("three",)), (4, ())):
        scene.perform(resume(job, keep_off=keep_off, to=to, attempt=to - 1))
        spec = read(api, job)["spec"]["template"]["spec"]
        assert kept_off(spec) == list(keep_off)
        term = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert [one["matchExpressions"] for one in term["nodeSelectorTerms"]] == [[own]]
        until_it_ends(scene, suspend(job, epoch=to, attempt=to))

    assert KEPT_OFF not in read(api, job)["metadata"]["annotations"]


@pytest.mark.parametrize("patches", [0, 1, 2])
def test_killed_anywhere_in_resume_the_next_look_finishes_it(
    scene: RealScene, api: Cluster, namespace: str, patches: int
) -> None:
    job = make_job(api, namespace, 2)
    until_it_ends(scene, suspend(job))
    scene.through = DyingAfter(api, patches)
    scene.perform(resume(job, keep_off=("bad",)))
    scene.through = api

    scene.perform(resume(job, keep_off=("bad",), action="look", look=1))
    run_all(api, job, 2)

    assert until_it_ends(scene, resume(job, keep_off=("bad",), action="look", look=2)).epoch == 2
    assert {pod["metadata"]["annotations"][EPOCH] for pod in pods_of(api, job)} == {"2"}
    assert kept_off(read(api, job)["spec"]["template"]["spec"]) == ["bad"]


def test_a_human_who_resumed_the_job_is_not_overruled(scene: RealScene, api: Cluster, namespace: str) -> None:
    job = make_job(api, namespace, 1)
    until_it_ends(scene, suspend(job))
    api.patch(paths.jobs(namespace, JOB), {"spec": {"suspend": False}}, manager="a-human")

    outcome = scene.perform(resume(job))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "not_suspended")
    assert EPOCH not in (read(api, job)["metadata"].get("annotations") or {})


@pytest.mark.parametrize("step", [suspend, resume])
def test_a_job_in_a_queue_is_left_alone_and_told_why(
    scene: RealScene, api: Cluster, namespace: str, step: Any
) -> None:
    job = make_job(api, namespace, 1)
    labels = {"kueue.x-k8s.io/queue-name": "team-queue"}
    api.patch(paths.jobs(namespace, JOB), {"metadata": {"labels": labels}}, manager="kueue")

    outcome = scene.perform(step(job))

    assert (outcome.result, outcome.cause) == (OutcomeResult.UNSUPPORTED, "queued")
    assert not read(api, job)["spec"].get("suspend")
    events = api.list(paths.events(namespace)).items
    assert "NotRescheduled" in {event["reason"] for event in events}


def test_a_pod_that_cannot_end_is_waited_for_and_forced_only_when_its_node_is_known_to_be_off(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    with a_node(api, f"off-{namespace[-8:]}") as node:
        stuck = pods_of(api, job)[0]
        bind(api, stuck, node)
        set_phase(api, stuck, "Running")

        outcome = until_it_ends(scene, suspend(job), patience=2)
        assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "terminating")
        assert [pod["metadata"]["uid"] for pod in pods_of(api, job)] == [stuck["metadata"]["uid"]]

        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "nodeshutdown"}
        api.patch(paths.nodes(node), {"spec": {"taints": [taint]}}, manager="a-human")
        assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE


def test_fail_job_lets_the_job_controller_fail_it_once_a_pod_has_failed(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    order = fail(job)
    assert scene.perform(order).cause == "failing"
    assert "activeDeadlineSeconds" not in read(api, job)["spec"]
    set_phase(api, pods_of(api, job)[0], "Failed")

    assert until_it_ends(scene, order).result is OutcomeResult.DONE
    conditions = {one["type"]: one["reason"] for one in read(api, job)["status"]["conditions"]}
    assert "BackoffLimitExceeded" in conditions.values()


@pytest.mark.parametrize("suspended", [False, True])
def test_fail_job_ends_what_does_not_end_by_itself_shortly_before_its_deadline(
    scene: RealScene, api: Cluster, namespace: str, suspended: bool
) -> None:
    job = make_job(api, namespace, 2)
    if suspended:
        until_it_ends(scene, suspend(job))

    assert until_it_ends(scene, fail(job, seconds=50)).result is OutcomeResult.DONE
    assert scene.perform(fail(job)).result is OutcomeResult.DONE, "asked again it is still so"


def test_fail_job_never_touches_a_job_that_succeeded(scene: RealScene, api: Cluster, namespace: str) -> None:
    job = make_job(api, namespace, 1)
    set_phase(api, pods_of(api, job)[0], "Succeeded")
    wait_until(
        lambda: any(
            one["type"] == "Complete" for one in (read(api, job).get("status") or {}).get("conditions", [])
        )
    )

    outcome = scene.perform(fail(job))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "succeeded")
    assert read(api, job)["spec"]["backoffLimit"] != 0


@pytest.mark.timeout(120)
@real_plane_only("an older Kubernetes is the real one with a feature gate")
def test_a_server_that_does_not_take_a_new_template_of_a_job_that_began_is_resumed_as_well(
    new_cluster: NewCluster,
) -> None:
    gate = "--feature-gates=MutableSchedulingDirectivesForSuspendedJobs=false"
    plane = new_cluster(
        Options(scheduler=False, arguments={"kube-apiserver": [gate], "kube-controller-manager": [gate]})
    )
    api = client_of(plane)
    namespace = make_namespace(api, "older")
    job = make_job(api, namespace, 2)
    with ThreadPoolExecutor(8) as executor:
        scene = RealScene(api, executor)
        until_it_ends(scene, suspend(job))
        scene.through = recorded = DyingAfter(api, 100)
        scene.perform(resume(job, keep_off=("bad",)))
        assert paths.status(paths.jobs(namespace, JOB)) in recorded.paths, "its start time was taken off"
        run_all(api, job, 2)
        outcome = until_it_ends(scene, resume(job, keep_off=("bad",)))

    assert (outcome.result, outcome.epoch) == (OutcomeResult.DONE, 2)
    assert all(kept_off(pod["spec"]) == ["bad"] for pod in pods_of(api, job))
