"""A step that is not wanted any more is taken back, and what is heard of it later changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery import encode_cell
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.facts import NodeSeen
from schemas.ids import node_subject, run_subject
from schemas.mailbox import CancelIncidentOrder, ReleaseNodeOrder
from schemas.records import IncidentState
from tests.recovery.world import BROKEN, HBM, World, always, node, silent

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def world(**annotations: Any) -> World:
    return World().begin(**{"job_retry_num": "5", "job_unconditional_retry": "true", **annotations})


def healing(**annotations: Any) -> World:
    """Healing is under way and does not end."""
    running = world(**annotations)
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
    running.fault(HBM)
    running.settle(10 * SECOND)
    assert running.begun() == ["stop_processes", "heal_chips"]
    return running


def cancelled(running: World) -> list[StepName]:
    return [command.step for command in running.commands if command.action == "cancel"]


def command_of(running: World, step: StepName, action: str = "begin") -> Command:
    return next(c for c in running.commands if c.step is step and c.action == action)


def test_a_heal_that_a_heavier_plan_replaces_is_taken_back_before_the_plan_begins() -> None:
    running = healing()
    running.fault(BROKEN, on="n2")
    assert cancelled(running) == [StepName.HEAL_CHIPS]
    begun, taken = (command_of(running, StepName.HEAL_CHIPS, action) for action in ("begin", "cancel"))
    assert (taken.command, taken.attempt, taken.index) == (begun.command, begun.attempt, begun.index)
    assert taken.arguments["chips"] == begun.arguments["chips"], "the actuator is told of which chips"
    running.settle(5 * SECOND)
    order = [(c.step, c.action) for c in running.commands if c.subject == run_subject(running.run)]
    assert order.index((StepName.HEAL_CHIPS, "cancel")) < order.index((StepName.SUSPEND_JOB, "begin"))


@pytest.mark.parametrize(
    "result", [result for result in OutcomeResult if result is not OutcomeResult.UNREACHABLE]
)
def test_what_is_heard_of_the_replaced_heal_changes_nothing(result: OutcomeResult) -> None:
    running = healing()
    old = command_of(running, StepName.HEAL_CHIPS)
    running.scripts[StepName.SUSPEND_JOB] = silent
    running.fault(BROKEN, on="n2")
    running.settle(5 * SECOND)
    subject = run_subject(running.run)
    before = {
        name: encode_cell(cell)
        for name, cell in running.cells[subject].items()
        if not name.startswith("origin")
    }
    told = len(running.commands), len(running.decisions), len(running.incidents)
    late = Outcome(
        command=old.command, incident=old.incident, attempt=old.attempt, step=old.step, result=result
    )
    running.post(subject, late)
    running.settle()
    after = {
        name: encode_cell(cell)
        for name, cell in running.cells[subject].items()
        if not name.startswith("origin")
    }
    assert after == before
    assert (len(running.commands), len(running.decisions), len(running.incidents)) == told


def test_an_old_word_on_a_step_that_the_new_attempt_has_too_changes_nothing() -> None:
    running = healing()
    old = command_of(running, StepName.HEAL_CHIPS)
    running.fault(HBM, on="n2")  # past merging: a new attempt of the same strategy
    running.settle(10 * SECOND)
    assert running.begun()[-1] == "heal_chips"
    late = Outcome(
        command=old.command,
        incident=old.incident,
        attempt=old.attempt,
        step=old.step,
        result=OutcomeResult.DONE,
    )
    running.post(run_subject(running.run), late)
    running.settle(SECOND)
    assert running.begun()[-1] == "heal_chips", "the present attempt still waits for its own answer"


def test_a_recovery_that_goes_well_takes_nothing_back() -> None:
    running = world()
    running.fault(HBM)
    running.settle(MINUTE)
    running.stable()
    running.fault(BROKEN)
    running.settle(MINUTE)
    running.stable()
    assert cancelled(running) == []


@pytest.mark.parametrize("result", [OutcomeResult.FAILED, OutcomeResult.BLOCKED, OutcomeResult.REFUSED])
def test_a_step_whose_end_was_told_is_not_taken_back(result: OutcomeResult) -> None:
    running = world()
    running.scripts[StepName.HEAL_CHIPS] = always(result)
    running.fault(HBM)
    running.settle(MINUTE)
    assert StepName.HEAL_CHIPS not in cancelled(running)


def test_a_step_that_ran_out_of_time_is_taken_back() -> None:
    running = healing()
    running.settle(5 * MINUTE)
    assert cancelled(running) == [StepName.HEAL_CHIPS]
    assert running.held == {"n1"}


def test_the_end_of_the_run_takes_back_what_is_under_way() -> None:
    running = healing()
    running.end("succeeded")
    assert cancelled(running) == [StepName.HEAL_CHIPS]
    assert running.incidents[-1].state is IncidentState.CLOSED


def test_an_operator_s_cancel_takes_it_back_and_starts_what_was_stopped() -> None:
    running = healing()
    running.post(run_subject(running.run), CancelIncidentOrder(by="ann", reason="no"))
    running.settle(MINUTE)
    assert cancelled(running) == [StepName.HEAL_CHIPS]
    assert running.begun()[-1] == "start_processes"


def test_switching_off_takes_it_back() -> None:
    running = healing()
    running.see_run(job_retry_num="0")
    running.settle(MINUTE)
    assert cancelled(running) == [StepName.HEAL_CHIPS]


def test_a_stop_that_is_still_waited_for_is_taken_back_when_the_plan_changes() -> None:
    running = world()
    running.silent.update(running.pods)
    running.fault(HBM)
    running.fault(BROKEN, on="n2")
    assert cancelled(running) == [StepName.STOP_PROCESSES]


def test_an_isolation_is_never_taken_back_by_the_run_for_a_hold_outlives_the_incident() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = silent
    running.fault(BROKEN)
    running.settle(5 * SECOND)
    running.end("deleted")
    assert cancelled(running) == []
    assert running.holds("n1")


def test_a_human_s_release_takes_back_an_isolation_under_way() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = silent
    running.fault(BROKEN, on="n3")
    running.post(node_subject("n3"), ReleaseNodeOrder(by="ann", reason="mine"))
    running.settle()
    assert cancelled(running) == [StepName.ISOLATE_NODE]
    assert running.commands[-1].action == "begin"
    assert running.commands[-1].step is StepName.RELEASE_NODE


def test_taking_our_taint_off_takes_back_an_isolation_under_way() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = silent
    running.fault(BROKEN, on="n3")
    running.post(node_subject("n3"), NodeSeen(node=node("n3"), ready=True, released_by="kubectl"))
    running.settle(timedelta(hours=1))
    assert cancelled(running) == [StepName.ISOLATE_NODE]
    assert [c for c in running.commands if c.step is StepName.RELEASE_NODE] == []
