"""Due times of the cells of one partition: a heap that is rebuilt from the cells, so nothing else has to be kept.

An entry is a wish, not a truth: whoever takes one out compares it with the cell, and one that the cell has moved on from is dropped.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from streams.state_records import SubjectKey


class Due(NamedTuple):
    """When to wake which cell; `due` is the time the cell carries, `at` when to send, later for a tick that came early."""

    at: datetime
    due: datetime
    subject: SubjectKey
    cell: str


class DueTimes:
    """A heap of due times."""

    def __init__(self, entries: list[Due] | None = None) -> None:
        """`entries` already form a heap."""
        self._heap = entries if entries is not None else []

    def __len__(self) -> int:
        """Entries, outdated ones included."""
        return len(self._heap)

    def arm(self, entry: Due) -> None:
        """Add one."""
        heapq.heappush(self._heap, entry)

    def ready(self, now: datetime) -> Iterator[Due]:
        """Take out, in order, everything to be sent by `now`; sees what is armed meanwhile."""
        while self._heap and self._heap[0].at <= now:
            yield heapq.heappop(self._heap)

    def copy(self) -> DueTimes:
        """An independent copy."""
        return DueTimes(list(self._heap))
