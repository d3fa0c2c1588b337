"""A hardware fault that is heard of after the restart it explains: gives back, isolates, stops nothing healthy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from schemas.envelope import Event
from schemas.ids import node_subject, run_subject
from schemas.signals import ChipFault, ChipRef, FaultState, Placement
from tests.recovery.world import BROKEN, HBM, USER, World, node

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def restarted() -> World:
    """A run that was restarted unconditionally and lives on nodes 2 and 3, or 1 and 2, in its second issue."""
    world = World().begin(job_retry_num="5", job_unconditional_retry="true")
    world.held.add("n1")  # the scheduler happens to place it elsewhere
    world.exit(1)
    world.settle(20 * SECOND)
    world.held.clear()
    assert world.counters.schedule_count == 2
    return world


def old_fault(
    world: World, code: str = BROKEN, *, on: str = "n1", back: timedelta = MINUTE, **more: Any
) -> Event:
    """A fault under the first issue's pod, told now."""
    data = ChipFault(
        node=node(on),
        placement=Placement(run=world.run, pod_uid="pod-1", rank=0, epoch=1),
        chip=ChipRef(id=f"{on}-c0", index=0),
        namespace="ascend",
        code=code,
        state=FaultState.ONCE,
    )
    event = world.post(run_subject(world.run), data, time=world.now - back, **more)
    world.post(node_subject(on), data, time=world.now - back, id=event.id)
    world.settle(30 * SECOND)
    return event


def test_it_gives_back_retry_and_chain_isolates_and_leaves_the_healthy_epoch_running() -> None:
    world = restarted()
    assert (world.counters.job_retries_used, world.counters.unconditional_chain) == (1, 1)
    old_fault(world)
    assert (world.counters.job_retries_used, world.counters.unconditional_chain) == (0, 0)
    assert world.held == {"n1"}
    assert world.begun() == ["suspend_job", "resume_job"]
    assert "correct" in world.verdicts()


def test_it_gives_back_once_however_many_faults_follow() -> None:
    world = restarted()
    for code in (BROKEN, BROKEN, "80A18008"):
        old_fault(world, code)
    assert world.counters.job_retries_used == 0
    assert world.verdicts().count("correct") == 1
    assert world.counters.schedule_count == 2


@pytest.mark.parametrize("code", [USER], ids=["user class"])
def test_a_user_fault_corrects_and_isolates_nothing(code: str) -> None:
    world = restarted()
    old_fault(world, code)
    assert (world.counters.job_retries_used, world.counters.unconditional_chain) == (1, 1)
    assert not world.held
    assert world.begun() == ["suspend_job", "resume_job"]


def test_after_300_seconds_nothing_is_given_back_and_the_healthy_epoch_still_runs() -> None:
    world = restarted()
    world.settle(6 * MINUTE)
    old_fault(world, back=7 * MINUTE)
    assert world.counters.job_retries_used == 1
    assert world.held == {"n1"}  # by the node's own word
    assert world.begun() == ["suspend_job", "resume_job"]
    assert world.rules()[-1] == "past-issue"


def test_while_the_rebuild_waits_for_capacity_it_corrects_and_begins_no_other_attempt() -> None:
    world = World().begin(job_retry_num="5", job_unconditional_retry="true")
    world.down.update({"n1", "n2", "n3"})
    world.exit(1)
    world.settle(20 * SECOND)
    assert world.begun() == ["suspend_job", "resume_job"]
    old_fault(world)
    assert world.counters.job_retries_used == 0
    world.down.clear()
    world.settle(MINUTE)
    assert world.begun() == ["suspend_job", "resume_job"]
    assert {pod.node for pod in world.pods.values()} == {"n2", "n3"}


def test_a_fault_of_a_past_issue_explains_no_later_end() -> None:
    world = restarted()
    old_fault(world, HBM)
    world.exit(1, on="n2")
    world.settle(MINUTE)
    assert world.rules()[-1] == "end-unconditional"


@pytest.mark.parametrize(("seconds", "isolated"), [(9.9, True), (10.1, False)])
def test_the_window_ends_after_ten_seconds(seconds: float, isolated: bool) -> None:
    world = World().begin(job_retry_num="5", job_unconditional_retry="true")
    world.exit(1)
    world.settle(timedelta(seconds=seconds))
    first = world.rules()[-1]
    assert (first == "abnormal-exit") is isolated
    world.fault(BROKEN, settle=False, placed=isolated)
    world.settle(MINUTE)
    assert ("end-unconditional" in world.rules()) is not isolated
    assert world.held == {"n1"}
