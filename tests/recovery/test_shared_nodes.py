"""Nodes are shared: two runs on one faulty node, and a human's word between a command and its effect (design 8, findings Q4, R31)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from schemas.commands import Command, OutcomeResult, StepName
from schemas.facts import NodeSeen
from schemas.ids import node_subject, run_subject
from schemas.mailbox import HoldAnswer, HoldCause, HoldRequest
from schemas.signals import ChipRef, FaultState
from tests.recovery.world import BROKEN, START, World, always, node, silent

MINUTE = timedelta(minutes=1)
NODE = node_subject("n3")


def world() -> World:
    return World().begin(job_retry_num="5")


def ask(running: World, run: str, code: str = "79") -> None:
    cause = HoldCause(
        namespace="xid",
        code=code,
        chip=ChipRef(id="n3-c0"),
        evidence=f"evidence-{code}",
        ladder_class="isolate",
        seen_at=START,
    )
    request = HoldRequest(
        node=node("n3"),
        run=run,
        incident=f"incident-of-{run}",
        attempt=1,
        cause=cause,
        reason="it broke",
        rule="r",
    )
    running.post(NODE, request)


def answers(running: World) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event, _ in running.inbox:
        if isinstance(event.data, HoldAnswer):
            found.setdefault(event.subject, []).append(event.data.answer)
    return found


def isolations(running: World, action: str = "begin") -> list[Command]:
    return [c for c in running.commands if c.step is StepName.ISOLATE_NODE and c.action == action]


@pytest.mark.parametrize(
    ("second", "commands"), [("79", 1), ("48", 2)], ids=["same cause", "another one, which joins the marks"]
)
def test_two_runs_on_one_faulty_node_are_one_taint_and_two_answers(second: str, commands: int) -> None:
    running = world()
    ask(running, "run-a")
    ask(running, "run-b", second)
    running.settle(MINUTE)

    assert running.held == {"n3"}
    assert answers(running) == {run_subject("run-a"): ["held"], run_subject("run-b"): ["held"]}
    assert {run for command in isolations(running) for run in command.arguments["runs"]} <= {"run-a", "run-b"}
    assert running.begun(of=NODE) == ["isolate_node"] * commands


def test_a_run_that_asks_for_a_held_node_is_answered_without_a_command() -> None:
    running = world()
    ask(running, "run-a")
    running.settle(MINUTE)
    ask(running, "run-b")
    running.settle(MINUTE)

    assert answers(running)[run_subject("run-b")] == ["held"]
    assert len(isolations(running)) == 1


def test_a_guard_that_blocks_is_told_to_both() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = always(OutcomeResult.BLOCKED, cause="guard:isolated")
    ask(running, "run-a")
    ask(running, "run-b")
    running.settle(10 * timedelta(seconds=1))

    assert answers(running) == {run_subject("run-a"): ["blocked"], run_subject("run-b"): ["blocked"]}
    assert not running.held


def test_a_human_who_takes_our_taint_off_ends_the_hold_of_both_and_what_is_under_way_is_taken_back() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = silent
    ask(running, "run-a")
    ask(running, "run-b")
    running.post(NODE, NodeSeen(node=node("n3"), ready=True, released_by="kubectl"), after=MINUTE / 10)
    running.settle(timedelta(hours=2))

    assert answers(running) == {run_subject("run-a"): ["refused"], run_subject("run-b"): ["refused"]}
    assert [command.command for command in isolations(running, "cancel")] == [isolations(running)[0].command]
    assert running.holds("n3") == []


def test_what_was_undone_before_the_outcome_came_is_not_done_again_once_the_human_is_heard() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = always(OutcomeResult.REFUSED, cause="overridden")
    running.fault(BROKEN, on="n3")
    running.post(NODE, NodeSeen(node=node("n3"), ready=True, released_by="kubectl"), after=MINUTE / 10)
    running.settle(timedelta(hours=2))

    assert len(isolations(running)) == 1
    assert running.holds("n3") == []


@pytest.mark.parametrize("taint_stands", [True, False])
@pytest.mark.parametrize("answered", [True, False])
def test_commands_of_a_node_are_counted_on_after_a_human_ended_its_holds(
    taint_stands: bool, answered: bool
) -> None:
    """What an actuator carries out late is known by its number: one that is given twice would pass for another command."""
    running = world()
    if not answered:
        running.scripts[StepName.ISOLATE_NODE] = silent
    ask(running, "run-a")
    seen = NodeSeen(node=node("n3"), ready=True, our_taint=taint_stands, released_by="kubectl")
    running.post(NODE, seen, after=MINUTE / 10)
    running.settle(10 * MINUTE)
    running.scripts.clear()
    ask(running, "run-a", "48")
    running.settle(10 * MINUTE)

    begun = [c for c in running.commands if c.subject == NODE and c.action == "begin"]
    numbers = [command.attempt for command in begun]
    assert numbers == sorted(set(numbers))
    assert len({command.command for command in begun}) == len(begun)
    assert begun[-1].step is StepName.ISOLATE_NODE
    assert running.held == {"n3"}
    assert [hold.cause.code for hold in running.holds("n3")] == ["48"]


RECOVERED = always(OutcomeResult.REFUSED, cause="recovered")


def test_a_node_that_is_well_again_before_it_is_isolated_is_held_no_longer_and_nobody_has_to_look() -> None:
    """Its condition cleared while no watcher lived: only the actuator, which reads the node, can know."""
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = RECOVERED
    running.condition("not-ready", on="n3")
    running.settle(timedelta(hours=2))

    assert len(isolations(running)) == 1
    assert running.holds("n3") == []
    assert [d.verdict for d in running.decisions if d.verdict in {"give_up", "release"}] == ["release"]

    running.scripts.clear()
    running.condition("not-ready", on="n3", state=FaultState.CLEARED)
    running.condition("not-ready", on="n3")
    running.settle(10 * MINUTE)
    assert running.held == {"n3"}, "the next time is a time of its own"


def test_a_fault_found_since_isolates_the_node_that_is_ready_again() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = RECOVERED
    running.condition("not-ready", on="n3")
    running.settle(MINUTE + MINUTE / 60)
    running.scripts.clear()
    running.fault(BROKEN, on="n3")
    running.settle(10 * MINUTE)

    assert running.held == {"n3"}
    assert BROKEN in {hold.cause.code for hold in running.holds("n3")}


def test_a_hold_for_another_fault_stays_whatever_is_said_of_the_node() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = RECOVERED
    ask(running, "run-a")
    running.settle(timedelta(hours=2))

    assert answers(running) == {run_subject("run-a"): ["refused"]}
    assert [hold.cause.code for hold in running.holds("n3")] == ["79"]
    assert len(isolations(running)) == running.rulebook.settings.hold_tries


def test_a_healthy_job_is_not_made_anew_for_a_node_that_is_well_again() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = RECOVERED
    before = running.counters
    running.condition("not-ready")
    running.settle(timedelta(hours=1))

    assert running.begun() == []
    assert running.incidents[-1].state == "closed"
    assert running.incidents[-1].result == "cancelled"
    assert running.counters.job_retries_used == before.job_retries_used, "what it took is given back"
    assert "not_isolated" not in {decision.verdict for decision in running.decisions}


@pytest.mark.parametrize("harm", ["ended", "pod gone", "another cause"])
def test_a_job_that_was_hurt_is_made_anew_although_the_node_is_well_again(harm: str) -> None:
    running = world()

    def while_it_is_asked(there: World, command: Command) -> list[Any]:
        if harm == "pod gone":
            there.take_away(there.pod_on("n1"))
        cause = "error" if harm == "another cause" else "recovered"
        return list(always(OutcomeResult.REFUSED, cause=cause)(there, command))

    running.scripts[StepName.ISOLATE_NODE] = while_it_is_asked
    running.condition("not-ready")
    running.settle(50 * MINUTE / 60)
    if harm == "ended":
        running.exit(137)
    running.settle(timedelta(hours=1))

    assert running.begun() == ["suspend_job", "resume_job"]
