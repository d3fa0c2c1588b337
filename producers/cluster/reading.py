"""How fields of API objects are read: what is absent or of another shape is absent, never an exception.

Objects come from a server of any version and from admission hooks of others; a watcher that stops at one odd object is blind to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from runtime.kubernetes import Object

_NOTHING: Final[Object] = {}


def part(item: Mapping[str, Any], *path: str) -> Object:
    """The object under a path; empty when it is not there."""
    found: Any = item
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else _NOTHING


def parts(item: Mapping[str, Any], *path: str) -> Sequence[Object]:
    """The objects in the list under a path."""
    found = part(item, *path[:-1]).get(path[-1])
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(item: Mapping[str, Any], *path: str) -> str:
    """The text under a path; empty when it is not there."""
    found = part(item, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def number(item: Mapping[str, Any], *path: str) -> int | None:
    """The whole number under a path."""
    found = part(item, *path[:-1]).get(path[-1])
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def moment(said: str) -> datetime | None:
    """A time as the API writes it."""
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def time_at(item: Mapping[str, Any], *path: str) -> datetime | None:
    """The time under a path."""
    return moment(text(item, *path))


def counted(said: str, least: int, otherwise: int) -> int:
    """A number somebody wrote into an annotation or label; `otherwise` when it is none, or below `least`."""
    if not said.isascii() or not said.isdigit() or len(said) > 9:  # noqa: PLR2004 - beyond any epoch or rank
        return otherwise
    return int(said) if int(said) >= least else otherwise


def condition(item: Mapping[str, Any], kind: str) -> Object:
    """The condition of this type; empty when it was never said."""
    return next((each for each in parts(item, "status", "conditions") if each.get("type") == kind), _NOTHING)


def holds(item: Mapping[str, Any], kind: str) -> Object | None:
    """The condition of this type where its status is True."""
    found = condition(item, kind)
    return found if found.get("status") == "True" else None


def controller_of(item: Mapping[str, Any]) -> Object | None:
    """The owner that controls the object."""
    owners = parts(item, "metadata", "ownerReferences")
    return next((owner for owner in owners if owner.get("controller") is True), None)
