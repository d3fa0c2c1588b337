"""Health: named checks, each silent while all is well, each a sentence when it is not.

Asked from the thread that serves `/healthz`, so that a stuck event loop is reported and not merely unheard. A check must not block and must
not touch what belongs to the event loop; it reads numbers that the loop leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

Check = Callable[[], str | None]
"""What is wrong, or None."""


class Health:
    """Checks of one process by name."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add a check; a second one of the same name replaces it."""
        self._checks[name] = check

    def faults(self) -> dict[str, str]:
        """Everything that is wrong now; empty when all is well."""
        found = {name: check() for name, check in list(self._checks.items())}
        return {name: fault for name, fault in found.items() if fault is not None}


class Pulse:
    """Whether something still turns: `beat` from it, `check` from outside."""

    def __init__(self, what: str, limit: timedelta, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and never goes back."""
        self._what = what
        self._limit = limit.total_seconds()
        self._clock = clock
        self._last = clock()

    def beat(self) -> None:
        """It turned."""
        self._last = self._clock()

    def check(self) -> str | None:
        """What is wrong, or None."""
        silent = self._clock() - self._last
        if silent <= self._limit:
            return None
        return f"{self._what} did not turn for {silent:.0f} s (limit {self._limit:.0f} s)"


class Movement:
    """Whether a position moves while there is something to read."""

    def __init__(self, limit: timedelta, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and never goes back."""
        self._limit = limit.total_seconds()
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    def saw(self, what: str, position: int, waiting: int) -> None:
        """Note where `what` stands and how much it has left to read."""
        now = self._clock()
        last = self._seen.get(what)
        if waiting <= 0 or last is None or last[0] != position:
            self._seen[what] = (position, now)

    def keep_only(self, ours: Iterable[str]) -> None:
        """What is not among these is no longer ours to move."""
        for what in set(self._seen) - set(ours):
            del self._seen[what]

    def check(self) -> str | None:
        """What is wrong, or None."""
        now = self._clock()
        still = {
            what: now - since for what, (_, since) in list(self._seen.items()) if now - since > self._limit
        }
        if not still:
            return None
        worst = max(still, key=lambda what: still[what])
        return f"{len(still)} stand still with something left to read; {worst} for {still[worst]:.0f} s"


class Past:
    """What went wrong and cannot be mended any more: red for a while, so that somebody sees it, and then no longer."""

    def __init__(self, shown: timedelta, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and never goes back."""
        self._shown = shown.total_seconds()
        self._clock = clock
        self._happened: dict[str, float] = {}

    def happened(self, what: str) -> None:
        """It went wrong now."""
        self._happened[what] = self._clock()

    def check(self) -> str | None:
        """What went wrong, or None."""
        now = self._clock()
        shown = [what for what, at in list(self._happened.items()) if now - at <= self._shown]
        return "; ".join(shown) or None
