"""The fleet as guards count it, and whether one more node may leave it. Pure.

Made once for a lot: who is judged costs the same in a fleet of ten thousand as in one of ten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from actuators.nodes.isolation_marks import is_isolated
from actuators.nodes.placement_rules import is_usable
from actuators.nodes.reservations import Place, live, since
from actuators.reply import Blocked
from actuators.settings import IsolationSettings
from runtime.kubernetes import Object
from schemas.wording import counted

HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that is to be isolated, and the runs that asked for it."""

    node: Object
    runs: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        """Identity of the node."""
        return _uid(self.node)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes by UID: all that are listed, those of them that count, and of these those with our taint, and those that pods may come to."""

    listed: frozenset[str]
    here: frozenset[str]
    isolated: frozenset[str]
    usable: frozenset[str]


def fleet_of(nodes: Iterable[Object], settings: IsolationSettings) -> Fleet:
    """What is listed; protected nodes are no part of it."""
    listed = list(nodes)
    fleet = [node for node in listed if protecting_label(node, settings) is None]
    return Fleet(
        frozenset(map(_uid, listed)),
        frozenset(map(_uid, fleet)),
        frozenset(_uid(node) for node in fleet if is_isolated(node)),
        frozenset(_uid(node) for node in fleet if is_usable(node)),
    )


def protecting_label(node: Object, settings: IsolationSettings) -> str | None:
    """The label for which it is never isolated."""
    labels = node["metadata"].get("labels") or {}
    return next((label for label in settings.protected_labels if label in labels), None)


class Room:
    """The limits, against what stands on the nodes and what is reserved; each place that is taken counts for the next."""

    def __init__(
        self, fleet: Fleet, places: dict[str, Place], now: datetime, settings: IsolationSettings
    ) -> None:
        """Who is granted a place is added to `places`."""
        self._fleet = fleet
        self._places = places
        self._now = now
        self._settings = settings
        # A node that was deleted takes no place.
        self._taken = {*fleet.isolated, *(live(places, now, fleet.isolated) & fleet.here)}
        self._left = set(fleet.usable - self._taken)
        self._recent = set(since(places, now - HOUR))

    def take(self, candidate: Candidate) -> None:
        """Raises Blocked, with the guard's name and the numbers it went by. What the candidate itself had reserved is no other's."""
        self._need(candidate)
        uid, now = candidate.uid, self._now
        self._places[uid] = Place(now, now + self._settings.reservation, candidate.runs)
        self._taken.add(uid)
        self._left.discard(uid)
        self._recent.add(uid)

    def _need(self, candidate: Candidate) -> None:
        settings, uid, fleet = self._settings, candidate.uid, len(self._fleet.here)
        if uid not in self._fleet.here:
            raise Blocked(
                "guard:pool", f"it is none of the {counted(fleet, 'node')} of pool {settings.pool!r}"
            )
        taken, limit = self._taken_by_others(uid), settings.limit_of(fleet)
        if taken >= limit:
            raise Blocked("guard:isolated", f"{taken} of at most {limit} isolated, fleet of {fleet}")
        left = len(self._left) - (uid in self._left)
        if left < settings.fewest_left:
            raise Blocked(
                "guard:floor",
                f"{counted(left, 'usable node')} would be left; at least {settings.fewest_left} must be",
            )
        recent = len(self._recent) - (uid in self._recent)
        if settings.most_an_hour and recent >= settings.most_an_hour:
            raise Blocked(
                "guard:rate",
                f"{recent} of at most {counted(settings.most_an_hour, 'isolation')} within an hour",
            )
        self._need_few_runs(candidate)

    def _taken_by_others(self, uid: str) -> int:
        own = uid in self._taken and uid not in self._fleet.isolated
        return len(self._taken) - own

    def _need_few_runs(self, candidate: Candidate) -> None:
        """Many runs that lose nodes together have one cause, and it is not their nodes (research: one crash marked 77 nodes)."""
        settings = self._settings
        if not settings.most_runs or not candidate.runs:
            return
        recent = since(self._places, self._now - settings.runs_within)
        runs = {run for uid, place in recent.items() if uid != candidate.uid for run in place.runs}
        if runs.isdisjoint(candidate.runs) and len(runs) >= settings.most_runs:
            raise Blocked(
                "guard:incidents",
                f"nodes of {len(runs)} of at most {counted(settings.most_runs, 'run')} isolated within {settings.runs_within}",
            )


def _uid(node: Object) -> str:
    return str(node["metadata"]["uid"])
