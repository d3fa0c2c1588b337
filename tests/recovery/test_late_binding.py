"""A run that comes to a node on which an isolate-class condition stands already is told of it exactly once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from schemas.facts import PodBound, RunSeen, WorkloadKind
from schemas.ids import node_subject, run_subject
from schemas.mailbox import NodeNews
from schemas.signals import FaultState, Placement
from tests.recovery.world import Pod, World, node

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def world(**annotations: Any) -> World:
    running = World(nodes=("n1", "n2", "n3", "n4", "n5"))
    return running.begin(**{"job_retry_num": "5", **annotations})


def news(running: World, run: str = "r1") -> list[NodeNews]:
    told = (event.data for event, _ in running.inbox if event.subject == run_subject(run))
    return [data for data in told if isinstance(data, NodeNews)]


def bind(running: World, on: str) -> None:
    """One more pod of the run, on this node."""
    pod = Pod(uid=f"late-{on}-{len(running.pods)}", node=on, rank=7, epoch=running.epoch)
    running.pods[pod.uid] = pod
    running._tell_bound(pod)
    running.settle()


def test_a_condition_that_was_judged_before_is_handed_on_and_moves_the_run() -> None:
    running = world()
    running.condition("not-ready", on="n3")
    running.settle(5 * MINUTE)
    assert news(running) == []
    bind(running, "n3")
    assert [told.code for told in news(running)] == ["not-ready"]
    running.settle(MINUTE)
    assert running.begun() == ["suspend_job", "resume_job"]
    assert running.held == {"n3"}


def test_neither_a_second_pod_nor_a_resync_tells_it_again() -> None:
    running = world()
    running.condition("not-ready", on="n3")
    running.settle(5 * MINUTE)
    bind(running, "n3")
    bind(running, "n3")
    running.repeat_pods()
    running.settle(SECOND)
    assert len(news(running)) == 1


def test_each_run_that_comes_is_told_once() -> None:
    running = world()
    running.condition("not-ready", on="n3")
    running.settle(5 * MINUTE)
    other = RunSeen(
        run="r2",
        workload=WorkloadKind.JOB,
        namespace="team",
        name="other",
        object_uid="job-2",
        epoch=1,
        size=1,
        supervised=True,
    )
    running.post(run_subject("r2"), other)
    bound = PodBound(node=node("n3"), placement=Placement(run="r2", pod_uid="p", rank=0, epoch=1))
    running.post(node_subject("n3"), bound)
    bind(running, "n3")
    assert (len(news(running)), len(news(running, "r2"))) == (1, 1)


def test_within_its_grace_it_is_told_at_the_end_of_it_and_not_before() -> None:
    running = world()
    running.condition("not-ready", on="n3")
    running.settle(30 * SECOND)
    bind(running, "n3")
    assert news(running) == []
    running.settle(31 * SECOND)
    assert len(news(running)) == 1


def test_what_was_seen_clear_is_not_handed_on() -> None:
    running = world()
    running.condition("not-ready", on="n3")
    running.settle(5 * MINUTE)
    running.condition("not-ready", on="n3", state=FaultState.CLEARED)
    bind(running, "n3")
    running.settle(MINUTE)
    assert news(running) == []
    assert running.begun() == []


def test_what_only_keeps_new_work_away_moves_nobody() -> None:
    running = world()
    running.condition("kernel-deadlock", on="n3")
    running.condition("memory-pressure", on="n3")
    running.settle(5 * MINUTE)
    bind(running, "n3")
    running.settle(MINUTE)
    assert news(running) == []
    assert running.begun() == []
