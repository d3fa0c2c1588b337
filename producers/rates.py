"""How much counters grew within a window.

Only growth of a counter that was there the last time counts: one that appears, starts again at zero (driver reload), or is missing for a
scrape adds nothing, so that no restart of an exporter looks like a burst of errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from producers.exposition import Sample

POINTS_KEPT: Final = 4096
"""Scrapes remembered within a window; beyond, the window is shorter than asked for and nothing is called well."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth within the window, and whether the window is covered."""

    by: float
    whole_window: bool


@dataclass(slots=True)
class _Track:
    total: float = 0.0
    last: dict[Hashable, float] = field(default_factory=dict)
    points: deque[tuple[datetime, float]] = field(default_factory=lambda: deque(maxlen=POINTS_KEPT))


class Rates:
    """Growth of groups of counters by key."""

    def __init__(self) -> None:
        self._tracks: dict[Hashable, _Track] = {}

    def growth(self, key: Hashable, samples: Iterable[Sample], at: datetime, window: timedelta) -> Growth:
        """Note the counters of one scrape, and say how much they grew, summed, in the window that ends now."""
        track = self._tracks.setdefault(key, _Track())
        now: dict[Hashable, float] = {
            (sample.series, *sorted(sample.labels.items())): sample.value for sample in samples
        }
        for name, value in now.items():
            before = track.last.get(name)
            if before is not None and value > before:
                track.total += value - before
        track.last = now
        track.points.append((at, track.total))
        begin = at - window
        while len(track.points) > 1 and track.points[1][0] <= begin:
            track.points.popleft()
        first_at, first_total = track.points[0]
        return Growth(track.total - first_total, first_at <= begin)
