"""What sources hand to the agent: observations, in batches that are kept whole or not at all.

A batch carries the source's own state after it (a cursor, the standing codes). Both go to disk in one piece, so that after a crash the source
goes on exactly behind what was kept: nothing is seen twice, nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from schemas.signals import Signal

State = Mapping[str, Any]
"""What a source must remember over a restart; plain JSON, bounded by the source."""


class SignalClass(StrEnum):
    """What may be dropped when disk runs out: metrics may, faults and exits never (finding 41)."""

    FAULT = "fault"
    EXIT = "exit"
    METRIC = "metric"


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing a source saw. `id` is derived from where it was seen, so that seeing it again gives the same."""

    signal: Signal
    id: str
    time: datetime
    stamped: bool = True
    """`time` is when it happened by the node's clock; False: it is only when we read of it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Observations of one source and one class, with the source's state after them; may be empty when only the state moved."""

    kind: SignalClass
    observations: tuple[Observation, ...] = ()
    state: State | None = None


class Pace:
    """When a state that nothing hangs on is worth a write: a chatty log moves its cursor many times a second.

    What was read since and told nothing is read again after a crash, and tells nothing again.
    """

    def __init__(self, every: timedelta = timedelta(seconds=5)) -> None:
        self._every = every
        self._kept_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """The last state went to disk long enough ago; the first one is due at once."""
        return self._kept_at is None or abs(now - self._kept_at) >= self._every

    def kept(self, now: datetime) -> None:
        """A state goes to disk."""
        self._kept_at = now


class Source(Protocol):
    """One pair of eyes. A source never waits for Kafka; it is asked again when its last batch is on disk."""

    @property
    def name(self) -> str:
        """Unique in the agent; its state is kept under it."""
        ...

    @property
    def works(self) -> bool:
        """It saw what it looks at, last time it looked; False: it is blind, and the heartbeat says so."""
        ...

    def restore(self, state: State | None) -> None:
        """Go on behind this state; None: it never ran here."""
        ...

    async def next(self) -> Batch:
        """Wait until there is something to keep."""
        ...

    def counts(self) -> dict[str, int]:
        """What it counted since it was last asked, for the heartbeat; asking clears it."""
        ...
