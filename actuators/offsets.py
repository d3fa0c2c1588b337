"""Which commands of a partition were taken and which outcomes are confirmed: what may be committed.

Guarantee: nothing above an offset whose outcome is not confirmed is ever committed; so what a crash repeats is what was not confirmed, and a
little more. Safe to use from many threads.
"""

from __future__ import annotations

import threading


class Unconfirmed:
    """One partition, for as long as it is ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, None] = {}  # in the order they were taken
        self._next: int | None = None

    def take(self, offset: int) -> None:
        """A command was read."""
        with self._lock:
            self._open[offset] = None
            self._next = offset + 1

    def confirm(self, offset: int) -> None:
        """The broker has its outcome, or it needs none."""
        with self._lock:
            self._open.pop(offset, None)

    @property
    def position(self) -> int | None:
        """Offset of the first command to be handled again after a crash; None: nothing was taken."""
        with self._lock:
            return next(iter(self._open), self._next)

    @property
    def count(self) -> int:
        """Commands taken and not confirmed."""
        with self._lock:
            return len(self._open)
