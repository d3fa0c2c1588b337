"""Delete and create instead of suspend and resume: when, in which order, killed anywhere between, and who may interfere (finding Q7)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from actuators.jobs import manifest_store
from actuators.jobs.manifest import REBUILT_FROM
from actuators.jobs.rebuild import INDEPENDENT_RANKS
from runtime import paths
from runtime.errors import ApiInvalid, ApiNotFound
from runtime.kubernetes import Cluster, Object
from schemas.cluster import EPOCH, EVICTED_FOR, RETRIES_USED, RUN
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.records import Counters
from tests.actuators.real_job import job_manifest, make_job, pods_of, wait_until
from tests.actuators.real_scene import RealScene, command
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
from tests.real.kubernetes import real_plane_only

pytestmark = pytest.mark.slow  # each waits for controllers, the stand-in's as well

STORED, MARKED, NOTED, DELETED, CREATED, EMPTIED = range(1, 7)
"""Writes of a rebuild, in their order."""


def failed_job(api: Cluster, namespace: str, **more: Any) -> Object:
    job = make_job(api, namespace, 2, backoffLimit=0, **more)
    set_phase(api, pods_of(api, job)[0], "Failed")
    wait_until(lambda: holds(read(api, job), "Failed"))
    return job


def holds(job: Object, kind: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def stored(api: Cluster, job: Object) -> Object | None:
    metadata = job["metadata"]
    try:
        return api.get(paths.config_maps(metadata["namespace"], manifest_store.name_for(metadata["uid"])))
    except ApiNotFound:
        return None


def there(api: Cluster, job: Object) -> Object | None:
    try:
        return read(api, job)
    except ApiNotFound:
        return None


def killed_after(scene: RealScene, api: Cluster, order: Command, writes: int) -> Outcome:
    scene.through = DyingAfter(api, writes)
    outcome = scene.perform(order)
    scene.through = api
    return outcome


def to_first_pod(scene: RealScene, api: Cluster, job: Object, order: Command, pods: int = 2) -> float:
    """Seconds from the command to the first pod of the new issue."""
    begun = time.monotonic()
    ends = begun + 30
    while not new_pods(api, job):
        scene.perform(order)
        assert time.monotonic() < ends, "no pod came"
        time.sleep(0.05)
    took = time.monotonic() - begun
    wait_until(lambda: len(new_pods(api, job)) == pods)
    return took


def new_pods(api: Cluster, job: Object) -> list[Object]:
    now = there(api, job)
    pods = [] if now is None else pods_of(api, now)
    return [pod for pod in pods if pod["metadata"]["annotations"].get(EPOCH) == "2"]


def test_a_failed_job_is_made_anew_as_its_user_wrote_it_with_the_next_epoch(
    scene: RealScene, api: Cluster, namespace: str, record_property: Any
) -> None:
    owner = api.create(paths.config_maps(namespace), {"metadata": {"name": "owner"}})["metadata"]
    body = job_manifest(JOB, 2, backoffLimit=0)
    body["metadata"] |= {
        "labels": {"team": "a"},
        "annotations": {"note": "mine"},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "owner",
                "uid": owner["uid"],
                "controller": False,
            }
        ],
    }
    body["spec"]["template"]["metadata"]["labels"] = {"app": "trainer"}
    job = api.create(paths.jobs(namespace), body)
    wait_until(lambda: len(pods_of(api, job)) == 2)
    set_phase(api, pods_of(api, job)[0], "Failed")
    wait_until(lambda: holds(read(api, job), "Failed"))

    assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE
    order = resume(job, keep_off=("bad",))
    order.arguments["counters"] = Counters(job_retries_used=1).model_dump()
    record_property("seconds to the first pod", round(to_first_pod(scene, api, job, order), 3))
    now = read(api, job)
    run_all(api, now, 2)
    outcome = until_it_ends(scene, order.model_copy(update={"action": "look", "look": 1}))

    assert (outcome.result, outcome.epoch) == (OutcomeResult.DONE, 2)
    metadata, old = now["metadata"], job["metadata"]
    assert metadata["uid"] != old["uid"]
    assert metadata["labels"] == old["labels"]
    assert metadata["ownerReferences"] == old["ownerReferences"]
    assert metadata["annotations"]["note"] == "mine"
    assert (metadata["annotations"][RUN], metadata["annotations"][EPOCH]) == (old["uid"], "2")
    assert metadata["annotations"][REBUILT_FROM] == old["uid"]
    assert metadata["annotations"][RETRIES_USED] == "1"
    assert EVICTED_FOR not in metadata["annotations"]
    assert now["spec"]["backoffLimit"] == 0
    assert not now["spec"].get("suspend")
    for pod in pods_of(api, now):
        assert pod["metadata"]["labels"]["app"] == "trainer"
        assert (pod["metadata"]["annotations"][RUN], pod["metadata"]["annotations"][EPOCH]) == (
            old["uid"],
            "2",
        )
        assert kept_off(pod["spec"]) == ["bad"]
    assert stored(api, job) is None


def test_after_counted_failures_nobody_waits_for_the_back_off_of_the_job_controller(
    scene: RealScene, api: Cluster, namespace: str, record_property: Any
) -> None:
    job = make_job(api, namespace, 2, backoffLimit=6)
    set_phase(api, pods_of(api, job)[0], "Failed")
    wait_until(lambda: bool((read(api, job).get("status") or {}).get("failed")))
    assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE

    took = to_first_pod(scene, api, job, resume(job))

    record_property("seconds to the first pod", round(took, 3))
    assert took < 8, "the Job controller's back-off begins at 10 s"
    assert read(api, job)["metadata"]["uid"] != job["metadata"]["uid"]


@pytest.mark.parametrize("independent", [False, True])
def test_a_rank_that_has_ended_is_started_again_unless_the_ranks_are_declared_independent(
    scene: RealScene, api: Cluster, namespace: str, independent: bool, record_property: Any
) -> None:
    job = make_job(api, namespace, 2)
    if independent:
        change = {"metadata": {"annotations": {INDEPENDENT_RANKS: "true"}}}
        api.patch(paths.jobs(namespace, JOB), change, manager="a-team")
    set_phase(api, pods_of(api, job)[0], "Succeeded")
    wait_until(lambda: bool((read(api, job).get("status") or {}).get("completedIndexes")))
    assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE

    order = resume(job)
    took = to_first_pod(scene, api, job, order, pods=1 if independent else 2)

    record_property("seconds to the first pod", round(took, 3))
    assert (read(api, job)["metadata"]["uid"] == job["metadata"]["uid"]) is independent


def test_a_pod_stuck_on_a_node_that_is_off_is_fenced_and_its_rank_made_again(
    scene: RealScene, api: Cluster, namespace: str, record_property: Any
) -> None:
    job = make_job(api, namespace, 2, podReplacementPolicy="Failed")
    with a_node(api, f"off-{namespace[-8:]}") as node:
        stuck = pods_of(api, job)[0]
        bind(api, stuck, node)
        set_phase(api, stuck, "Running")
        assert until_it_ends(scene, suspend(job), patience=1).cause == "terminating"
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "nodeshutdown"}
        api.patch(paths.nodes(node), {"spec": {"taints": [taint]}}, manager="a-human")
        assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE

        took = to_first_pod(scene, api, job, resume(job))

    record_property("seconds to the first pod", round(took, 3))
    assert read(api, job)["metadata"]["uid"] == job["metadata"]["uid"]


@pytest.mark.parametrize("writes", range(EMPTIED + 1))
def test_killed_between_any_two_writes_the_next_look_finishes_it_once(
    scene: RealScene, api: Cluster, namespace: str, writes: int
) -> None:
    job = failed_job(api, namespace)
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job, keep_off=("bad",)), writes)
    assert (there(api, job) is None) == (writes == DELETED)
    assert (stored(api, job) is not None) == (STORED <= writes <= CREATED)

    look = resume(job, keep_off=("bad",), action="look", look=1)
    to_first_pod(scene, api, job, look)
    made = read(api, job)
    run_all(api, made, 2)
    outcome = until_it_ends(scene, look)

    assert (outcome.result, outcome.epoch) == (OutcomeResult.DONE, 2)
    assert read(api, job)["metadata"]["uid"] == made["metadata"]["uid"]
    assert made["metadata"]["annotations"][REBUILT_FROM] == job["metadata"]["uid"]
    assert stored(api, job) is None


@pytest.mark.parametrize("writes", [0, STORED, MARKED])
def test_a_user_who_deletes_the_job_before_we_may_wins(
    scene: RealScene, api: Cluster, namespace: str, writes: int
) -> None:
    job = failed_job(api, namespace)
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job), writes)
    api.delete(paths.jobs(namespace, JOB))
    wait_until(lambda: there(api, job) is None)

    outcome = scene.perform(resume(job, action="look", look=1))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "gone")
    assert there(api, job) is None
    assert stored(api, job) is None


def test_a_job_that_somebody_else_made_in_its_place_is_not_touched(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = failed_job(api, namespace)
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job), DELETED)
    other = make_job(api, namespace, 1)

    for order in (resume(job, action="look", look=1), fail(job)):
        outcome = scene.perform(order)
        assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "other_object")

    now = read(api, job)
    assert now["metadata"]["uid"] == other["metadata"]["uid"]
    assert now["metadata"]["generation"] == other["metadata"]["generation"]


def test_nothing_is_deleted_while_a_process_may_live(scene: RealScene, api: Cluster, namespace: str) -> None:
    job = make_job(api, namespace, 2)
    first, second = sorted(pods_of(api, job), key=lambda pod: str(pod["metadata"]["name"]))
    with a_node(api, f"on-{namespace[-8:]}") as node:
        bind(api, second, node)
        set_phase(api, second, "Running")
        set_phase(api, first, "Succeeded")
        wait_until(lambda: bool((read(api, job).get("status") or {}).get("completedIndexes")))
        api.patch(paths.jobs(namespace, JOB), {"spec": {"suspend": True}}, manager="a-human")

        outcome = until_it_ends(scene, resume(job), patience=1)

        assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "terminating")
        assert read(api, job)["metadata"]["uid"] == job["metadata"]["uid"]
        assert EVICTED_FOR not in read(api, job)["metadata"].get("annotations", {})
        assert second["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in pods_of(api, job)}
        api.delete(paths.pods(namespace, second["metadata"]["name"]), grace=0)


@pytest.mark.parametrize("step", [resume, fail])
def test_the_new_object_waits_for_processes_that_somebody_started_in_the_old_one_after_all(
    scene: RealScene, api: Cluster, namespace: str, step: Any
) -> None:
    job = make_job(api, namespace, 2)
    set_phase(api, pods_of(api, job)[0], "Succeeded")
    wait_until(lambda: bool((read(api, job).get("status") or {}).get("completedIndexes")))
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job), NOTED)
    api.patch(paths.jobs(namespace, JOB), {"spec": {"suspend": False}}, manager="a-human")
    wait_until(lambda: any(pod["status"]["phase"] == "Pending" for pod in pods_of(api, job)))
    alive = next(pod for pod in pods_of(api, job) if pod["status"]["phase"] == "Pending")
    with a_node(api, f"on-{namespace[-8:]}") as node:
        bind(api, alive, node)
        set_phase(api, alive, "Running")
        api.delete(paths.jobs(namespace, JOB))
        wait_until(lambda: there(api, job) is None)

        outcome = until_it_ends(scene, step(job), patience=1)
        assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "terminating")
        assert there(api, job) is None

        api.delete(paths.pods(namespace, alive["metadata"]["name"]), grace=0)

        def is_made() -> bool:
            """Once the Job controller has let go of the pod of a job that is gone: until then it stands there, ended or not."""
            scene.perform(step(job))
            return there(api, job) is not None

        wait_until(is_made)


def test_a_job_that_a_human_resumed_is_never_deleted(scene: RealScene, api: Cluster, namespace: str) -> None:
    job = make_job(api, namespace, 2)
    set_phase(api, pods_of(api, job)[0], "Succeeded")
    wait_until(lambda: bool((read(api, job).get("status") or {}).get("completedIndexes")))

    outcome = scene.perform(resume(job))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "not_suspended")
    assert read(api, job)["metadata"]["uid"] == job["metadata"]["uid"]
    assert stored(api, job) is None


@pytest.mark.parametrize("step", [suspend, resume])
def test_a_job_whose_own_deadline_has_passed_is_never_made_anew(
    scene: RealScene, api: Cluster, namespace: str, step: Any
) -> None:
    # Its pod goes with it, perhaps before anybody sees it.
    job = api.create(paths.jobs(namespace), job_manifest(JOB, 1, activeDeadlineSeconds=1))
    wait_until(lambda: holds(read(api, job), "Failed"))

    outcome = scene.perform(step(job))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "deadline_exceeded")
    assert read(api, job)["metadata"]["uid"] == job["metadata"]["uid"]
    assert stored(api, job) is None


def test_a_rebuild_that_is_called_off_leaves_neither_mark_nor_manifest(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = failed_job(api, namespace)
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job), NOTED)

    assert scene.perform(resume(job, action="cancel")).result is OutcomeResult.DONE

    assert EVICTED_FOR not in read(api, job)["metadata"].get("annotations", {})
    assert stored(api, job) is None


def refuse_new_jobs(api: Cluster, namespace: str) -> tuple[str, str]:
    """A policy of the cluster that admits no new Job in the namespace; its objects, to be deleted again."""
    name = f"none-{namespace[-8:]}"
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    rule = {
        "apiGroups": ["batch"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["jobs"],
        "scope": "*",
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    constraints = {"resourceRules": [rule], "namespaceSelector": selector}
    says = [{"expression": "false", "message": "no job is made here any more"}]
    api.create(
        policies,
        {
            "metadata": {"name": name},
            "spec": {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": says},
        },
    )
    api.create(
        bindings, {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    )
    return f"{bindings}/{name}", f"{policies}/{name}"


def is_refused(api: Cluster, namespace: str) -> bool:
    try:
        api.create(paths.jobs(namespace), job_manifest("probe", 1), dryRun="All")
    except ApiInvalid as error:
        return "no job is made here" in str(error)
    return False


@real_plane_only("quotas and admission policies are Kubernetes' own")
def test_a_job_that_would_not_be_admitted_again_is_not_deleted(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = failed_job(api, namespace)
    until_it_ends(scene, suspend(job))
    policy = refuse_new_jobs(api, namespace)
    try:
        wait_until(lambda: is_refused(api, namespace))
        order = resume(job)
        outcome = scene.perform(order)
        soon = order.model_copy(update={"deadline": order.not_after.replace(year=2000)})
        last = scene.perform(soon)
    finally:
        for path in policy:
            api.delete(path)

    assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "not_admitted")
    assert "no job is made here" in (outcome.detail or "")
    assert (last.result, last.cause) == (OutcomeResult.FAILED, "not_admitted")
    now = read(api, job)
    assert now["metadata"]["uid"] == job["metadata"]["uid"]
    assert EVICTED_FOR not in now["metadata"].get("annotations", {})


def forbid_jobs(api: Cluster, namespace: str) -> str:
    """A quota that admits no further Job."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    api.create(path, {"metadata": {"name": "none"}, "spec": {"hard": {"count/jobs.batch": "0"}}})
    wait_until(lambda: "used" in (api.get(f"{path}/none").get("status") or {}))
    return f"{path}/none"


