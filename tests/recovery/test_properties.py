"""Laws that hold for every history: replay, duplicates, silence, budgets, evidence, one incident, bounded cells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery import Delivery, advance, encode_cell
from recovery.cells import HoldCell, IncidentCell
from rules.compiled import default_rulebook
from schemas.commands import Command, OutcomeResult, StepName
from schemas.envelope import Trust
from schemas.facts import RunSeen
from schemas.ids import node_subject, run_subject
from schemas.mailbox import CancelIncidentOrder, PartitionGap, PauseOrder, ReleaseNodeOrder, ResumeOrder
from schemas.records import Decision
from schemas.signals import EvictionReason, FaultState
from tests.recovery.world import BROKEN, HBM, NOTICE, USER, World, always, silent

LAWFUL = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

Happening = Callable[[World], None]
NODES = ("n1", "n2", "n3")


def _on_pod(act: Callable[[World, str], None]) -> Callable[[str], Happening]:
    """Something that needs a pod on the node: nothing happens where there is none."""

    def on(name: str) -> Happening:
        def happen(world: World) -> None:
            if any(pod.node == name for pod in world.pods.values()):
                act(world, name)

        return happen

    return on


def _scripted(step: StepName, result: OutcomeResult | None) -> Happening:
    def happen(world: World) -> None:
        world.scripts[step] = silent if result is None else always(result)

    return happen


def _order(world: World, order: PauseOrder | ResumeOrder | CancelIncidentOrder) -> None:
    world.post(run_subject(world.run), order)
    world.settle()


names = st.sampled_from(NODES)
codes = st.sampled_from([HBM, USER, BROKEN, NOTICE, "80E01801", "80C98009", "12345678"])

happenings: st.SearchStrategy[Happening] = st.one_of(
    st.builds(
        lambda code, on, chip: lambda w: w.fault(code, on=on, chip=chip) and None,
        codes,
        names,
        st.integers(0, 1),
    ),
    st.builds(
        lambda code, on, state: lambda w: w.fault(code, on=on, state=state) and None,
        codes,
        names,
        st.sampled_from([FaultState.ASSERTED, FaultState.CLEARED]),
    ),
    st.builds(lambda on: lambda w: w.fault(BROKEN, on=on, trust=Trust.EXTERNAL) and None, names),
    st.builds(lambda on: lambda w: w.fault(HBM, on=on, placed=False) and None, names),
    st.builds(
        lambda condition, on, state: lambda w: w.condition(condition, on=on, state=state),
        st.sampled_from(["not-ready", "kernel-deadlock", "memory-pressure"]),
        names,
        st.sampled_from([FaultState.ASSERTED, FaultState.CLEARED]),
    ),
    names.map(_on_pod(lambda w, on: w.exit(1, on=on))),
    names.map(_on_pod(lambda w, on: w.exit(143, on=on, ordered=1))),
    names.map(_on_pod(lambda w, on: w.stall(on=on))),
    names.map(_on_pod(lambda w, on: w.check(on=on))),
    names.map(_on_pod(lambda w, on: w.notice(on=on))),
    names.map(_on_pod(lambda w, on: w.take_away(w.pod_on(on), "lost"))),
    st.sampled_from(list(EvictionReason)).flatmap(
        lambda reason: names.map(_on_pod(lambda w, on: w.evict(reason, on=on)))
    ),
    st.builds(
        _scripted,
        st.sampled_from(
            [step for step in StepName if step not in {StepName.NOTIFY, StepName.SAVE_CHECKPOINT}]
        ),
        st.sampled_from([*OutcomeResult, None]),
    ),
    st.builds(lambda step: lambda w: w.scripts.pop(step, None) and None, st.sampled_from(list(StepName))),
    st.sampled_from([1, 15, 70, 700, 4000]).map(
        lambda seconds: lambda w: w.settle(timedelta(seconds=seconds))
    ),
    st.sampled_from([0, 3, 7]).map(lambda number: lambda w: w.see_run(job_retry_num=str(number))),
    st.just(lambda w: w.stable() if w.pods else None),
    st.integers(0, 300).map(lambda number: lambda w: w.step(number) if w.pods else None),
    st.just(lambda w: _order(w, PauseOrder(by="sre", reason="looking"))),
    st.just(lambda w: _order(w, ResumeOrder(by="sre", reason="looked"))),
    st.just(lambda w: _order(w, CancelIncidentOrder(by="sre", reason="no"))),
    names.map(
        lambda on: lambda w: w.post(node_subject(on), ReleaseNodeOrder(by="sre", reason="fine")) and None
    ),
    names.map(lambda on: lambda w: w.lose(on)),
    st.sampled_from([run_subject("r1"), *map(node_subject, NODES)]).map(
        lambda subject: lambda w: w.post(subject, PartitionGap(first_lost=3, first_kept=9)) and None
    ),
    st.just(lambda w: setattr(w, "spare", not w.spare)),
)
histories = st.lists(happenings, min_size=3, max_size=40)
flags = st.fixed_dictionaries(
    {
        "job_retry_num": st.sampled_from(["1", "3"]),
        "job_unconditional_retry": st.sampled_from(["true", "false"]),
        "hang_retry": st.sampled_from(["true", "false"]),
    }
)


def play(history: list[Happening], annotations: dict[str, Any]) -> World:
    """A world to which all that happened."""
    world = World().begin(**annotations)
    for happening in history:
        happening(world)
    world.settle(timedelta(seconds=1))
    return world


def state_of(world: World) -> dict[tuple[str, str], bytes]:
    """All cells, encoded."""
    return {
        (subject, name): encode_cell(cell)
        for subject, cells in world.cells.items()
        for name, cell in cells.items()
    }


@LAWFUL
@given(histories, flags)
def test_every_message_again_changes_nothing(history: list[Happening], annotations: dict[str, str]) -> None:
    world = play(history, annotations)
    before = state_of(world)
    for event, at in world.inbox:
        if event.origin is None:
            continue
        result = advance(world.cells[event.subject], Delivery(event, at, world.now), world.rulebook)
        assert not result.cells, event
        assert not result.emits, event
    assert state_of(world) == before


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
    _order(world, ResumeOrder(by="sre", reason="pauses are ended by people"))
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
    made: list[Decision] = world.decisions
    assert all(decision.rulebook == world.rulebook.hash for decision in made)
    assert all(decision.reason for decision in made)


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
