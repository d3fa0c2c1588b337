"""Whether steps are as fast as before: 5 in a row within a tenth of the median of the last 50 before the stop (recovery 8)."""

from __future__ import annotations

import statistics
from collections import deque

REMEMBERED = 50
IN_A_ROW = 5


class Pace:
    """Lengths of steps of one start, and the baseline from before it."""

    def __init__(self, baseline: float | None, within: float) -> None:
        """`within`: what part of the baseline a step may differ; no baseline: stable is never said, since nobody knows."""
        self._baseline = baseline
        self._within = within
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)
        self._row = 0
        self._said = False

    def step(self, seconds: float) -> bool:
        """Note a step; true once, at the step that makes it stable."""
        self._seconds.append(seconds)
        if self._baseline is None or self._said:
            return False
        near = abs(seconds - self._baseline) <= self._within * self._baseline
        self._row = self._row + 1 if near else 0
        self._said = self._row >= IN_A_ROW
        return self._said

    def baseline(self) -> float | None:
        """For a checkpoint: the median of this start, else what an earlier one found."""
        if len(self._seconds) >= IN_A_ROW:
            return statistics.median(self._seconds)
        return self._baseline
