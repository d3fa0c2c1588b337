"""Telling pods what their processes should do: one small annotation a pod, written under conditions, by many hands (design 8, R15, Q44).

Guarantees: an order of a lower rank never replaces one of a higher rank; a pod made anew under its name, of another epoch, or ended is not
told; the same order twice writes once. What could not be written is written by the next look. Nothing is concluded from a silent API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from actuators.jobs.run_objects import epoch_of, has_ended, is_leaving, is_supervised
from actuators.reply import Blocked, OutOfTime, Refused
from actuators.world import World
from runtime import paths
from runtime.errors import ApiAway, ApiConflict, ApiForbidden, ApiInvalid, ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import DESIRED, LARGEST_DESIRED, Desired
from schemas.errors import DecodeError
from schemas.wording import counted

Order = Callable[[Object], Desired]
"""What a pod is to be told; the order may depend on what stands there."""


class Told(Enum):
    """What became of one pod."""

    WRITTEN = "written"
    STANDING = "standing"
    """It had been told already."""
    SUPERSEDED = "superseded"
    """A higher order stands there: this one is old news."""
    GONE = "gone"
    """Ended, deleted, or another pod by now: it need not be told."""
    MISSED = "missed"
    """Not told: the API, somebody else's writes, or time; or it is being deleted since."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of all pods."""

    written: int = 0
    standing: int = 0
    superseded: int = 0
    gone: int = 0
    missed: int = 0
    away: int = 0
    """Of the missed ones: those for which the API did not answer."""

    @property
    def told(self) -> int:
        """Pods that have the order."""
        return self.written + self.standing

    @property
    def wanted(self) -> int:
        """Pods that have it or shall get it: what a barrier has to wait for."""
        return self.told + self.missed

    def in_words(self, what: str) -> str:
        """One line for the audit trail."""
        others = [(self.standing, "had been told before"), (self.missed, "not yet")]
        rest = "".join(f", {number} {how}" for number, how in others if number)
        return f"{what}: {counted(self.written, 'pod')} told{rest}"


def order_of(pod: Object) -> Desired | None:
    """The order that stands on a pod; what cannot be read is none."""
    text = (pod["metadata"].get("annotations") or {}).get(DESIRED)
    if not isinstance(text, str):
        return None
    try:
        return Desired.from_text(text)
    except DecodeError:
        return None


def tell(pods: list[Object], order: Order, world: World) -> Tally:
    """Tell all of them, many at once. Raises what is more than one pod's trouble, with how many were told before the server refused one."""
    results = world.spread(lambda pod: tell_one(pod, order, world), pods)
    became = Counter(result if isinstance(result, Told) else Told.MISSED for result in results)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, ApiAway | ApiConflict | OutOfTime):
            raise _with_effects(result, became[Told.WRITTEN])
    return Tally(
        **{told.value: became[told] for told in Told},
        away=sum(isinstance(result, ApiAway) for result in results),
    )


def _with_effects(error: Exception, written: int) -> Exception:
    """A refusal says that nothing was done; where some pods were told it must say so, or what they were told is never taken back."""
    effects = (f"{counted(written, 'pod')} told before",)
    if written and isinstance(error, ApiForbidden):
        return Blocked("rights", str(error), effects=effects)
    if written and isinstance(error, ApiInvalid):
        return Refused("not_admitted", str(error), effects=effects)
    return error


def tell_one(pod: Object, order: Order, world: World) -> Told:
    """Tell one, reading it again when somebody else wrote it. Raises ApiAway, OutOfTime; ApiConflict when it never stood still."""
    path = paths.pods(pod["metadata"]["namespace"], pod["metadata"]["name"])
    seen, last = pod, None
    for _ in range(world.settings.retries):
        told = judge(seen, order(seen), world.settings.renew_behind)
        if told is not None:
            return told
        try:
            world.api.merge(seen, path, change_of(order(seen)))
        except ApiNotFound:
            return Told.GONE
        except ApiConflict as error:
            last = error
            again = _read_again(path, pod, world)
            if again is None:
                return Told.GONE
            seen = again
        else:
            return Told.WRITTEN
    raise last or ApiConflict(f"{path}: could not be written")


def judge(pod: Object, order: Desired, renew_behind: timedelta) -> Told | None:
    """Whether the pod need not be told, or must not; None: write."""
    if has_ended(pod) or epoch_of(pod) != order.epoch or not is_supervised(pod):
        return Told.GONE
    if is_leaving(pod):  # its processes may live: nobody may count it as told, or as gone
        return Told.MISSED
    stands = order_of(pod)
    if stands is None or stands.rank() < order.rank():
        return None
    if stands.rank() > order.rank():
        return Told.SUPERSEDED
    if order.until is None or (stands.until is not None and order.until - stands.until < renew_behind):
        return Told.STANDING
    return None


def change_of(order: Desired) -> Object:
    """The patch that tells it."""
    text = order.to_text()
    if len(text.encode()) > LARGEST_DESIRED:
        raise ValueError(f"desired state has {len(text)} bytes; at most {LARGEST_DESIRED} are written")
    return {"metadata": {"annotations": {DESIRED: text}}}


def _read_again(path: str, pod: Object, world: World) -> Object | None:
    try:
        again = world.api.get(path)
    except ApiNotFound:
        return None
    return again if again["metadata"]["uid"] == pod["metadata"]["uid"] else None
