"""The small world explored to a depth: every state keeps what must always hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recovery.cells import HoldCell, IncidentCell
from schemas.commands import StepName
from schemas.records import IncidentState
from tests.recovery.exploration import MOVES, explore, fingerprint, start
from tests.recovery.world import World

Record = Callable[[str, object], None]


def always_holds(world: World, path: tuple[str, ...]) -> None:
    """Invariants of every state."""
    counters = world.counters
    assert counters.job_retries_used <= 2, path
    assert counters.hang_chain <= 3, path
    incident = world.incident
    if incident is not None and incident.open:
        assert incident.due is not None, f"nothing would end this incident: {path}"
    evidence = {event.id for event, _ in world.inbox}
    for cells in world.cells.values():
        for cell in cells.values():
            if isinstance(cell, HoldCell):
                assert cell.cause.evidence in evidence, path
            if isinstance(cell, IncidentCell) and cell.state is IncidentState.ACTING:
                assert cell.step is not None, path
    harmful = {"broken chip on n1", "n2 not ready", "healing fails"}
    thrice = max((path.count(name) for name in path), default=0) >= 3
    if not harmful & set(path) and not thrice:
        held = [c for c in world.commands if c.step is StepName.ISOLATE_NODE]
        assert not held or _ended_with_a_fault(path), f"isolated without a reason: {path}"
    begun = [command.command for command in world.commands if command.action == "begin"]
    assert len(begun) == len(set(begun)), f"a step was begun twice: {path}"


def _ended_with_a_fault(path: tuple[str, ...]) -> bool:
    """A self-healing fault that was not handled explains an end: row 4 isolates for it."""
    faults = {"fault that heals on n1", "fault that heals on n2"} & set(path)
    return bool(faults and {"exit 1 on n1", "evicted from n2", "resuming is silent"} & set(path))


@pytest.mark.parametrize("depth", [3, pytest.param(4, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def test_every_state_of_the_small_world_keeps_the_invariants(depth: int, record_property: Record) -> None:
    seen = explore(depth, always_holds)
    record_property("states", seen.states)
    record_property("transitions", seen.transitions)
    assert seen.transitions > len(MOVES) ** 2
    assert seen.states > 200


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_every_state_of_the_small_world_keeps_the_invariants_deeper(record_property: Record) -> None:
    seen = explore(5, always_holds)
    record_property("states", seen.states)
    record_property("transitions", seen.transitions)
    record_property("last layer, by incident", seen.closed)
    assert seen.states > 20_000


def test_a_state_is_told_from_another_and_recognised_again() -> None:
    one, two = start(), start()
    assert fingerprint(one) == fingerprint(two)
    two.fault()
    assert fingerprint(one) != fingerprint(two)
