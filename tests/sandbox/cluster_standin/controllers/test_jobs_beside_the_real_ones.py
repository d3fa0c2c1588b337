"""What Kubernetes' Job controller does to a Job and its pods, ours does: the same scenario on both, the same facts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime import paths
from runtime.kubernetes import Object
from tests.sandbox.cluster_standin.controllers.play import Outcomes
from tests.sandbox.cluster_standin.controllers.side import Side

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.timeout(300)]

IGNORE_DISRUPTION = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


def facts(job: Object) -> dict[str, Any]:
    """A Job's status without times and UIDs."""
    status = job["status"]
    uncounted = {
        kind: len(uids or []) for kind, uids in (status.get("uncountedTerminatedPods") or {}).items()
    }
    numbers = ("active", "ready", "terminating", "succeeded", "failed", "completedIndexes")
    return {
        "conditions": [
            (one["type"], one["status"], one.get("reason"), one.get("message"))
            for one in status.get("conditions") or []
        ],
        "uncounted": {kind: count for kind, count in uncounted.items() if count},
        "started": "startTime" in status,
        "completed": "completionTime" in status,
        **{name: status.get(name) for name in numbers},
    }


def settled(side: Side, name: str, **wanted: Any) -> dict[str, Any]:
    """The facts once some of them are as they should become."""

    def as_wanted(found: dict[str, Any]) -> bool:
        kinds = [one[0] for one in found["conditions"] if one[1] == "True"]
        return all(key in kinds if value is ... else found[key] == value for key, value in wanted.items())

    return side.until(lambda: facts(side.job(name)), as_wanted)


def looks(pod: Object, job: Object) -> dict[str, Any]:
    """A pod without what is random in it."""
    metadata, spec = pod["metadata"], pod["spec"]
    found = {
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "finalizers": metadata["finalizers"],
        "owners": metadata["ownerReferences"],
        "prefix": metadata["generateName"],
        "hostname": spec["hostname"],
        "env": [container.get("env") for container in (*spec.get("initContainers", []), *spec["containers"])],
        "phase": pod["status"]["phase"],
    }
    return dict(json.loads(json.dumps(found).replace(job["metadata"]["uid"], "UID")))


def its_pods_look_the_same(side: Side) -> Any:
    init = {"name": "first", "image": "none", "env": [{"name": "A", "value": "b"}]}
    long = "a-name-that-is-" + "very-" * 7 + "long"
    side.make_job(long, 2, {"initContainers": [init]})
    pods = side.pods(2)
    job = side.job(long)
    return [looks(pod, job) for pod in pods], settled(side, long, active=2)


def test_its_pods_look_the_same(outcomes: Outcomes) -> None:
    theirs = outcomes.same(its_pods_look_the_same)

    assert "JOB_COMPLETION_INDEX" in str(theirs)


def a_job_whose_pods_all_succeed_is_complete(side: Side) -> Any:
    side.make_job("a", 3)
    for pod in side.pods(3):
        side.say(pod, "Running")
    running = settled(side, "a", ready=3)
    for pod in side.pods(3)[:2]:
        side.say(pod, "Succeeded", 0)
    some = settled(side, "a", succeeded=2, active=1)
    side.say(side.pods(3)[2], "Succeeded", 0)
    all_ = settled(side, "a", Complete=...)
    return running, some, all_, [pod["metadata"].get("finalizers") for pod in side.pods(3)]


def test_a_job_whose_pods_all_succeed_is_complete(outcomes: Outcomes) -> None:
    theirs = outcomes.same(a_job_whose_pods_all_succeed_is_complete)

    assert theirs[2]["completedIndexes"] == "0-2"


def a_failure_beyond_the_limit_fails_the_job_once_its_pods_have_ended(side: Side) -> Any:
    side.make_job("a", 3, {"nodeName": "nowhere"})
    for pod in side.pods(3):
        side.say(pod, "Running")
    settled(side, "a", ready=3)
    side.say(side.pods(3)[1], "Failed", 1)
    target = settled(side, "a", FailureTarget=..., uncounted={}, failed=3)
    leaving = [pod for pod in side.pods(3) if "deletionTimestamp" in pod["metadata"]]
    side.end(leaving)
    return target, len(leaving), settled(side, "a", Failed=...)


def test_a_failure_beyond_the_limit_fails_the_job_once_its_pods_have_ended(outcomes: Outcomes) -> None:
    theirs = outcomes.same(a_failure_beyond_the_limit_fails_the_job_once_its_pods_have_ended)

    assert theirs[1] == 2
    assert theirs[2]["conditions"][-1][2] == "BackoffLimitExceeded"


def a_suspended_job_loses_its_pods_uncounted_and_is_resumed_with_another_template(side: Side) -> Any:
    side.make_job("a", 2, {"nodeName": "nowhere"})
    for pod in side.pods(2):
        side.say(pod, "Running")
    settled(side, "a", ready=2)
    side.change_job("a", suspend=True)
    suspending = settled(side, "a", Suspended=...)
    side.end(side.pods(2))
    suspended = settled(side, "a", terminating=0)
    gone = side.pods(0)
    annotated = {"metadata": {"annotations": {"relight.dev/epoch": "2"}}}
    side.change_job("a", template=annotated)
    side.change_job("a", suspend=False)
    pods = side.pods(2)
    epochs = [pod["metadata"]["annotations"]["relight.dev/epoch"] for pod in pods]
    return suspending, suspended, gone, epochs, settled(side, "a", active=2, started=True)