def gone_and_forbidden(scene: RealScene, api: Cluster, namespace: str) -> tuple[Object, str]:
    job = failed_job(api, namespace)
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job), DELETED)
    return job, forbid_jobs(api, namespace)


@real_plane_only("quotas and admission policies are Kubernetes' own")
def test_a_refusal_to_create_is_waited_out_then_failed_with_its_cause_and_the_manifest_is_kept(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job, quota = gone_and_forbidden(scene, api, namespace)
    look = resume(job, action="look", look=1)

    outcome = scene.perform(look)
    assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "not_admitted")
    assert "exceeded quota" in (outcome.detail or "")

    soon = look.model_copy(update={"deadline": look.not_after.replace(year=2000)})
    outcome = scene.perform(soon)
    assert (outcome.result, outcome.cause) == (OutcomeResult.FAILED, "not_admitted")
    assert stored(api, job) is not None

    api.delete(quota)
    to_first_pod(scene, api, job, look)
    assert stored(api, job) is None


@real_plane_only("quotas and admission policies are Kubernetes' own")
def test_failing_a_job_of_which_only_the_manifest_is_left_gives_it_back_failed_without_a_pod(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job, quota = gone_and_forbidden(scene, api, namespace)
    assert scene.perform(fail(job)).cause == "not_admitted"
    api.delete(quota)

    assert until_it_ends(scene, fail(job)).result is OutcomeResult.DONE

    now = read(api, job)
    assert holds(now, "Failed") or holds(now, "FailureTarget")
    assert now["metadata"]["annotations"][RUN] == job["metadata"]["uid"]
    assert pods_of(api, now) == []
    assert stored(api, job) is None


@pytest.mark.parametrize("writes", range(STORED, EMPTIED))
def test_a_job_that_is_to_fail_fails_wherever_its_rebuild_was_killed_and_nothing_of_that_is_left(
    scene: RealScene, api: Cluster, namespace: str, writes: int
) -> None:
    job = failed_job(api, namespace)
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job), writes)

    order = fail(job, seconds=50, epoch=2 if writes >= CREATED else 1)
    assert until_it_ends(scene, order).result is OutcomeResult.DONE

    now = read(api, job)
    assert holds(now, "Failed") or holds(now, "FailureTarget")
    assert EVICTED_FOR not in now["metadata"].get("annotations", {})
    left = stored(api, job)
    assert left is None or (writes == STORED and not is_noted(left)), "what is not noted makes nothing anew"


def is_noted(item: Object) -> bool:
    return bool(item["metadata"]["annotations"].get("relight.dev/rebuild-stage") == "marked")


def release(job: Object, **given: Any) -> Command:
    return command(job, StepName.RELEASE_JOB, **given)


def test_releasing_a_job_of_which_only_the_manifest_is_left_gives_it_back_as_it_was(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = failed_job(api, namespace)
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job), DELETED)

    assert scene.perform(release(job)).result is OutcomeResult.DONE

    wait_until(lambda: holds(read(api, job), "Failed"))
    assert pods_of(api, read(api, job)) == []


def test_a_halted_run_that_was_going_is_given_back_going_without_being_named(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    set_phase(api, pods_of(api, job)[0], "Succeeded")
    wait_until(lambda: bool((read(api, job).get("status") or {}).get("completedIndexes")))
    until_it_ends(scene, suspend(job))
    killed_after(scene, api, resume(job), DELETED)

    order = release(job, epoch=0).model_copy(update={"arguments": {}})
    assert scene.perform(order).result is OutcomeResult.DONE

    wait_until(lambda: len(pods_of(api, read(api, job))) == 2)
    assert stored(api, job) is None
