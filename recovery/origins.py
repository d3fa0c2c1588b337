"""Duplicates by origin: a message a mailbox has had already changes nothing (design 5, finding Q1)."""

from __future__ import annotations

from recovery.cells import OriginCell, origin_name
from recovery.turn import Turn
from schemas.envelope import Origin
from schemas.signals import Progress

QUIET = (Progress,)
"""Kinds that mostly change nothing: their origin is noted only when one did, or each of them would write a cell."""


def is_duplicate(turn: Turn) -> bool:
    """True for a message at or below the highest origin of its source partition; else the origin is noted at once, but for quiet kinds."""
    origin = turn.event.origin_parts
    if origin is None:
        return False
    cell = turn.get(origin_name(origin.stage, origin.partition), OriginCell)
    if cell is not None and (origin.offset, origin.index) <= (cell.offset, cell.index):
        return True
    if not isinstance(turn.data, QUIET):
        _note(turn, origin)
    return False


def note_quiet(turn: Turn) -> None:
    """At the end of a turn: a message of a quiet kind did change something, so its origin is noted after all."""
    origin = turn.event.origin_parts
    if origin is not None and isinstance(turn.data, QUIET) and turn.changed:
        _note(turn, origin)


def _note(turn: Turn, origin: Origin) -> None:
    turn.put(
        origin_name(origin.stage, origin.partition), OriginCell(offset=origin.offset, index=origin.index)
    )
