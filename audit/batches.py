"""Rows of one topic partition on their way to the store: cut into batches that a retry repeats exactly. Pure.

A batch holds consecutive messages of one partition and one month, since an insert is all or nothing within one part. Its token names the
table and the first and last offset: the same batch again is the same token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from audit.rows import Placed, Row


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

    def must_cut_before(self, arrived: datetime) -> bool:
        """A message of another month begins another batch."""
        return self.month is not None and self.month != (arrived.year, arrived.month)

    def add(self, offset: int, arrived: datetime, placed: Placed | None, now: float) -> None:
        """Take one message; `placed` is None for what has no row."""
        if self.first is None:
            self.first, self.since, self.oldest = offset, now, arrived.timestamp()
        self.last, self.month = offset, (arrived.year, arrived.month)
        if placed is not None:
            self.rows.setdefault(placed.table, []).append(placed.row)
            self.count += 1

    def cut(self) -> list[Batch]:
        """Batches of what was collected, one a table; collected anew from here."""
        batches = [self._batch(table, rows) for table, rows in sorted(self.rows.items())]
        self.rows, self.first, self.month, self.oldest, self.count = {}, None, None, None, 0
        return batches

    def _batch(self, table: str, rows: list[Row]) -> Batch:
        columns = tuple(rows[0])
        token = f"{table}:{self.topic}:{self.partition}:{self.first}-{self.last}"
        return Batch(table, columns, tuple(tuple(row[name] for name in columns) for row in rows), token)
