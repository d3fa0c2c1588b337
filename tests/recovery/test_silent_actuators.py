"""Silence of relight's own hands, and commands they read too late, say nothing of chips, pods or capacity (recovery 1, findings Q11, R23)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from schemas.commands import Command, OutcomeResult, StepName
from schemas.records import IncidentState
from tests.recovery.world import HBM, World, always, silent

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
IN_PLACE = ["stop_processes", "heal_chips", "start_processes"]
TOO_LATE = always(OutcomeResult.REFUSED, cause="too_late")


def world(**annotations: Any) -> World:
    return World().begin(**{"job_retry_num": "5", "job_unconditional_retry": "true", **annotations})


def asked(running: World, step: StepName) -> list[Command]:
    return [command for command in running.commands if command.step is step and command.action != "cancel"]


def standing_at(step: StepName, *, ended: bool = False) -> World:
    """A recovery that stands at a step no actuator answers: in place, or after the run ended by itself."""
    running = world()
    running.scripts[step] = silent
    if ended:
        running.exit(1)
    else:
        running.fault(HBM)
    running.settle(20 * SECOND)
    assert running.begun()[-1] == step.value
    return running


def test_a_healing_nobody_answered_isolates_no_node_and_goes_on_when_they_are_back() -> None:
    running = standing_at(StepName.HEAL_CHIPS)
    running.settle(10 * MINUTE)
    assert not running.held
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.DONE)
    running.settle(MINUTE)
    assert running.begun() == IN_PLACE
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING


def test_a_healing_nobody_ever_answers_ends_by_starting_again_what_was_stopped() -> None:
    running = standing_at(StepName.HEAL_CHIPS)
    running.settle(20 * MINUTE)
    assert running.begun() == IN_PLACE
    assert not running.held


def test_actuators_that_fell_silent_in_the_middle_of_a_healing_isolate_nothing_either() -> None:
    running = world()
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
    running.fault(HBM)
    running.settle(MINUTE)
    running.scripts[StepName.HEAL_CHIPS] = silent
    running.settle(10 * MINUTE)
    assert not running.held


def test_a_healing_that_is_answered_and_does_not_end_still_isolates() -> None:
    running = world()
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
    running.fault(HBM)
    running.settle(5 * MINUTE)
    assert running.held == {"n1"}


def test_a_start_nobody_answered_does_not_make_the_job_anew() -> None:
    running = standing_at(StepName.START_PROCESSES)
    running.settle(5 * MINUTE)
    assert running.begun() == IN_PLACE


@pytest.mark.parametrize("step", [StepName.SUSPEND_JOB, StepName.RESUME_JOB])
def test_a_job_is_never_failed_because_no_actuator_answered(step: StepName) -> None:
    running = standing_at(step, ended=True)
    running.settle(timedelta(hours=2))
    assert "fail_job" not in running.begun()
    assert running.incidents[-1].state is IncidentState.CLOSED


def test_a_suspension_answered_after_its_deadline_goes_on() -> None:
    running = standing_at(StepName.SUSPEND_JOB, ended=True)
    running.settle(12 * MINUTE)
    for pod in list(running.pods.values()):
        running.take_away(pod)
    running.scripts[StepName.SUSPEND_JOB] = always(OutcomeResult.DONE)
    running.settle(MINUTE)
    assert running.begun() == ["suspend_job", "resume_job"]
    assert running.counters.schedule_count == 2


class TestTooLate:
    @pytest.mark.parametrize("step", [StepName.STOP_PROCESSES, StepName.HEAL_CHIPS])
    def test_a_command_read_too_late_is_asked_again_with_new_time(self, step: StepName) -> None:
        running = world()
        running.scripts[step] = TOO_LATE
        running.fault(HBM)
        running.settle(10 * SECOND)
        first = asked(running, step)[0]
        del running.scripts[step]
        running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.DONE)
        if step is StepName.HEAL_CHIPS:
            running.settle(20 * SECOND)
            assert running.begun() == IN_PLACE
            return
        running.settle(20 * SECOND)
        again = asked(running, step)[-1]
        assert again.action == "look"
        assert again.not_after > first.not_after
        assert again.command == first.command

    def test_an_answer_to_an_old_question_ends_nothing_while_a_newer_one_is_open(self) -> None:
        running = standing_at(StepName.HEAL_CHIPS)
        begin, newest = asked(running, StepName.HEAL_CHIPS)[0], asked(running, StepName.HEAL_CHIPS)[-1]
        assert newest.look > begin.look
        before = running.incident
        running.post(*running.answer(begin, OutcomeResult.REFUSED, cause="too_late")[:2])
        running.settle()
        assert running.incident is not None
        assert before is not None
        assert running.incident.deadline == before.deadline
        assert running.begun() == ["stop_processes", "heal_chips"]

    def test_it_is_not_asked_faster_than_looks_are_and_ends(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = TOO_LATE
        running.fault(HBM)
        running.settle(MINUTE)
        assert len(asked(running, StepName.HEAL_CHIPS)) <= 31
        running.settle(20 * MINUTE)
        assert not running.held
        assert running.begun() == IN_PLACE

    def test_any_other_refusal_ends_at_once(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.REFUSED, cause="not_stopped")
        running.fault(HBM)
        running.settle(10 * SECOND)
        assert running.begun() == IN_PLACE
