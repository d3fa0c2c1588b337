"""Rows of one topic partition on their way to the store: cut into batches that a retry repeats exactly. Pure.

A batch holds consecutive messages of one partition and one month, since an insert is all or nothing within one part, and no more bytes than a
server takes at once: one too large would be tried again for ever. Its token names the table and the first and last offset: the same batch again
is the same token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from audit.rows import Placed, Row

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of messages in one batch: 10,000 usual ones are less, 10,000 of the largest would be 9 GB."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one table out of consecutive messages of one partition."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    token: str


@dataclass(slots=True)
class Batcher:
    """Collects one partition."""

    topic: str
    partition: int
    rows: dict[str, list[Row]] = field(default_factory=dict)
    first: int | None = None
    last: int | None = None
    month: tuple[int, int] | None = None
    oldest: float | None = None
    """Append time of the first message that is collected, None: there is none."""
    since: float = 0.0
    count: int = 0
    bytes: int = 0

    def must_cut_before(self, arrived: datetime, size: int) -> bool:
        """A message of another month, or one that makes it too large, begins another batch."""
        if self.month is None:
            return False
        return self.month != (arrived.year, arrived.month) or self.bytes + size > MOST_BYTES

    def add(self, offset: int, arrived: datetime, placed: Placed | None, now: float, size: int = 0) -> None:
        """Take one message, of `size` bytes; `placed` is None for what has no row."""
        if self.first is None:
            self.first, self.since, self.oldest = offset, now, arrived.timestamp()
        self.last, self.month = offset, (arrived.year, arrived.month)
        if placed is not None:
            self.rows.setdefault(placed.table, []).append(placed.row)
            self.count += 1
            self.bytes += size

    def cut(self) -> list[Batch]:
        """Batches of what was collected, one a table; collected anew from here."""
        batches = [self._batch(table, rows) for table, rows in sorted(self.rows.items())]
        self.rows, self.first, self.month, self.oldest, self.count, self.bytes = {}, None, None, None, 0, 0
        return batches

    def _batch(self, table: str, rows: list[Row]) -> Batch:
        columns = tuple(rows[0])
        token = f"{table}:{self.topic}:{self.partition}:{self.first}-{self.last}"
        return Batch(table, columns, tuple(tuple(row[name] for name in columns) for row in rows), token)
