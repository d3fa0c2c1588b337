"""How far this node's clock is from the broker's, measured on every signal that is delivered (finding R22).

Method. The broker stamps a record with its own clock when it appends it (LogAppendTime) and returns that stamp with the confirmation. We note our clock
when we hand the record to the client, and the client measures how long it took until the confirmation. Taking the append to lie in the middle,

    offset = (our clock at the send + half of the round trip) - append time          (positive: our clock is ahead)

is wrong by at most half of the round trip, whichever way the delay was spread. So the sample with the shortest round trip of the last minutes is
taken, and one that took longer than `LONGEST` says nothing. The broker stamps whole milliseconds, which adds at most one to the error.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

LONGEST: Final = timedelta(seconds=2)
"""Round trip above which a sample is dropped: it would be wrong by up to a second."""

KEPT_FOR: Final = timedelta(minutes=5)
"""Samples compared with each other; at 50 ppm a clock moves 15 ms in that time."""

STALE_AFTER: Final = timedelta(minutes=15)
"""Without a sample for so long nothing is known: a node without news to tell is silent for a minute at most."""

STAMP: Final = timedelta(milliseconds=1)
SAMPLES_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class Offset:
    """A measurement: the offset and how wrong it may be."""

    at: datetime
    offset: timedelta
    error: timedelta


class ClockOffset:
    """Keeps the best measurement of the last minutes."""

    def __init__(self, bound: timedelta) -> None:
        """`bound`: an offset, error included, within which the clock counts as synced."""
        self._bound = bound
        self._samples: deque[Offset] = deque(maxlen=SAMPLES_KEPT)

    def sample(self, sent_at: datetime, round_trip: timedelta, appended_at: datetime) -> None:
        """Note one delivery. Times are aware; `sent_at` is by the node's clock, `appended_at` by the broker's."""
        if not timedelta(0) <= round_trip <= LONGEST:
            return
        half = round_trip / 2
        self._samples.append(Offset(sent_at, sent_at + half - appended_at, half + STAMP))

    def measured(self, now: datetime) -> Offset | None:
        """The best measurement, or None when there is none that is not stale."""
        fresh = [sample for sample in self._samples if abs(now - sample.at) <= STALE_AFTER]
        if not fresh:
            return None
        newest = max(sample.at for sample in fresh)
        return min(
            (sample for sample in fresh if newest - sample.at <= KEPT_FOR), key=lambda sample: sample.error
        )

    def is_synced(self, now: datetime) -> bool:
        """The offset is measured and within the bound."""
        best = self.measured(now)
        return best is not None and abs(best.offset) + best.error <= self._bound
