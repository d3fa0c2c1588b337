"""What is told of a Job: who it is, how large, under whose care, and how it ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from producers.cluster.settings import WatchSettings
from runtime.kubernetes import Object
from schemas.cluster import EVICTED_FOR, INJECTED
from schemas.facts import IssueState, PodBound, PodEnded, RunEnded, RunSeen
from tests.producers.cluster.objects import (
    START,
    FakeCluster,
    make_job,
    make_node,
    make_pod,
    stamp,
    terminated,
)


def seen_of(job: Object, **settings: Any) -> RunSeen:
    cluster = FakeCluster(WatchSettings(**settings))
    cluster.put(job)
    (seen,) = cluster.of(RunSeen)
    assert isinstance(seen, RunSeen)
    return seen


def finished(kind: str, *, at: Any = START, **more: str) -> Object:
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": stamp(at), **more}]
    return {"conditions": conditions, **({"completionTime": stamp(at)} if kind == "Complete" else {})}


# ------------------------------------------------------------ identity


def test_a_run_is_its_first_objects_uid() -> None:
    seen = seen_of(make_job("train", "job-1"))
    assert (seen.run, seen.object_uid, seen.epoch) == ("job-1", "job-1", 1)


def test_a_rebuilt_object_says_which_run_it_carries_and_in_which_issue() -> None:
    annotations = {"relight.dev/run": "job-0", "relight.dev/epoch": "4"}
    seen = seen_of(make_job("train", "job-1", metadata={"annotations": annotations}))
    assert (seen.run, seen.object_uid, seen.epoch) == ("job-0", "job-1", 4)


@pytest.mark.parametrize("epoch", ["", "0", "-1", "two", "٣", "99999999999999"])
def test_an_epoch_that_is_none_is_the_first(epoch: str) -> None:
    assert seen_of(make_job("t", "j", metadata={"annotations": {"relight.dev/epoch": epoch}})).epoch == 1


def test_an_epoch_never_falls() -> None:
    cluster = FakeCluster()
    cluster.put(make_job("t", "j", metadata={"annotations": {"relight.dev/epoch": "3"}}))
    cluster.change("j", lambda job: job["metadata"].update(annotations={"relight.dev/epoch": "2"}))
    cluster.change("j", lambda job: job["metadata"].update(annotations={}))
    assert [seen.epoch for seen in cluster.of(RunSeen)] == [3, 3, 3]


def test_only_annotations_of_ours_and_of_the_seeds_are_told_and_bounded() -> None:
    annotations = {
        "fault-tolerance/job-retry-num": "3",
        "relight/rto-objective": "5m",
        "kubectl.kubernetes.io/last-applied-configuration": "secret",
        "relight.dev/long": "x" * 5000,
        "relight.dev/" + "y" * 300: "1",
        "fault-tolerance/number": 7,
    }
    seen = seen_of(make_job("t", "j", metadata={"annotations": annotations}))
    assert set(seen.annotations) == {
        "fault-tolerance/job-retry-num",
        "relight/rto-objective",
        "relight.dev/long",
    }
    assert len(seen.annotations["relight.dev/long"]) == 2000


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 4}, 4),
        ({"parallelism": 4, "completions": 100}, 4),
        ({"parallelism": 8, "completions": 2}, 2),
        ({"parallelism": 0, "completions": 3}, 1),
    ],
)
def test_the_size_is_what_runs_at_a_time(spec: Object, size: int) -> None:
    job = make_job("t", "j")
    job["spec"] = {**spec, "template": job["spec"]["template"]}
    assert seen_of(job).size == size


# ------------------------------------------------------------ care


def test_a_run_is_supervised_when_its_template_was_injected() -> None:
    job = make_job("t", "j")
    assert not seen_of(job).supervised
    job["spec"]["template"]["metadata"]["annotations"][INJECTED] = "1"
    assert seen_of(job).supervised


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [
        ({"ownerReferences": [{"kind": "JobSet", "name": "s", "uid": "u", "controller": True}]}, {}),
        ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, {}),
        ({}, {"managedBy": "kueue.x-k8s.io/multikueue"}),
    ],
    ids=["owned", "queued", "managed by another"],
)
def test_a_job_under_another_controller_has_no_adapter(metadata: Object, spec: Object) -> None:
    assert not seen_of(make_job("t", "j", metadata=metadata, spec=spec), every_job=True).supported


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [
        ({}, {}),
        ({"ownerReferences": [{"kind": "Team", "name": "s", "uid": "u"}]}, {}),
        ({}, {"managedBy": "kubernetes.io/job-controller"}),
    ],
    ids=["alone", "owned, not controlled", "managed by Kubernetes"],
)
def test_a_job_that_is_its_own_master_has_an_adapter(metadata: Object, spec: Object) -> None:
    assert seen_of(make_job("t", "j", metadata=metadata, spec=spec), every_job=True).supported


def _plain() -> Object:
    job = make_job("t", "j", metadata={"annotations": {"team/note": "x"}})
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return job


def test_a_job_without_chips_and_without_a_word_to_us_is_none_of_ours() -> None:
    cluster = FakeCluster()
    cluster.put(make_node("n1", "node-1"), _plain(), make_pod(_plain(), "p", node="n1"))
    assert not cluster.of(RunSeen)
    assert not cluster.of(PodBound)


def test_a_setting_has_every_job_told() -> None:
    assert seen_of(_plain(), every_job=True).run == "j"


def test_a_job_that_is_annotated_later_is_told_with_its_pods() -> None:
    cluster = FakeCluster()
    cluster.put(make_node("n1", "node-1"), _plain(), make_pod(_plain(), "p", node="n1"))
    cluster.change(
        "j", lambda job: job["metadata"]["annotations"].update({"fault-tolerance/job-retry-num": "1"})
    )
    assert [telling.payload.TYPE.split(".")[3] for telling in cluster.told[1:]][:2] == [
        "run_seen",
        "pod_bound",
    ]


def test_switching_recovery_off_is_told() -> None:
    cluster = FakeCluster()
    cluster.put(_plain())
    cluster.change(
        "j", lambda job: job["metadata"]["annotations"].update({"fault-tolerance/job-retry-num": "1"})
    )
    cluster.change("j", lambda job: job["metadata"]["annotations"].pop("fault-tolerance/job-retry-num"))
    assert [seen.annotations for seen in cluster.of(RunSeen)] == [{"fault-tolerance/job-retry-num": "1"}, {}]


def test_what_does_not_matter_is_not_told_again() -> None:
    cluster = FakeCluster()
    cluster.put(make_job("t", "j"))
    for number in range(5):
        cluster.change("j", lambda job, n=number: job["status"].update(active=n))  # type: ignore[misc]
    assert len(cluster.of(RunSeen)) == 1


# ------------------------------------------------------------ ends


@pytest.mark.parametrize(("kind", "how"), [("Complete", "succeeded"), ("Failed", "failed")])
def test_an_end_is_told_once_with_its_time(kind: str, how: str) -> None:
    cluster = FakeCluster()
    cluster.put(make_job("t", "j"))
    at = START + timedelta(seconds=30)
    cluster.pass_time(60)
    status = finished(kind, at=at, reason="BackoffLimitExceeded", message="too many")
    cluster.change("j", lambda job: job.update(status=status))
    cluster.change("j", lambda job: job["status"].update(active=0))
    cluster.remove("j")
    (ended,) = [telling for telling in cluster.told if isinstance(telling.payload, RunEnded)]
    assert (ended.payload.how, ended.payload.object_uid, ended.time) == (how, "j", at)  # type: ignore[attr-defined]
    assert cluster.of(RunEnded)[0].detail == ("BackoffLimitExceeded: too many" if how == "failed" else None)


def test_a_condition_that_is_not_true_is_no_end() -> None:
    cluster = FakeCluster()
    cluster.put(make_job("t", "j", status={"conditions": [{"type": "Failed", "status": "False"}]}))
    assert not cluster.of(RunEnded)


def test_a_user_who_deletes_a_job_ends_the_run() -> None:
    cluster = FakeCluster()
    cluster.put(make_job("t", "j"))
    cluster.remove("j")
    assert [(end.how, end.object_uid) for end in cluster.of(RunEnded)] == [("deleted", "j")]


def test_a_job_that_waits_for_its_pods_to_go_has_ended() -> None:
    """Else their ends, seconds before the object goes, would look like ends of their own."""
    cluster = FakeCluster()
    cluster.put(make_job("t", "j"))
    cluster.change("j", lambda job: job["metadata"].update(deletionTimestamp=stamp(START)))
    assert [end.how for end in cluster.of(RunEnded)] == ["deleted"]
    cluster.remove("j")
    assert len(cluster.of(RunEnded)) == 1


@pytest.mark.parametrize("foreground", [True, False])
def test_our_own_rebuild_is_no_end_and_the_run_goes_on(*, foreground: bool) -> None:
    cluster = FakeCluster()
    cluster.put(make_node("n1", "node-1"), make_job("t", "j", size=1))
    cluster.change("j", lambda job: job["metadata"]["annotations"].update({EVICTED_FOR: "incident"}))
    if foreground:
        cluster.change("j", lambda job: job["metadata"].update(deletionTimestamp=stamp(START)))
    cluster.remove("j")
    rebuilt = make_job(
        "t", "j2", size=1, metadata={"annotations": {"relight.dev/run": "j", "relight.dev/epoch": "2"}}
    )
    cluster.put(rebuilt, make_pod(rebuilt, "p2", node="n1", epoch="2"))
    assert not cluster.of(RunEnded)
    last = cluster.of(RunSeen)[-1]
    assert (last.run, last.object_uid, last.epoch) == ("j", "j2", 2)
    assert [bound.placement.run for bound in cluster.of(PodBound)] == ["j"]
    assert (cluster.of(IssueState)[-1].state, cluster.of(IssueState)[-1].epoch) == ("complete", 2)


def test_a_failed_run_goes_on_when_its_object_is_made_anew() -> None:
    cluster = FakeCluster()
    cluster.put(make_node("n1", "node-1"), make_job("t", "j"))
    cluster.change("j", lambda job: job.update(status=finished("Failed")))
    rebuilt = make_job(
        "t", "j2", at=START + timedelta(seconds=9), metadata={"annotations": {"relight.dev/run": "j"}}
    )
    cluster.put(rebuilt)
    cluster.remove("j")  # the old object goes after the new one came
    cluster.put(make_pod(rebuilt, "p2", node="n1"))
    assert [seen.object_uid for seen in cluster.of(RunSeen)] == ["j", "j2"]
    assert [end.object_uid for end in cluster.of(RunEnded)] == ["j"]
    assert len(cluster.of(PodBound)) == 1
    cluster.change("j2", lambda job: job.update(status=finished("Complete")))
    assert [(end.object_uid, end.how) for end in cluster.of(RunEnded)] == [
        ("j", "failed"),
        ("j2", "succeeded"),
    ]


def test_the_older_of_two_objects_of_a_run_says_nothing() -> None:
    cluster = FakeCluster()
    cluster.put(make_job("t", "j2", at=START, metadata={"annotations": {"relight.dev/run": "j"}}))
    cluster.put(make_job("t", "j", at=START - timedelta(hours=1), size=7))
    cluster.remove("j")
    assert [seen.object_uid for seen in cluster.of(RunSeen)] == ["j2"]
    assert not cluster.of(RunEnded)


def test_a_run_that_succeeded_is_not_begun_again_by_a_copy_of_its_manifest() -> None:
    cluster = FakeCluster()
    cluster.put(make_job("t", "j"))
    cluster.change("j", lambda job: job.update(status=finished("Complete")))
    cluster.remove("j")
    copy = make_job("t", "j9", metadata={"annotations": {"relight.dev/run": "j"}})
    cluster.put(make_node("n1", "node-1"), copy, make_pod(copy, "p", node="n1"))
    assert len(cluster.of(RunSeen)) == 1
    assert not cluster.of(PodBound)


def test_what_ended_long_ago_and_was_never_told_is_old_news() -> None:
    cluster = FakeCluster()
    old = START - timedelta(hours=30)
    job = make_job("t", "j", at=old, status=finished("Failed", at=old))
    pod = make_pod(job, "p", node="n1", at=old)
    pod["status"].update(phase="Failed", containerStatuses=[terminated(1, at=old)])
    cluster.put(make_node("n1", "node-1"), job, pod)
    assert not cluster.of(RunSeen)
    assert not cluster.of(RunEnded)
    assert not cluster.of(PodEnded)


def test_what_came_and_went_while_nobody_looked_is_told_whole() -> None:
    cluster = FakeCluster()
    cluster.put(make_node("n1", "node-1"))
    cluster.deaf = True
    job = make_job("t", "j", size=1, status=finished("Failed"))
    pod = make_pod(job, "p", node="n1")
    pod["status"].update(phase="Failed", containerStatuses=[terminated(7)])
    cluster.put(job, pod)
    cluster.pass_time(600)
    cluster.deaf = False
    kinds = [telling.payload.TYPE.split(".")[3] for telling in cluster.restart()]
    assert kinds == ["run_seen", "pod_bound", "process_exit", "pod_ended", "run_ended"]


# ------------------------------------------------------------ issues


def issues(cluster: FakeCluster) -> list[tuple[int, str, int]]:
    return [(issue.epoch, issue.state, issue.missing) for issue in cluster.of(IssueState)]


def test_an_issue_is_incomplete_until_all_its_pods_are_bound_and_when_one_is_lost() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j", size=3)
    cluster.put(make_node("n1", "node-1"), job)
    for rank in range(3):
        cluster.put(make_pod(job, f"p{rank}", node="n1", rank=rank))
    cluster.remove("p1")
    cluster.remove("p2")
    cluster.put(make_pod(job, "p3", node="n1", rank=1))
    cluster.put(make_pod(job, "p4", node="n1", rank=2))
    assert issues(cluster) == [
        (1, "incomplete", 3),
        (1, "complete", 0),
        (1, "incomplete", 1),
        (1, "complete", 0),
    ]


def test_a_pod_that_is_pending_or_going_is_missing() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j", size=1)
    cluster.put(make_node("n1", "node-1"), job, make_pod(job, "p0"))
    assert issues(cluster) == [(1, "incomplete", 1)]
    cluster.change("p0", lambda pod: pod["spec"].update(nodeName="n1"))
    cluster.change("p0", lambda pod: pod["metadata"].update(deletionTimestamp=stamp(START)))
    assert issues(cluster)[1:] == [(1, "complete", 0), (1, "incomplete", 1)]


def test_a_pod_that_has_done_its_part_is_not_missing() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j", size=2)
    cluster.put(
        make_node("n1", "node-1"), job, make_pod(job, "p0", node="n1"), make_pod(job, "p1", node="n1", rank=1)
    )
    cluster.change(
        "p0", lambda pod: pod["status"].update(phase="Succeeded", containerStatuses=[terminated(0)])
    )
    assert issues(cluster)[-1] == (1, "complete", 0)


def test_a_suspended_run_misses_nothing() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j", size=1)
    cluster.put(make_node("n1", "node-1"), job, make_pod(job, "p0", node="n1"))
    cluster.change("j", lambda item: item["spec"].update(suspend=True))
    cluster.remove("p0")
    assert issues(cluster) == [(1, "incomplete", 1), (1, "complete", 0)]
    cluster.change("j", lambda item: item["spec"].update(suspend=False))
    assert issues(cluster)[-1] == (1, "incomplete", 1)


def test_nothing_is_missing_before_everything_was_listed() -> None:
    """A successor reads Jobs first: their pods are not missing, they are not read yet."""
    cluster = FakeCluster()
    job = make_job("t", "j", size=2)
    cluster.put(
        make_node("n1", "node-1"), job, make_pod(job, "p0", node="n1"), make_pod(job, "p1", node="n1", rank=1)
    )
    assert cluster.restart() == []
    assert issues(cluster) == [(1, "incomplete", 2), (1, "complete", 0)]
