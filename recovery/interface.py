"""What the shell around `advance` sees: a delivery in, changed cells and emits out.

`advance(cells, delivery, rulebook) -> Advance` is pure: the same arguments give the same result on every machine (design 5). `cells` are
those of the delivery's subject only, by name. A cell that carries `due` asks for a `Tick` at that time, addressed to the same subject and
naming the cell; the shell rebuilds its heap of due times from the cells, so nothing else has to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from schemas.envelope import Event


class Cell(Protocol):
    """One small piece of a subject's state; immutable."""

    @property
    def due(self) -> datetime | None:
        """When this cell wants a tick; None: never."""
        ...


Cells = Mapping[str, Cell]
"""Cells of one subject by name."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as it was delivered.

    `arrival` is the broker's append time of this message, `now` the highest append time its partition has seen (with the stage setting
    `clock: event`: the message's own event time, and the highest of those).
    """

    event: Event
    arrival: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class Emit:
    """A message to send: topic, the subject whose mailbox key it gets (or another key), and the event, without an origin yet."""

    topic: str
    key: str
    event: Event


@dataclass(frozen=True, slots=True)
class Advance:
    """Result of one step: cells to write (None deletes), and what to send, in order."""

    cells: Mapping[str, Cell | None] = field(default_factory=dict)
    emits: tuple[Emit, ...] = ()


NOTHING = Advance()
