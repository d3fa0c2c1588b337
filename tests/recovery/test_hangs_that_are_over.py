"""Processes that move again before anything was done about their hang are not stopped for it (never act on old news)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from schemas.commands import Command, OutcomeResult, StepName
from schemas.ids import run_subject
from schemas.mailbox import PauseOrder, ResumeOrder
from schemas.records import IncidentResult
from schemas.signals import HangEvidence
from tests.recovery.histories import order
from tests.recovery.world import HBM, Pod, World, always, silent

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
AWAY = timedelta(minutes=4)
"""Longer than a stop may take and its command is good for: whoever reads it then refuses it."""


def tell(running: World, pod: Pod, state: Any, start: int = 1) -> None:
    evidence = HangEvidence(
        placement=running.where(pod),
        state=state,
        method="steps",
        last_progress=running.now - 30 * MINUTE,
        start=start,
    )
    running.post(run_subject(running.run), evidence)
    running.settle()


def stalled(size: int = 1, **annotations: Any) -> World:
    """All pods were told to stand still, and the order to stop them is read by nobody."""
    running = World(size=size).begin(**{"job_retry_num": "3", "hang_retry": "true", **annotations})
    running.scripts[StepName.STOP_PROCESSES] = silent
    for pod in list(running.pods.values()):
        tell(running, pod, "stalled")
    assert running.begun() == ["stop_processes"]
    return running


def asked(running: World, step: StepName = StepName.STOP_PROCESSES) -> list[Command]:
    return [command for command in running.commands if command.step is step]


def answer_late(running: World, command: Command) -> None:
    running.post(*running.answer(command, OutcomeResult.REFUSED, cause="too_late")[:2])
    running.settle()


def comes_back_after(running: World, away: timedelta) -> None:
    """Relight was away: what was said meanwhile lies in the mailbox before its own tick."""
    running.now += away
    running.settle()


def test_nothing_is_stopped_and_the_restart_is_not_counted() -> None:
    running = stalled()
    tell(running, next(iter(running.pods.values())), "moving")
    comes_back_after(running, AWAY)
    assert [command.action for command in asked(running)] == ["begin"], "a second one would be in time"

    answer_late(running, asked(running)[0])
    running.settle(30 * MINUTE)

    assert [command.action for command in asked(running)] == ["begin"]
    assert running.incidents[-1].result is IncidentResult.CANCELLED
    assert running.decisions[-1].verdict == "cancelled"
    assert "move again" in running.decisions[-1].reason
    assert (running.counters.hang_chain, running.counters.job_retries_used) == (0, 0)


def test_one_that_still_stands_still_is_enough_to_ask_again() -> None:
    running = stalled(size=3)
    first, second, _ = running.pods.values()
    tell(running, first, "moving")
    tell(running, second, "moving")
    answer_late(running, asked(running)[0])
    running.settle(MINUTE)

    assert asked(running)[-1].action == "look"
    assert asked(running)[-1].not_after > asked(running)[0].not_after


def test_all_of_many_that_move_again_are_left_alone() -> None:
    running = stalled(size=3)
    for pod in list(running.pods.values()):
        tell(running, pod, "moving")
    answer_late(running, asked(running)[0])

    assert running.incidents[-1].result is IncidentResult.CANCELLED


def test_a_second_stall_behind_the_moving_counts() -> None:
    running = stalled()
    (pod,) = running.pods.values()
    tell(running, pod, "moving")
    tell(running, pod, "stalled")
    answer_late(running, asked(running)[0])
    running.settle(MINUTE)

    assert asked(running)[-1].action == "look"


def test_a_chip_fault_that_came_meanwhile_is_healed_all_the_same() -> None:
    running = stalled()
    running.fault(HBM)
    tell(running, next(iter(running.pods.values())), "moving")
    answer_late(running, asked(running)[-1])
    running.settle(MINUTE)

    assert running.incident is not None
    assert running.incident.strategy == "in_place_recovery"
    assert asked(running)[-1].action == "look"


def test_processes_that_were_stopped_are_started_whatever_was_said_of_them() -> None:
    running = stalled()
    begin = asked(running)[0]
    running.post(*running.answer(begin, OutcomeResult.PENDING)[:2])
    tell(running, next(iter(running.pods.values())), "moving")
    running.scripts[StepName.STOP_PROCESSES] = always(OutcomeResult.PENDING)
    running.settle(10 * MINUTE)

    assert len(asked(running)) > 1
    assert "start_processes" in running.begun()


def test_a_word_that_never_comes_is_not_waited_for_for_ever() -> None:
    running = stalled()
    tell(running, next(iter(running.pods.values())), "moving")
    running.settle(timedelta(hours=2))

    assert running.incident is None or not running.incident.open
    assert [command.action for command in asked(running)] == ["begin", "cancel"]
    assert running.begun() == ["stop_processes", "start_processes"]  # for it may have been obeyed


@pytest.mark.parametrize("start", [1, 2])
def test_moving_is_said_of_the_process_that_stood_still(start: int) -> None:
    """The one before it moved long ago."""
    running = World(size=1).begin(job_retry_num="3", hang_retry="true")
    (pod,) = running.pods.values()
    running.scripts[StepName.STOP_PROCESSES] = silent
    tell(running, pod, "stalled", start=2)
    tell(running, pod, "moving", start=start)
    answer_late(running, asked(running)[0])
    running.settle(MINUTE)

    assert (len(asked(running)) == 1) is (start == 2)


def test_what_moves_again_during_a_pause_is_not_stopped_after_it() -> None:
    running = World(size=1).begin(job_retry_num="3", hang_retry="true")
    order(running, PauseOrder(by="sre", reason="looking"))
    running.stall()
    running.stall(state="moving")
    running.settle(MINUTE)
    order(running, ResumeOrder(by="sre", reason="looked"))
    running.settle(MINUTE)

    assert running.begun() == []
    assert running.incidents[-1].result is IncidentResult.CANCELLED
    assert running.counters.hang_chain == 0


def test_what_still_stands_still_after_a_pause_is_restarted() -> None:
    running = World(size=1).begin(job_retry_num="3", hang_retry="true")
    order(running, PauseOrder(by="sre", reason="looking"))
    running.stall()
    running.settle(MINUTE)
    order(running, ResumeOrder(by="sre", reason="looked"))
    running.settle(MINUTE)

    assert running.begun() == ["stop_processes", "start_processes"]
