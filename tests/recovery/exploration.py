"""Every sequence of events of a small world to a fixed depth: two chips, one run of two pods, one spare node.

Breadth first over states, where a state is all cells, what the cluster looks like, and what is still on its way; time moves only by the event
`wait`, to the next due time. Two histories that end in the same state are one.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from recovery import encode_cell
from recovery.cells import IncidentCell
from schemas.commands import OutcomeResult, StepName
from schemas.ids import run_subject
from schemas.signals import EvictionReason, FaultState
from tests.recovery.world import BROKEN, HBM, USER, World, always, silent

Move = Callable[[World], None]


def _wait(world: World) -> None:
    at = world._next()
    if at is not None:
        world.settle(at - world.now)


def _answer(step: StepName, result: OutcomeResult | None) -> Move:
    script = silent if result is None else always(result)

    def move(world: World) -> None:
        world.scripts[step] = script

    return move


def _where_a_pod_is(act: Callable[[World, str], None], name: str) -> Move:
    def move(world: World) -> None:
        if any(pod.node == name for pod in world.pods.values()):
            act(world, name)

    return move


MOVES: dict[str, Move] = {
    "wait": _wait,
    "fault that heals on n1": lambda world: _forget(world.fault(HBM, on="n1")),
    "fault that heals on n2": lambda world: _forget(world.fault("80A18008", on="n2")),
    "user fault on n1": lambda world: _forget(world.fault(USER, on="n1")),
    "broken chip on n1": lambda world: _forget(world.fault(BROKEN, on="n1")),
    "n2 not ready": lambda world: world.condition("not-ready", on="n2"),
    "n2 ready": lambda world: world.condition("not-ready", on="n2", state=FaultState.CLEARED),
    "exit 1 on n1": _where_a_pod_is(lambda world, name: world.exit(1, on=name), "n1"),
    "evicted from n2": _where_a_pod_is(
        lambda world, name: world.evict(EvictionReason.KUBELET, on=name), "n2"
    ),
    "stands still": _where_a_pod_is(lambda world, name: world.stall(on=name), "n1"),
    "healing fails": _answer(StepName.HEAL_CHIPS, OutcomeResult.FAILED),
    "resuming is silent": _answer(StepName.RESUME_JOB, None),
    "stable": lambda world: world.stable() if world.pods else None,
}


def _forget(_: object) -> None:
    """A move returns nothing."""


@dataclass
class Seen:
    """What an exploration saw."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    closed: dict[str, int] = field(default_factory=dict)


def fingerprint(world: World) -> bytes:
    """Identity of a state. Times are absolute and the clock is part of it: never are two states taken for one that could differ later."""
    digest = hashlib.blake2b(digest_size=16)
    for subject in sorted(world.cells):
        for name in sorted(world.cells[subject]):
            if not name.startswith("origin/"):
                digest.update(f"{subject}\0{name}\0".encode())
                digest.update(encode_cell(world.cells[subject][name]))
    pods = sorted((pod.node, pod.rank, pod.epoch, pod.starts) for pod in world.pods.values())
    scripts = sorted((step, id(script)) for step, script in world.scripts.items())
    waiting = sorted((at, event.subject, event.type) for at, _, event in world._agenda)
    digest.update(repr((world.now, pods, sorted(world.held), scripts, waiting)).encode())
    return digest.digest()


def start() -> World:
    """The small world: two nodes with a pod each, one spare."""
    return World().begin(job_retry_num="2", job_unconditional_retry="true", hang_retry="true")


def explore(depth: int, check: Callable[[World, tuple[str, ...]], None]) -> Seen:
    """Visit every state within `depth` moves and check each once."""
    seen = Seen(depth=depth)
    known: set[bytes] = set()
    layer: list[tuple[World, tuple[str, ...]]] = [(start(), ())]
    for _ in range(depth):
        following: list[tuple[World, tuple[str, ...]]] = []
        for world, path in layer:
            for name, after in _moved(world):
                seen.transitions += 1
                mark = fingerprint(after)
                if mark in known:
                    continue
                known.add(mark)
                check(after, (*path, name))
                following.append((after, (*path, name)))
        layer = following
    seen.states = len(known)
    for world, _ in layer:
        incident = world.cells[run_subject(world.run)].get("incident")
        state = f"{incident.state}/{incident.strategy}" if isinstance(incident, IncidentCell) else "none"
        seen.closed[state] = seen.closed.get(state, 0) + 1
    return seen


def _moved(world: World) -> Iterator[tuple[str, World]]:
    for name, move in MOVES.items():
        after = copy.copy(world)
        after.cells = {subject: dict(cells) for subject, cells in world.cells.items()}
        after.pods = {uid: copy.copy(pod) for uid, pod in world.pods.items()}
        after.scripts, after.effects = dict(world.scripts), dict(world.effects)
        after.held, after.down, after.silent = set(world.held), set(world.down), set(world.silent)
        after.commands, after.decisions = list(world.commands), list(world.decisions)
        after.decided_for = list(world.decided_for)
        after.incidents, after.inbox = list(world.incidents), list(world.inbox)
        after.emit_ids = list(world.emit_ids)
        after._agenda = list(world._agenda)
        after._numbers, after._source = copy.copy(world._numbers), copy.copy(world._source)
        after._pod_numbers = copy.copy(world._pod_numbers)
        move(after)
        yield name, after
