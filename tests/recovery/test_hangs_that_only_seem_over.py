"""A recovery of a hang is given up only for what was said, of every pod, by those who must know; and only before anything was done.

What one may take for processes that move again: a pod that vanished, a mailbox that lost messages, another system's word, a start that follows.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas.commands import OutcomeResult, StepName
from schemas.envelope import Trust
from schemas.ids import run_subject
from schemas.mailbox import CancelIncidentOrder, PartitionGap
from schemas.records import IncidentResult, IncidentState
from schemas.signals import HangEvidence, ProcessState, ProcessStateName
from tests.recovery.histories import order
from tests.recovery.test_hangs_that_are_over import AWAY, MINUTE, SECOND, answer_late, asked, stalled, tell
from tests.recovery.world import Pod, World, silent


def only(running: World) -> Pod:
    (pod,) = running.pods.values()
    return pod


def is_asked_again(running: World, step: StepName = StepName.STOP_PROCESSES) -> bool:
    """After an actuator has refused, as read too late, all that it was asked."""
    before = len(asked(running, step))
    answer_late(running, asked(running, step)[-1])
    running.settle(20 * SECOND)
    return len(asked(running, step)) > before


def test_looks_at_absent_actuators_end_when_all_move_and_then_it_is_given_up() -> None:
    """Each look has a time of its own: one that is read in time would stop the processes after all."""
    running = stalled()
    running.settle(50 * SECOND)
    looks = len(asked(running))
    assert looks > 1
    tell(running, only(running), "moving")
    running.settle(AWAY)
    assert len(asked(running)) == looks

    for command in asked(running):
        assert running.incident is not None
        assert running.incident.open
        answer_late(running, command)
    assert running.incidents[-1].result is IncidentResult.CANCELLED
    assert running.counters.hang_chain == 0


def test_it_is_given_up_as_well_where_the_one_before_it_is_not_known_to_be_stable() -> None:
    running = World(size=1).begin(job_retry_num="3", hang_retry="true")
    running.stall()
    running.settle(MINUTE)
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING
    running.scripts[StepName.STOP_PROCESSES] = silent
    tell(running, only(running), "stalled", 2)
    assert running.counters.hang_chain == 2
    tell(running, only(running), "moving", 2)

    assert not is_asked_again(running)
    assert running.incidents[-1].result is IncidentResult.CANCELLED
    assert running.counters.hang_chain == 1


@pytest.mark.parametrize("replaced", [True, False], ids=["made anew", "gone"])
def test_a_pod_that_went_away_did_not_move(*, replaced: bool) -> None:
    running = stalled(size=2)
    first, second = running.pods.values()
    tell(running, second, "moving")
    running.take_away(first)
    if replaced:
        running.place([first.node])
    running.settle()

    assert is_asked_again(running)


def test_one_that_moved_and_vanished_since_leaves_a_run_that_is_not_whole() -> None:
    running = stalled(size=2)
    for pod in list(running.pods.values()):
        tell(running, pod, "moving")
    running.take_away(running.pod_on("n1"), "lost", gone=False)
    running.settle()

    assert is_asked_again(running)


def test_the_safe_end_that_follows_is_asked_for_until_it_is_done() -> None:
    """What was stopped has to be started, whether it would move by itself or not."""
    running = stalled()
    tell(running, only(running), "moving")
    running.scripts[StepName.START_PROCESSES] = silent
    order(running, CancelIncidentOrder(by="sre", reason="by hand"))
    assert running.begun() == ["stop_processes", "start_processes"]

    assert is_asked_again(running, StepName.START_PROCESSES)
    assert running.incident is not None
    assert running.incident.open


def test_another_system_s_word_leaves_nothing_undone() -> None:
    running = stalled()
    moving = HangEvidence(
        placement=running.where(only(running)),
        state="moving",
        method="steps",
        last_progress=running.now,
        start=1,
    )
    running.post(run_subject(running.run), moving, trust=Trust.EXTERNAL)
    running.settle()

    assert is_asked_again(running)


def test_where_messages_were_lost_another_stall_may_be_among_them() -> None:
    running = stalled()
    tell(running, only(running), "moving")
    running.post(run_subject(running.run), PartitionGap(first_lost=3, first_kept=9))
    running.settle()

    assert is_asked_again(running)


def test_of_a_process_that_is_not_known_nobody_will_say_that_it_moves() -> None:
    """Which start stands still was not said; that a start was heard of late does not end it."""
    running = World(size=1).begin(job_retry_num="3", hang_retry="true")
    running.scripts[StepName.STOP_PROCESSES] = silent
    pod = only(running)
    tell(running, pod, "stalled", start=0)
    started = ProcessState(
        placement=running.where(pod), epoch=1, attempt=0, state=ProcessStateName.RUNNING, start=2
    )
    running.post(run_subject(running.run), started)
    running.settle()

    assert is_asked_again(running)


def test_a_stop_that_was_carried_out_and_is_refused_when_read_again_is_no_reason_to_go() -> None:
    """The actuators were killed before they could answer; a process that is stopped saves, which is a sign of life."""
    running = stalled()
    stop, pod = asked(running)[0], only(running)
    tell(running, pod, "moving")
    stopped = ProcessState(
        placement=running.where(pod), epoch=1, attempt=stop.attempt, state=ProcessStateName.STOPPED, start=1
    )
    running.post(run_subject(running.run), stopped)
    running.settle(AWAY)

    assert is_asked_again(running)
    running.scripts.clear()
    running.post(*running.answer(asked(running)[-1], OutcomeResult.DONE, told=1)[:2])
    running.settle(timedelta(minutes=1))
    assert running.begun() == ["stop_processes", "start_processes"]


def test_a_run_that_is_not_failed_for_its_fourth_hang_fails_for_the_next() -> None:
    running = World(size=1).begin(job_retry_num="3", hang_retry="true")
    for _ in range(3):
        running.stall()
        running.settle(20 * MINUTE)
    running.scripts[StepName.FAIL_JOB] = silent
    pod = only(running)
    tell(running, pod, "stalled", pod.starts)
    assert running.begun()[-1] == "fail_job"
    tell(running, pod, "moving", pod.starts)
    answer_late(running, asked(running, StepName.FAIL_JOB)[0])
    assert running.incidents[-1].result is IncidentResult.CANCELLED
    assert running.counters.hang_chain == 3

    tell(running, pod, "stalled", pod.starts)
    assert running.begun()[-2:] == ["fail_job", "fail_job"]
