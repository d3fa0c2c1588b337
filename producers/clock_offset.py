"""The node's clock against the broker's, measured from the confirmations of ordinary messages (finding R22).

The broker stamps each message of `signals.v1` with its own time (LogAppendTime) and returns it with the confirmation. If a message was sent at s
and confirmed at r by the node's clock and appended at a by the broker's, then the node's clock is ahead by (s + r) / 2 - a, wrong by at most
(r - s) / 2, as in NTP (RFC 5905, section 8). Time a message waits in the client makes the span longer, never the bound wrong; so of the
measurements of the last minutes the one with the shortest span is taken, and one whose span is too long is none. Positive: the node's clock
is ahead.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from schemas.envelope import TimeQuality

MADE_UP: Final = 1.234
"""What librdkafka's in-process broker says of every message, in whichever year: it has no clock to compare with."""
KEPT: Final = 64
KEPT_FOR: Final = timedelta(minutes=10)
"""Good clocks part by 50 ppm: 30 ms in that time, less than a good measurement's doubt."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One round trip; all in Unix seconds. `confirmed` by the node's clock."""

    offset: float
    doubt: float
    confirmed: float


class ClockOffset:
    """Best of the last measurements. Safe to use from several threads."""

    def __init__(self, *, synced_within: timedelta, uncertain_above: timedelta) -> None:
        """Offsets up to `synced_within` count as synced; round trips above `uncertain_above` are left out."""
        self._synced_within = synced_within.total_seconds()
        self._uncertain_above = uncertain_above.total_seconds()
        self._measurements: deque[Measurement] = deque(maxlen=KEPT)
        self._mutex = threading.Lock()

    def measured(self, *, sent: float, confirmed: float, appended: float) -> None:
        """Note one round trip; `sent` and `confirmed` by the node's clock, `appended` by the broker's."""
        span = confirmed - sent
        if not 0 <= span <= self._uncertain_above:  # below 0: the node's clock was set back in between
            return
        if appended == MADE_UP:
            return
        found = Measurement((sent + confirmed) / 2 - appended, span / 2, confirmed)
        with self._mutex:
            last = self._measurements[-1] if self._measurements else None
            if last is not None and abs(found.offset - last.offset) > found.doubt + last.doubt + 1.0:
                self._measurements.clear()  # one of the clocks was set: what was measured before is of no use
            self._measurements.append(found)

    def seconds(self, now: float) -> float | None:
        """Node clock minus broker clock; None when nothing was measured lately."""
        oldest = now - KEPT_FOR.total_seconds()
        with self._mutex:
            lately = [one for one in self._measurements if one.confirmed >= oldest]
        return min(lately, key=lambda one: one.doubt).offset if lately else None

    def quality(self, now: float) -> TimeQuality:
        """What is known of times by this clock."""
        offset = self.seconds(now)
        if offset is None or abs(offset) > self._synced_within:
            return TimeQuality.UNKNOWN
        return TimeQuality.SYNCED
