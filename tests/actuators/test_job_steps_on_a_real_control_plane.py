"""suspend, resume and fail a real Job: the same object, one effect, every crash between harmless."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actuators.jobs.keeping_off import KEPT_OFF
from runtime import paths
from runtime.errors import ApiAway
from runtime.kubernetes import Cluster, Object, PatchKind
from sandbox.control_plane import Options
from schemas.cluster import EPOCH, POD_RETRIES_USED, RETRIES_USED, RUN
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.records import Counters
from tests.actuators.real_job import make_job, pods_of, wait_until
from tests.actuators.real_scene import RealScene, command
from tests.real.kubernetes import NewCluster, client_of, make_namespace

JOB = "train"


def suspend(job: Object, **given: Any) -> Command:
    return command(job, StepName.SUSPEND_JOB, **given)


def resume(job: Object, *, keep_off: tuple[str, ...] = (), to: int = 2, **given: Any) -> Command:
    nodes = [{"uid": f"uid-{name}", "name": name} for name in keep_off]
    return command(
        job, StepName.RESUME_JOB, epoch=to - 1, arguments={"keep_off": nodes, "epoch": to}, **given
    )


def until_it_ends(scene: RealScene, order: Command, patience: float = 20) -> Outcome:
    ends = time.monotonic() + patience
    outcome = scene.perform(order)
    while outcome.result is OutcomeResult.PENDING and time.monotonic() < ends:
        time.sleep(0.1)
        order = order.model_copy(update={"action": "look", "look": order.look + 1})
        outcome = scene.perform(order)
    return outcome


def read(api: Cluster, job: Object) -> Object:
    return api.get(paths.jobs(job["metadata"]["namespace"], job["metadata"]["name"]))


def set_phase(api: Cluster, pod: Object, phase: str) -> None:
    metadata = pod["metadata"]
    path = paths.status(paths.pods(metadata["namespace"], metadata["name"]))
    api.patch(path, {"status": {"phase": phase}}, manager="kubelet")


def run_all(api: Cluster, job: Object, count: int) -> None:
    """What kubelets would say of the new pods."""
    wait_until(lambda: len(pods_of(api, job)) == count)
    for pod in pods_of(api, job):
        set_phase(api, pod, "Running")


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


def kept_off(pod_spec: Object) -> list[str]:
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return [
        value
        for term in required.get("nodeSelectorTerms", [])
        for field in term.get("matchFields", [])
        if field["operator"] == "NotIn"
        for value in field["values"]
    ]


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
        scene.perform(resume(job, keep_off=keep_off, to=to))
        spec = read(api, job)["spec"]["template"]["spec"]
        assert kept_off(spec) == list(keep_off)
        term = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert [one["matchExpressions"] for one in term["nodeSelectorTerms"]] == [[own]]
        until_it_ends(scene, suspend(job, epoch=to))

    assert KEPT_OFF not in read(api, job)["metadata"]["annotations"]


class DyingAfter:
    """An API whose line breaks after so many patches, as it does for a process that is killed there."""

    def __init__(self, api: Cluster, patches: int) -> None:
        self._api = api
        self._left = patches
        self.paths: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def patch(self, path: str, body: Any, *, kind: PatchKind = PatchKind.MERGE, manager: str = "") -> Object:
        if self._left == 0:
            raise ApiAway("killed")
        self._left -= 1
        self.paths.append(path)
        return self._api.patch(path, body, kind=kind, manager=manager)


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


@contextmanager
def a_node(api: Cluster, name: str) -> Iterator[str]:
    api.create(paths.nodes(), {"metadata": {"name": name}})
    try:
        yield name
    finally:
        api.delete(paths.nodes(name))


def bind(api: Cluster, pod: Object, node: str) -> None:
    metadata = pod["metadata"]
    path = f"{paths.pods(metadata['namespace'], metadata['name'])}/binding"
    api.create(path, {"metadata": {"name": metadata["name"]}, "target": {"kind": "Node", "name": node}})


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


def test_a_job_of_which_a_rank_has_ended_cannot_be_suspended_for_a_restart(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    set_phase(api, pods_of(api, job)[0], "Succeeded")
    wait_until(lambda: bool((read(api, job).get("status") or {}).get("completedIndexes")))

    outcome = scene.perform(suspend(job))

    assert (outcome.result, outcome.cause) == (OutcomeResult.UNSUPPORTED, "needs_rebuild")
    assert not read(api, job)["spec"].get("suspend")


def fail(job: Object, seconds: int = 120, **given: Any) -> Command:
    order = command(job, StepName.FAIL_JOB, arguments={"cause": "user_code"}, **given)
    return order.model_copy(update={"deadline": datetime.now(UTC) + timedelta(seconds=seconds)})


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


@pytest.mark.slow
@pytest.mark.timeout(120)
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
