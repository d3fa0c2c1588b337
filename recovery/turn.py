"""One turn: the working copy of a subject's cells while one message is handled.

Reads see this turn's own writes; what was written and emitted becomes the `Advance` at the end. Ids of emits are derived from the
message that caused them, so that a repeat derives the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, TypeVar

from recovery.interface import NOTHING, Advance, Cell, Cells, Delivery, Emit
from rules.compiled import CompiledRulebook
from schemas import topics
from schemas.envelope import Payload, make_event
from schemas.ids import derive_id

C = TypeVar("C")
_ABSENT: Final = object()


class Turn:
    """Cells, message and rulebook of one call of `advance`, and what it changes."""

    def __init__(self, cells: Cells, delivery: Delivery, rulebook: CompiledRulebook) -> None:
        """Begin with the subject's cells as they stand."""
        self._cells = cells
        self._changed: dict[str, Cell | None] = {}
        self._emits: list[Emit] = []
        self.delivery = delivery
        self.event = delivery.event
        self.now: datetime = delivery.now
        self.rulebook = rulebook
        self.cluster = delivery.event.cluster
        self.subject = delivery.event.subject

    def get(self, name: str, kind: type[C]) -> C | None:
        """Cell of that name, or None; a cell of another kind under that name is a bug and raises TypeError."""
        found = self._changed.get(name, _ABSENT)
        if found is _ABSENT:
            found = self._cells.get(name)
        if found is None:
            return None
        if not isinstance(found, kind):
            raise TypeError(
                f"cell {name!r} of {self.subject} is a {type(found).__name__}, not a {kind.__name__}"
            )
        return found

    def put(self, name: str, cell: Cell) -> None:
        """Write a cell; writing what stands already changes nothing."""
        if self._changed.get(name, _ABSENT) is _ABSENT and self._cells.get(name) == cell:
            return
        self._changed[name] = cell

    def drop(self, name: str) -> None:
        """Delete a cell."""
        if name in self._cells or self._changed.get(name) is not None:
            self._changed[name] = None

    def names(self, prefix: str = "") -> Iterator[str]:
        """Names of all cells that begin with the prefix, in order. Costs the number of cells: for rare events only."""
        alive = {name for name in self._cells if self._changed.get(name, _ABSENT) is not None}
        alive.update(name for name, cell in self._changed.items() if cell is not None)
        return iter(sorted(name for name in alive if name.startswith(prefix)))

    def emit(
        self, topic: topics.Topic, key: str, data: Payload, *, name: str, time: datetime | None = None
    ) -> None:
        """Send a payload; `key` is the subject it is meant for, or the incident; `name` becomes the event's id."""
        event = make_event(
            data,
            id=name,
            source=f"/clusters/{self.cluster}/recovery",
            subject=key,
            time=time or self.now,
            cluster=self.cluster,
        )
        self._emits.append(Emit(topic=topic.name, key=key, event=event))

    def tell(self, subject: str, data: Payload, *, time: datetime | None = None) -> None:
        """Send a message to another subject's mailbox."""
        self.emit(topics.INBOX, subject, data, name=self.derive("tell", subject, len(self._emits)), time=time)

    def derive(self, *parts: str | int) -> str:
        """Id derived from this turn's message and the parts."""
        return derive_id(self.cluster, self.subject, self.event.id, *parts)

    def after(self, duration: timedelta) -> datetime:
        """Time of the partition's clock that long from now."""
        return self.now + duration

    def result(self) -> Advance:
        """What this turn changed and emits."""
        if not self._changed and not self._emits:
            return NOTHING
        return Advance(cells=self._changed, emits=tuple(self._emits))

    @property
    def changed(self) -> bool:
        """Some cell was written or deleted."""
        return bool(self._changed)

    @property
    def data(self) -> Payload:
        """Payload of the message."""
        return self.event.data
