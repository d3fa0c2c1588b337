"""When a kernel record was logged: from microseconds since boot to the time of day.

The kernel stamps records with a clock that nobody corrects. It drifts by seconds a day, so that after months `dmesg -T` is minutes off (its
manual warns of it), and beyond 5 min the router would no longer count the fault (finding R22). A record that arrives while we wait for one is
as old as it took to wake us: it gives the difference of the two clocks afresh. The smallest of a while is the best, since delays only add.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final

TRUSTED_FOR: Final = timedelta(minutes=10)
"""After this a new sample replaces the old one even if it says later: at 50 ppm the clocks part by 30 ms in that time."""


def boot_time_by_clocks() -> datetime:
    """When the kernel's clock stood at zero, by the difference of the clocks now. Suspended time is not counted, as the kernel does."""
    return datetime.fromtimestamp(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC), UTC)


class KernelClock:
    """Difference between the kernel's clock and the time of day, for one boot."""

    def __init__(self, boot: datetime) -> None:
        """`boot`: first guess, for records logged before we came."""
        self._boot = boot
        self._sampled: timedelta | None = None

    @property
    def boot(self) -> datetime:
        """When the kernel's clock stood at zero, as well as it is known."""
        return self._boot

    def note_arrival(self, since_boot: timedelta, now: datetime) -> None:
        """A record was read as soon as it was there."""
        boot = now - since_boot
        stale = self._sampled is None or abs(since_boot - self._sampled) > TRUSTED_FOR
        if stale or boot < self._boot:
            self._boot, self._sampled = boot, since_boot

    def time_of(self, since_boot: timedelta, now: datetime) -> datetime:
        """When it was logged; never in the future."""
        return min(self._boot + since_boot, now)
