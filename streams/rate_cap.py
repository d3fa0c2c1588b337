"""A cap on how fast external sources may speak: a bucket for each source, and one for all of them together.

Time is the messages' append time, so the cap needs no clock and treats a backlog as it would have treated the stream. Sources are names that a
sender chooses: the common bucket is what bounds somebody who invents new ones, and the table of buckets is bounded as well.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

MOST_SOURCES: Final = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    seen: float

    def take(self, now: float, rate: float, burst: float) -> bool:
        self.tokens = min(burst, self.tokens + max(0.0, now - self.seen) * rate)
        self.seen = max(self.seen, now)
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True


class RateCap:
    """Says whether one more message of a source is within its cap."""

    def __init__(self, *, per_source: float, burst: int, total: float) -> None:
        """`per_source` and `total` are messages a second, `burst` messages at once."""
        self._per_source = per_source
        self._burst = float(burst)
        self._total = total
        self._total_burst = max(float(burst), total)
        self._sources: OrderedDict[str, _Bucket] = OrderedDict()
        self._all: _Bucket | None = None

    def admits(self, source: str, now: float) -> bool:
        """Whether the message that arrived at `now` (seconds) is within the caps; it is counted if so."""
        bucket = self._sources.get(source)
        if bucket is None:
            bucket = self._sources[source] = _Bucket(self._burst, now)
            if len(self._sources) > MOST_SOURCES:
                self._sources.popitem(last=False)
        self._sources.move_to_end(source)
        if self._all is None:
            self._all = _Bucket(self._total_burst, now)
        return bucket.take(now, self._per_source, self._burst) and self._all.take(
            now, self._total, self._total_burst
        )
