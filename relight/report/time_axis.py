"""The axis of times in the picture of incidents: as long as what happened, not as what was asked for, with lines at round times. Pure.

A report of thirty days over a quarter of an hour's incidents would have them all in one column at its edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

MARGIN: Final = 0.06
"""Share of the axis that stays free at each end, so that no point lies on the frame."""
SHORTEST: Final = timedelta(minutes=1)
MOST_LINES: Final = 6
_DAY: Final = 86_400
_MINUTE: Final = 60
_STEPS: Final = (
    10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600,
    *(days * _DAY for days in (1, 2, 7, 14, 30, 90, 365)),
)  # fmt: skip
"""Seconds between two lines."""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """From the left edge to the right one."""

    begin: datetime
    end: datetime

    def share(self, moment: datetime) -> float:
        """Where a moment lies, 0 at the left edge and 1 at the right one."""
        return (moment - self.begin) / (self.end - self.begin)

    def lines(self) -> Iterator[tuple[datetime, str]]:
        """Round times within it and what stands at each; the day stands where it begins to count."""
        length = (self.end - self.begin).total_seconds()
        step = next((step for step in _STEPS if length / step <= MOST_LINES), _STEPS[-1])
        number = -(-self.begin.timestamp() // step)
        day = None
        while (at := datetime.fromtimestamp(number * step, UTC)) <= self.end:
            yield at, _label(at, step, with_day=at.date() != day)
            day, number = at.date(), number + 1


def axis_of(moments: Iterable[datetime], since: datetime, until: datetime) -> TimeAxis:
    """The axis for these moments, within what was asked for as far as there is room."""
    told = sorted(moments)
    if not told:
        return TimeAxis(since, until)
    first, last = told[0], told[-1]
    margin = max(SHORTEST - (last - first), (last - first) * 2 * MARGIN) / 2
    return TimeAxis(first - margin, last + margin)


def _label(at: datetime, step: int, *, with_day: bool) -> str:
    if step >= _DAY:
        return f"{at:%d %b}"
    clock = f"{at:%H:%M:%S}" if step < _MINUTE else f"{at:%H:%M}"
    return f"{at:%d %b} {clock}" if with_day else clock