def test_a_suspended_job_loses_its_pods_uncounted_and_is_resumed_with_another_template(
    outcomes: Outcomes,
) -> None:
    theirs = outcomes.same(a_suspended_job_loses_its_pods_uncounted_and_is_resumed_with_another_template)

    assert theirs[1]["started"] is False
    assert theirs[1]["failed"] is None


def a_job_created_suspended_makes_no_pod(side: Side) -> Any:
    side.make_job("a", 2, suspend=True)
    return settled(side, "a", Suspended=...), side.pods()


def test_a_job_created_suspended_makes_no_pod(outcomes: Outcomes) -> None:
    theirs = outcomes.same(a_job_created_suspended_makes_no_pod)

    assert theirs[1] == []


def a_disruption_the_policy_ignores_is_replaced_and_not_counted(side: Side) -> Any:
    side.make_job("a", 2, {"nodeName": "nowhere"}, podFailurePolicy=IGNORE_DISRUPTION)
    pods = side.pods(2)
    for pod in pods:
        side.say(pod, "Running")
    settled(side, "a", ready=2)
    side.mark(pods[0], "DeletionByTaintManager")
    side.delete(pods[0])
    terminating = settled(side, "a", terminating=1)
    waiting = len(side.pods())
    side.end([pods[0]])
    side.until(
        side.pods,
        lambda found: pods[0]["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in found},
    )
    return terminating, waiting, settled(side, "a", terminating=0)


def test_a_disruption_the_policy_ignores_is_replaced_and_not_counted(outcomes: Outcomes) -> None:
    theirs = outcomes.same(a_disruption_the_policy_ignores_is_replaced_and_not_counted)

    assert theirs[2]["failed"] is None


rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}


def a_policy_may_fail_the_job_for_an_exit_code(side: Side) -> Any:
    side.make_job("a", 2, {"nodeName": "nowhere"}, backoffLimit=6, podFailurePolicy={"rules": [rule]})
    pods = side.pods(2)
    side.say(pods[1], "Failed", 42)
    settled(side, "a", FailureTarget=...)
    side.end([pods[0]])
    ended = settled(side, "a", Failed=...)
    name = pods[1]["metadata"]["name"]
    return repr(ended).replace(f"{side.namespace}/{name}", "POD")


def test_a_policy_may_fail_the_job_for_an_exit_code(outcomes: Outcomes) -> None:
    theirs = outcomes.same(a_policy_may_fail_the_job_for_an_exit_code)

    assert "PodFailurePolicy" in theirs


def a_deadline_that_passes_fails_the_job(side: Side) -> Any:
    side.make_job("a", 1, activeDeadlineSeconds=1)
    return settled(side, "a", Failed=...), side.pods()


def test_a_deadline_that_passes_fails_the_job(outcomes: Outcomes) -> None:
    theirs = outcomes.same(a_deadline_that_passes_fails_the_job)

    assert theirs[0]["conditions"][-1][2] == "DeadlineExceeded"


def a_job_that_shrinks_loses_its_last_pods(side: Side) -> Any:
    side.make_job("a", 3)
    side.pods(3)
    side.change_job("a", parallelism=1, completions=1)
    pods = side.active(1)
    return [pod["metadata"]["annotations"] for pod in pods], settled(side, "a", active=1, terminating=0)


def test_a_job_that_shrinks_loses_its_last_pods(outcomes: Outcomes) -> None:
    outcomes.same(a_job_that_shrinks_loses_its_last_pods)


def a_deleted_job_takes_its_pods_along(side: Side) -> Any:
    side.make_job("a", 2)
    side.pods(2)
    side.api.delete(paths.jobs(side.namespace, "a"))
    return side.pods(0), side.is_there(paths.jobs(side.namespace, "a"))


def test_a_deleted_job_takes_its_pods_along(outcomes: Outcomes) -> None:
    theirs = outcomes.same(a_deleted_job_takes_its_pods_along)

    assert theirs == ([], False)


def a_plain_job_counts_its_pods_without_indexes(side: Side) -> Any:
    side.make_job("a", 2, completionMode="NonIndexed", parallelism=1)
    (first,) = side.active(1)
    side.say(first, "Succeeded", 0)
    (second,) = side.active(1)
    some = settled(side, "a", succeeded=1, active=1, uncounted={})
    side.say(second, "Succeeded", 0)
    return some, settled(side, "a", Complete=...)


def test_a_plain_job_counts_its_pods_without_indexes(outcomes: Outcomes) -> None:
    theirs = outcomes.same(a_plain_job_counts_its_pods_without_indexes)

    assert theirs[1]["succeeded"] == 2


SCENARIOS = {
    f"test_{one.__name__}": one
    for one in (
        a_suspended_job_loses_its_pods_uncounted_and_is_resumed_with_another_template,
        its_pods_look_the_same,
        a_job_whose_pods_all_succeed_is_complete,
        a_failure_beyond_the_limit_fails_the_job_once_its_pods_have_ended,
        a_job_created_suspended_makes_no_pod,
        a_disruption_the_policy_ignores_is_replaced_and_not_counted,
        a_policy_may_fail_the_job_for_an_exit_code,
        a_deadline_that_passes_fails_the_job,
        a_job_that_shrinks_loses_its_last_pods,
        a_deleted_job_takes_its_pods_along,
        a_plain_job_counts_its_pods_without_indexes,
    )
}
