"""Duplicates by origin: a message a mailbox has had already changes nothing (design 5, finding Q1)."""

from __future__ import annotations

from recovery.cells import OriginCell, origin_name
from recovery.turn import Turn
from schemas.envelope import Origin
from schemas.signals import Heartbeat, Progress

LEVELS = (Heartbeat, Progress)
"""Kinds whose repeat is harmless by nature; noting their origin would write a cell for each of them."""


def is_duplicate(turn: Turn) -> bool:
    """True for a message at or below the highest origin of its source partition; else the origin is noted."""
    origin = turn.event.origin_parts
    if origin is None or isinstance(turn.data, LEVELS):
        return False
    name = origin_name(origin.stage, origin.partition)
    cell = turn.get(name, OriginCell)
    if cell is not None and (origin.offset, origin.index) <= (cell.offset, cell.index):
        return True
    _note(turn, name, origin)
    return False


def _note(turn: Turn, name: str, origin: Origin) -> None:
    turn.put(name, OriginCell(offset=origin.offset, index=origin.index))
