"""Laws that hold for every history: replay, duplicates, silence, budgets, evidence, one incident, bounded cells."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery import Delivery, advance, encode_cell
from recovery.cells import HoldCell, IncidentCell
from rules.compiled import default_rulebook
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event, Trust
from schemas.facts import RunSeen
from schemas.ids import run_subject
from schemas.mailbox import ResumeOrder
from schemas.signals import FaultState
from tests.recovery.histories import Happening, flags, histories, names, order, play, state_of
from tests.recovery.world import BROKEN, HBM, NOTICE, USER, World, silent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
LAWFUL = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def change_nothing(world: World, *, since: int = 0) -> None:
    """Every message from there on, ticks included, again: no cell is written and nothing is sent."""
    for event, at in world.inbox[since:]:
        result = advance(world.cells[event.subject], Delivery(event, at, world.now), world.rulebook)
        assert not result.cells, event
        assert not result.emits, event


@LAWFUL
@given(histories, flags)
def test_after_each_prefix_every_message_again_changes_nothing(
    history: list[Happening], annotations: dict[str, Any]
) -> None:
    world = World().begin(**annotations)
    for happening in history:
        happening(world)
        change_nothing(world)
    world.settle(timedelta(hours=1))
    change_nothing(world)


class Doubled(World):
    """Every message is delivered twice, and an earlier one once more in between."""

    def deliver(self, event: Event) -> None:
        """Deliver, then check that repeats with the same origin are seen as such, in the middle of whatever goes on."""
        super().deliver(event)
        number = len(self.inbox)
        for again, at in (self.inbox[-1], self.inbox[number * 31 // 7 % number], self.inbox[number // 2]):
            result = advance(self.cells[again.subject], Delivery(again, at, self.now), self.rulebook)
            assert not result.cells, again
            assert not result.emits, again


@LAWFUL
@given(histories, flags)
def test_a_duplicate_anywhere_changes_nothing(history: list[Happening], annotations: dict[str, Any]) -> None:
    world = Doubled().begin(**annotations)
    for happening in history:
        happening(world)
    world.settle(timedelta(hours=1))
    assert len(world.inbox) > len(world.nodes)


@LAWFUL
@given(histories, flags)
def test_the_same_inbox_gives_the_same_cells_and_the_same_emits(
    history: list[Happening], annotations: dict[str, str]
) -> None:
    world = play(history, annotations)
    again = World()
    again._act = lambda _: None  # type: ignore[method-assign, assignment] # the inbox holds the answers already
    route = again._route
    again._route = lambda topic, event, origin: (  # type: ignore[method-assign] # and the messages between mailboxes
        None if topic == "inbox.v1" else route(topic, event, origin)
    )
    for event, at in world.inbox:
        again.now = max(again.now, at)
        again.deliver(event)
    assert state_of(again) == state_of(world)
    assert again.emit_ids == world.emit_ids


@LAWFUL
@given(histories, flags)
def test_silence_alone_ends_every_state(history: list[Happening], annotations: dict[str, str]) -> None:
    world = play(history, annotations)
    world.scripts = dict.fromkeys(StepName, silent)
    order(world, ResumeOrder(by="sre", reason="pauses are ended by people"))
    world.silence()
    assert world._next() is None, "something is due for ever"
    assert world.incident is None or not world.incident.open
    durable = {
        "run",
        "counters",
        "pod",
        "evidence",
        "origin",
        "check",
        "node",
        "bound",
        "condition",
        "hold",
        "fault",
    }
    left = {name.partition("/")[0] for cells in world.cells.values() for name in cells}
    assert left <= durable | {"isolation", "chip", "burst", "window"}


@LAWFUL
@given(histories, flags)
def test_no_budget_is_exceeded_and_no_isolation_lacks_evidence(
    history: list[Happening], annotations: dict[str, str]
) -> None:
    world = play(history, annotations)
    delivered = {event.id for event, _ in world.inbox}
    allowed = max(
        (
            int(event.data.annotations.get("fault-tolerance/job-retry-num", "0"))
            for event, _ in world.inbox
            if isinstance(event.data, RunSeen)
        ),
        default=0,
    )
    assert world.counters.job_retries_used <= allowed
    assert world.counters.hang_chain <= 3
    for command in world.commands:
        if command.step is StepName.ISOLATE_NODE and command.action != "cancel":
            assert command.arguments["holds"], "an isolation without a cause"
            assert {hold["evidence"] for hold in command.arguments["holds"]} <= delivered
    acting = {"isolate", "deferred"}
    for subject, cells in world.cells.items():
        for cell in cells.values():
            if isinstance(cell, HoldCell) and not cell.rule.startswith(
                ("same-", "chip-", "in_place", "end-", "pre-")
            ):
                assert cell.cause.ladder_class in acting, (subject, cell)


@LAWFUL
@given(histories, flags)
def test_one_open_incident_a_run_and_no_command_id_with_two_meanings(
    history: list[Happening], annotations: dict[str, str]
) -> None:
    world = play(history, annotations)
    for subject, cells in world.cells.items():
        incidents = [cell for cell in cells.values() if isinstance(cell, IncidentCell) and cell.open]
        assert len(incidents) <= 1, subject
    meanings: dict[str, tuple[object, ...]] = {}
    for command in world.commands:
        meaning = (command.incident, command.attempt, command.step, command.index, command.subject)
        assert meanings.setdefault(command.command, meaning) == meaning
    begun = [command.command for command in world.commands if command.action == "begin"]
    assert len(begun) == len(set(begun)), "a step was begun twice"


@LAWFUL
@given(histories, flags)
def test_decisions_of_a_run_say_by_which_rulebook_and_with_which_counters(
    history: list[Happening], annotations: dict[str, str]
) -> None:
    world = play(history, annotations)
    assert all(decision.rulebook == world.rulebook.hash for decision in world.decisions)
    assert all(decision.reason for decision in world.decisions)
    assert len(world.decided_for) == len(world.decisions)
    for subject, decision in zip(world.decided_for, world.decisions, strict=True):
        assert (decision.counters is not None) == (subject == run_subject(world.run)), decision


@LAWFUL
@given(histories, flags)
def test_a_step_is_taken_back_at_most_once_and_nothing_is_asked_of_it_afterwards(
    history: list[Happening], annotations: dict[str, str]
) -> None:
    world = play(history, annotations)
    begun: set[str] = set()
    taken_back: set[str] = set()
    for command in world.commands:
        assert command.command not in taken_back, command
        if command.action == "begin":
            begun.add(command.command)
        else:
            assert command.command in begun, command
        if command.action == "cancel":
            taken_back.add(command.command)


@LAWFUL
@given(histories, flags, st.sampled_from([StepName.HEAL_CHIPS, StepName.SUSPEND_JOB]))
def test_no_attempt_is_left_with_a_step_that_nobody_ended(
    history: list[Happening], annotations: dict[str, Any], silent_step: StepName
) -> None:
    """What a run began is answered, seen done, taken back, or still under way."""
    world = World().begin(**annotations)
    world.scripts[silent_step] = silent
    world.fault(HBM if silent_step is StepName.HEAL_CHIPS else BROKEN)
    world.settle(timedelta(seconds=10))
    for happening in history:
        happening(world)
    ended = {command.command for command in world.commands if command.action == "cancel"}
    for event, _ in world.inbox:
        said = event.data
        if isinstance(said, Outcome) and said.result not in {
            OutcomeResult.PENDING,
            OutcomeResult.UNREACHABLE,
        }:
            ended.add(said.command)
    incident = world.incident
    for command in world.commands:
        is_step = command.subject == run_subject(world.run) and command.step is not StepName.NOTIFY
        if not is_step or command.action != "begin" or command.command in ended:
            continue
        current = incident is not None and incident.open and incident.attempt == command.attempt
        seen_done = command.step in {
            StepName.STOP_PROCESSES,
            StepName.START_PROCESSES,
            StepName.RESUME_JOB,
        }
        assert current or seen_done, command


@LAWFUL
@given(
    st.lists(
        st.tuples(st.sampled_from([NOTICE, "12345678"]), names, st.sampled_from(list(Trust))),
        min_size=1,
        max_size=20,
    ),
    st.lists(st.tuples(st.sampled_from([BROKEN, HBM]), names), max_size=8),
)
def test_a_healthy_run_is_not_touched_by_records_unknowns_and_other_systems(
    harmless: list[tuple[str, str, Trust]], external: list[tuple[str, str]]
) -> None:
    world = World().begin(job_retry_num="3", job_unconditional_retry="true", hang_retry="true")
    for code, on, trust in harmless:
        world.fault(code, on=on, trust=trust)
    for code, on in external:
        world.fault(code, on=on, trust=Trust.EXTERNAL)
    world.silence(timedelta(days=2))
    acted: list[Command] = [c for c in world.commands if c.step is not StepName.NOTIFY]
    assert acted == []
    assert world.counters.job_retries_used == 0


@pytest.mark.parametrize("number", [3_000])
def test_cells_stay_small_however_many_faults_and_pods(number: int) -> None:
    world = World(nodes=tuple(f"n{i}" for i in range(60)), size=50).begin(job_retry_num="5")
    for i in range(number):
        world.fault(
            [HBM, USER, NOTICE][i % 3],
            on=f"n{i % 50}",
            chip=i % 8,
            state=list(FaultState)[i % 3],
            settle=i % 50 == 0,
        )
        if i % 100 == 0:
            world.settle(timedelta(minutes=1))
    largest = max(len(encode_cell(cell)) for cells in world.cells.values() for cell in cells.values())
    assert largest < 64 * 1024


def test_the_rulebook_of_these_laws_is_the_one_that_ships() -> None:
    assert World().rulebook.hash == default_rulebook().hash
