"""Operator's limits on isolating, checked where the truth is: on the nodes themselves (design 8). Never a rulebook's.

Guarantee: two actuators that ask at the same moment cannot pass a limit together, see `reservations`. A node that is isolated already passes
always, so that its marks can follow its holds; releasing and healing ask nobody. Whoever is not admitted is told by which guard, and with the
numbers it went by.

Nodes are counted once for a burst, not once a lot: a count holds for as long as every write of the Lease since was our own, which the
condition on its version proves. Then no other actuator has taken a place since, and what it had taken before is in the count or in the Lease.
Nobody is turned away by an old count: whoever would be is judged by a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import SystemRandom
from time import sleep
from typing import Final

from actuators.jobs.run_objects import has_ended
from actuators.nodes.fleet import HOUR, Candidate, Fleet, Room, fleet_of, protecting_label
from actuators.nodes.reservations import Ledger, Place, kept, places_of
from actuators.reply import Blocked
from actuators.settings import IsolationSettings
from actuators.world import World
from runtime import paths
from runtime.errors import ApiConflict, ApiNotFound
from runtime.kubernetes import Object

COUNT_HOLDS: Final = timedelta(seconds=5)
"""How old a count may be. No limit rests on it; it is how late a node that stopped being Ready is missed by the floor."""
TRIES: Final = 12
"""How often the ledger is read again when another actuator was quicker; the command's time limit ends it as well."""
LONGEST_PAUSE: Final = 0.05
"""Seconds between two of them at most, drawn at random: two actuators must not go on meeting."""
_RANDOM: Final = SystemRandom()


@dataclass(frozen=True, slots=True)
class Count:
    """Nodes as they were listed, and the Lease as it is since our last write of it: what one lot leaves to the next."""

    fleet: Fleet
    counted: datetime
    lease: Object
    places: dict[str, Place]

    def holds(self, now: datetime) -> bool:
        """Whether it is young enough."""
        return timedelta(0) <= now - self.counted < COUNT_HOLDS


def take_place(candidate: Candidate, world: World) -> None:
    """Reserve the node's isolation. Raises Blocked, with the guard's name as its cause, when it may not be isolated now."""
    need_unprotected(candidate.node, world)
    world.lots.ask(candidate, lambda lot: _reserve(lot, world), world.budget.left())


def _reserve(lot: Sequence[Candidate], world: World) -> list[Blocked | None]:
    """One place each, first come first served, in one write of the Lease. Raises ApiConflict when it never stood still."""
    ledger = Ledger(world)
    before, world.lots.left = world.lots.left, None
    if isinstance(before, Count) and before.holds(world.now()) and _reserve_by(before, lot, ledger, world):
        return [None] * len(lot)
    for left in reversed(range(TRIES)):
        count = _count(ledger, world)
        answers = grant(lot, count.fleet, count.places, world.now(), world.settings.isolation)
        if all(answers):
            return answers
        try:
            _write(count, ledger, world)
        except (ApiConflict, ApiNotFound) as error:  # written, or taken away, by somebody else
            if not left:
                raise ApiConflict("the Lease of the places never stood still") from error
            sleep(_RANDOM.uniform(0.0, LONGEST_PAUSE))
        else:
            return answers
    return []


def _reserve_by(count: Count, lot: Sequence[Candidate], ledger: Ledger, world: World) -> bool:
    """Whether an earlier count served: all have a place, and nobody else wrote the Lease since."""
    settings, now = world.settings.isolation, world.now()
    # Ended here is only what ran out: a taint that was counted may be gone since, and the place taken again.
    current = replace(count, places=kept(count.places, now, (), _memory(settings)))
    if any(grant(lot, current.fleet, current.places, now, settings)):
        return False
    try:
        _write(current, ledger, world)
    except (ApiConflict, ApiNotFound):  # written, made anew or taken away by somebody else
        return False
    return True


def _count(ledger: Ledger, world: World) -> Count:
    settings = world.settings.isolation
    lease, began = ledger.read(), world.now()
    nodes = world.api.list(paths.nodes(), labels=settings.pool)  # after the Lease: see `reservations`
    fleet = fleet_of(nodes, settings)
    return Count(fleet, began, lease, _standing(places_of(lease), fleet, world))


def _standing(places: dict[str, Place], fleet: Fleet, world: World) -> dict[str, Place]:
    """Without the reservations that came to something: their node is isolated, or is no more. Else a burst drags them along for minutes."""
    settings = world.settings.isolation
    # Of the nodes of another pool, which may share the Lease, nothing is known.
    gone = frozenset() if settings.pool else places.keys() - fleet.listed
    return kept(places, world.now(), fleet.isolated | gone, _memory(settings))


def _write(count: Count, ledger: Ledger, world: World) -> None:
    world.lots.left = replace(count, lease=ledger.write(count.lease, count.places))


def grant(
    lot: Sequence[Candidate],
    fleet: Fleet,
    places: dict[str, Place],
    now: datetime,
    settings: IsolationSettings,
) -> list[Blocked | None]:
    """Pure but for `places`, to which it adds who is granted one: the next of the lot is judged with it."""
    answers: list[Blocked | None] = []
    room = Room(fleet, places, now, settings)
    for candidate in lot:
        try:
            room.take(candidate)
        except Blocked as blocked:
            answers.append(blocked)
        else:
            answers.append(None)
    return answers


def need_unprotected(node: Object, world: World) -> None:
    """Raises Blocked for a node that carries the control plane, or relight's own parts."""
    settings = world.settings.isolation
    label = protecting_label(node, settings)
    if label is not None:
        raise Blocked("guard:protected", f"label {label}: it is never isolated")
    for namespace in settings.protected_namespaces:
        for pod in world.api.list(paths.pods(namespace), fields=f"spec.nodeName={node['metadata']['name']}"):
            if _ties_down(pod):
                name = f"{namespace}/{pod['metadata']['name']}"
                raise Blocked("guard:protected", f"pod {name} runs on it: it is never isolated")


def _memory(settings: IsolationSettings) -> timedelta:
    """How long the guards that are on look back."""
    return max(
        HOUR if settings.most_an_hour else timedelta(0),
        settings.runs_within if settings.most_runs else timedelta(0),
    )


def _ties_down(pod: Object) -> bool:
    """It lives there and nowhere else: a DaemonSet has its pods everywhere."""
    owners = pod["metadata"].get("ownerReferences") or []
    return not has_ended(pod) and not any(owner.get("kind") == "DaemonSet" for owner in owners)
