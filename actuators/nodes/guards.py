"""Operator's limits on isolating, checked where the truth is: on the nodes themselves (design 8). Never a rulebook's.

Guarantee: two actuators that ask at the same moment cannot pass a limit together, see `reservations`. A node that is isolated already passes
always, so that its marks can follow its holds; releasing and healing ask nobody. Whoever is not admitted is told by which guard, and with the
numbers it went by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import SystemRandom
from time import sleep
from typing import Final

from actuators.jobs.run_objects import has_ended
from actuators.nodes.isolation_marks import is_isolated
from actuators.nodes.placement_rules import is_usable
from actuators.nodes.reservations import Ledger, Place, Places, kept, live, places_of, since
from actuators.reply import Blocked
from actuators.settings import IsolationSettings
from actuators.world import World
from runtime import paths
from runtime.errors import ApiConflict
from runtime.kubernetes import Object

HOUR: Final = timedelta(hours=1)
TRIES: Final = 12
"""How often the ledger is read again when another actuator was quicker; the command's time limit ends it as well."""
LONGEST_PAUSE: Final = 0.05
"""Seconds between two of them at most, drawn at random: two actuators must not go on meeting."""
_RANDOM: Final = SystemRandom()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that is to be isolated, and the runs that asked for it."""

    node: Object
    runs: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        """Identity of the node."""
        return str(self.node["metadata"]["uid"])


def take_place(candidate: Candidate, world: World) -> None:
    """Reserve the node's isolation. Raises Blocked, with the guard's name as its cause, when it may not be isolated now."""
    need_unprotected(candidate.node, world)
    world.lots.ask(candidate, lambda lot: _reserve(lot, world), world.budget.left())


def _reserve(lot: Sequence[Candidate], world: World) -> list[Blocked | None]:
    """One place each, first come first served, in one write of the Lease. Raises ApiConflict when it never stood still."""
    settings = world.settings.isolation
    ledger = Ledger(world)
    for left in reversed(range(TRIES)):
        lease = ledger.read()
        nodes = world.api.list(paths.nodes(), labels=settings.pool)  # after the Lease: see `reservations`
        fleet = [node for node in nodes if _protecting_label(node, settings) is None]
        now = world.now()
        isolated = [node["metadata"]["uid"] for node in fleet if is_isolated(node)]
        places = kept(places_of(lease), now, isolated, _memory(settings))
        answers = grant(lot, fleet, places, now, settings)
        if all(answers):
            return answers
        try:
            ledger.write(lease, places)
        except ApiConflict:
            if not left:
                raise
            sleep(_RANDOM.uniform(0.0, LONGEST_PAUSE))
        else:
            return answers
    return []


def grant(
    lot: Sequence[Candidate],
    fleet: Sequence[Object],
    places: dict[str, Place],
    now: datetime,
    settings: IsolationSettings,
) -> list[Blocked | None]:
    """Pure but for `places`, to which it adds who is granted one: the next of the lot is judged with it."""
    answers: list[Blocked | None] = []
    for candidate in lot:
        try:
            need_room(candidate, fleet, places, now, settings)
        except Blocked as blocked:
            answers.append(blocked)
        else:
            places[candidate.uid] = Place(now, now + settings.reservation, candidate.runs)
            answers.append(None)
    return answers


def need_unprotected(node: Object, world: World) -> None:
    """Raises Blocked for a node that carries the control plane, or relight's own parts."""
    settings = world.settings.isolation
    label = _protecting_label(node, settings)
    if label is not None:
        raise Blocked("guard:protected", f"label {label}: it is never isolated")
    for namespace in settings.protected_namespaces:
        for pod in world.api.list(paths.pods(namespace), fields=f"spec.nodeName={node['metadata']['name']}"):
            if _ties_down(pod):
                name = f"{namespace}/{pod['metadata']['name']}"
                raise Blocked("guard:protected", f"pod {name} runs on it: it is never isolated")


def need_room(
    candidate: Candidate, fleet: Sequence[Object], places: Places, now: datetime, settings: IsolationSettings
) -> None:
    """Pure: the limits, against what stands on the nodes and what is reserved by others. Raises Blocked."""
    here = {str(node["metadata"]["uid"]) for node in fleet}
    if candidate.uid not in here:
        raise Blocked("guard:pool", f"it is none of the {len(fleet)} nodes of pool {settings.pool!r}")
    isolated = {str(node["metadata"]["uid"]) for node in fleet if is_isolated(node)}
    others = {uid: place for uid, place in places.items() if uid != candidate.uid}
    taken = isolated | (live(others, now, isolated) & here)  # a node that was deleted takes no place
    limit = settings.limit_of(len(fleet))
    if len(taken) >= limit:
        raise Blocked("guard:isolated", f"{len(taken)} of at most {limit} isolated, fleet of {len(fleet)}")
    usable = {str(node["metadata"]["uid"]) for node in fleet if is_usable(node)}
    left = len(usable - taken - {candidate.uid})
    if left < settings.fewest_left:
        raise Blocked(
            "guard:floor", f"{left} usable nodes would be left; at least {settings.fewest_left} must be"
        )
    recent = since(others, now - HOUR)
    if settings.most_an_hour and len(recent) >= settings.most_an_hour:
        raise Blocked(
            "guard:rate", f"{len(recent)} of at most {settings.most_an_hour} isolations within an hour"
        )
    _need_few_runs(candidate, others, now, settings)


def _need_few_runs(candidate: Candidate, others: Places, now: datetime, settings: IsolationSettings) -> None:
    """Many runs that lose nodes together have one cause, and it is not their nodes (research: one crash marked 77 nodes)."""
    if not settings.most_runs or not candidate.runs:
        return
    runs = {run for place in since(others, now - settings.runs_within).values() for run in place.runs}
    if runs.isdisjoint(candidate.runs) and len(runs) >= settings.most_runs:
        raise Blocked(
            "guard:incidents",
            f"nodes of {len(runs)} of at most {settings.most_runs} runs isolated within {settings.runs_within}",
        )


def _memory(settings: IsolationSettings) -> timedelta:
    """How long the guards that are on look back."""
    return max(
        HOUR if settings.most_an_hour else timedelta(0),
        settings.runs_within if settings.most_runs else timedelta(0),
    )


def _protecting_label(node: Object, settings: IsolationSettings) -> str | None:
    labels = node["metadata"].get("labels") or {}
    return next((label for label in settings.protected_labels if label in labels), None)


def _ties_down(pod: Object) -> bool:
    """It lives there and nowhere else: a DaemonSet has its pods everywhere."""
    owners = pod["metadata"].get("ownerReferences") or []
    return not has_ended(pod) and not any(owner.get("kind") == "DaemonSet" for owner in owners)
