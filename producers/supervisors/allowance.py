"""How much a pod may say: a bucket a pod, which a new connection does not fill again, and one for all pods together.

Nobody is cut off for talking: a line waits for its turn, and the kernel's buffer makes its pod wait. Pods wait in the order they came, so that
one that floods has no more of the common bucket than its own allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FORGET_AT: Final = 1024
"""Pods remembered before full buckets are thrown away; a full one remembers nothing."""


class Bucket:
    """Tokens: `burst` at once, `rate` a second in the long run. A debt is a time to wait."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._at = clock()

    def take(self, tokens: float) -> float:
        """Take them; how many seconds to wait first."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        self._tokens = max(
            self._tokens - tokens, -self._burst
        )  # who flooded is heard again after one burst's time
        return max(0.0, -self._tokens / self._rate)

    @property
    def full(self) -> bool:
        """Nothing was taken lately."""
        return self._tokens + (self._clock() - self._at) * self._rate >= self._burst


class Allowance:
    """Buckets by pod, and the common one."""

    def __init__(
        self,
        *,
        rate: float,
        burst: float,
        total_rate: float,
        total_burst: float,
        clock: Callable[[], float],
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._pods: dict[str, Bucket] = {}
        self._total = Bucket(total_rate, total_burst, clock)

    def own(self, pod: str, tokens: float) -> float:
        """Seconds this pod must wait for itself."""
        if pod not in self._pods:
            self._forget_full()
            self._pods[pod] = Bucket(self._rate, self._burst, self._clock)
        return self._pods[pod].take(tokens)

    def common(self, tokens: float) -> float:
        """Seconds to wait because of all pods together; asked once the pod's own wait is over."""
        return self._total.take(tokens)

    def _forget_full(self) -> None:
        if len(self._pods) >= FORGET_AT:
            self._pods = {pod: bucket for pod, bucket in self._pods.items() if not bucket.full}
