"""Places taken by isolations under way: one Lease that all actuators share (design 8, finding R28). Pure, but for `Ledger`.

What is isolated is counted from our taints, on the nodes themselves. Between the count and the taint another actuator may count as well; so a
place is reserved first, in an annotation of the Lease, written on the version that was read *before* the nodes were listed. If that write
succeeds nobody reserved in between, and whoever was dropped from the annotation before had been seen with a taint, which our later list shows
as well: two can never take the last place together. A reservation that stands longer than its time is a dead actuator's and counts no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from actuators.reply import Blocked
from actuators.world import World
from runtime import logs, paths
from runtime.errors import ApiConflict, ApiError, ApiNotFound
from runtime.kubernetes import Object

NAME: Final = "relight-isolation"
PLACES: Final = "relight.dev/isolating"
RUNS_KEPT: Final = 4
"""Runs kept of one node: whoever has more on one node is one incident all the same."""
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """One node's isolation: since when, until when it is only reserved, and for whom."""

    at: datetime
    until: datetime
    runs: tuple[str, ...] = ()


Places = Mapping[str, Place]
"""By node UID."""


def live(places: Places, now: datetime, isolated: Iterable[str]) -> set[str]:
    """Nodes that are reserved and not tainted yet. A node that is tainted is counted as such; a stale reservation counts no more."""
    return {uid for uid, place in places.items() if now < place.until}.difference(isolated)


def since(places: Places, after: datetime) -> dict[str, Place]:
    """Isolations begun after a time, whatever became of them."""
    return {uid: place for uid, place in places.items() if place.at > after}


def kept(places: Places, now: datetime, isolated: Iterable[str], memory: timedelta) -> dict[str, Place]:
    """What is worth keeping: what is still reserved, and what the rates count. The end of a reservation whose taint was seen is now."""
    seen = frozenset(isolated)
    over = {
        uid: replace(place, until=min(place.until, now)) if uid in seen else place
        for uid, place in places.items()
    }
    return {uid: place for uid, place in over.items() if now < place.until or place.at > now - memory}


def text_of(places: Places) -> str:
    """Compact: an annotation is to hold a thousand. Times in whole seconds."""
    return json.dumps(
        {
            uid: [int(place.at.timestamp()), int(place.until.timestamp()), *place.runs[:RUNS_KEPT]]
            for uid, place in sorted(places.items())
        },
        separators=(",", ":"),
    )


def places_of(lease: Object) -> dict[str, Place]:
    """As it was written. Raises Blocked when it cannot be read: then nobody knows how many places are taken."""
    text = (lease["metadata"].get("annotations") or {}).get(PLACES)
    if text is None:
        return {}
    try:
        return {str(uid): _place(found) for uid, found in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise Blocked(
            "guard:reservations",
            f"annotation {PLACES} of Lease {NAME} cannot be read ({error}); without it nobody knows how many places are taken. Take it off",
        ) from None


def _place(found: list[Any]) -> Place:
    at, until, *runs = found
    return Place(
        datetime.fromtimestamp(int(at), UTC),
        datetime.fromtimestamp(int(until), UTC),
        tuple(str(run) for run in runs),
    )


class Ledger:
    """The Lease, read and written in the world of one command."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._namespace = world.settings.isolation.namespace
        self._path = paths.leases(self._namespace, NAME)

    def read(self) -> Object:
        """The Lease, made when it is missing. Raises Blocked where it cannot be: no place is taken without a record of it."""
        try:
            return self._world.api.get(self._path)
        except ApiNotFound:
            pass
        try:
            return self._world.api.create(paths.leases(self._namespace), {"metadata": {"name": NAME}})
        except ApiConflict:
            return self._world.api.get(self._path)
        except ApiNotFound:
            raise Blocked(
                "guard:reservations",
                f"there is no namespace {self._namespace} for Lease {NAME}; RELIGHT_ACTING__ISOLATION__NAMESPACE names it",
            ) from None

    def write(self, lease: Object, places: Places) -> Object:
        """On the version that was read; the Lease as it is now. Raises ApiConflict when anybody wrote it since."""
        return self._world.api.merge(
            lease, self._path, {"metadata": {"annotations": {PLACES: text_of(places)}}}
        )

    def give_back(self, uid: str) -> None:
        """A node was released: its place is free at once. Never in the way of the release: what is not given back ends by itself."""
        try:
            lease = self._world.api.get(self._path)
            places = places_of(lease)
            now = self._world.now()
            if uid in places and now < places[uid].until:
                self.write(lease, {**places, uid: replace(places[uid], until=now)})
        except (ApiError, Blocked) as error:
            _log.info("a reservation was not given back, it runs out", node=uid, error=str(error))
