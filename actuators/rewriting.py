"""Change one object as it stands now: read, judge, write under its UID and version, and again when somebody else was quicker."""

from __future__ import annotations

from collections.abc import Callable

from actuators.reply import Refused
from actuators.world import World
from runtime.errors import ApiConflict, ApiNotFound
from runtime.kubernetes import Object

Judge = Callable[[Object], Object | None]
"""The change an object needs, as a merge patch; None: it is as it should be. May raise Refused."""


def rewrite(seen: Object, path: str, judge: Judge, world: World) -> tuple[Object, bool]:
    """The object as it is then, and whether it was written.

    Raises Refused when it is gone or another one by now, ApiConflict when it never stood still.
    """
    uid, last = seen["metadata"]["uid"], None
    for _ in range(world.settings.retries):
        change = judge(seen)
        if change is None:
            return seen, False
        try:
            return world.api.merge(seen, path, change), True
        except ApiNotFound:
            raise Refused("gone", f"{path} was deleted") from None
        except ApiConflict as error:
            last = error
            seen = _again(path, uid, world)
    raise last or ApiConflict(f"{path}: could not be written")


def _again(path: str, uid: str, world: World) -> Object:
    try:
        seen = world.api.get(path)
    except ApiNotFound:
        raise Refused("gone", f"{path} was deleted") from None
    if seen["metadata"]["uid"] != uid:
        raise Refused("other_object", f"{path} was made anew")
    return seen
