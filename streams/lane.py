"""What was read of one partition and not yet handled: in offset order, without holes, bounded.

Our inputs are neither compacted nor written transactionally, so offsets are dense: one below the next is a replay, one above it a jump. Faust
can cause both around a rebalance; a jump is dropped unhandled and asks for a seek, so that what was jumped over is read again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta
from enum import Enum, auto

from streams.ports import Message, Place


class Offer(Enum):
    """What became of an offered message."""

    TAKEN = auto()
    REPLAY = auto()
    JUMP = auto()


class Lane:
    """Messages of one partition on their way to its worker."""

    def __init__(self, place: Place, position: int, *, group: int, backlog: int, linger: timedelta) -> None:
        """`group` messages at most are handed out at once, `backlog` groups are kept at most."""
        self.place = place
        self.next = position
        """Offset that will be taken next."""
        self.jumping = False
        """A jump was seen and nothing taken since: the seek is still to come."""
        self.set_aside = False
        """Full for so long that reading goes on without it; what comes meanwhile is read again later."""
        self._group = group
        self._room = group * backlog
        self._linger = linger.total_seconds()
        self._waiting: deque[Message] = deque()
        self._handed = 0
        self._oldest: float | None = None
        self._wake = asyncio.Event()
        self._freed = asyncio.Event()
        self._stopped = False

    @property
    def is_empty(self) -> bool:
        """Nothing waits and nothing is being handled."""
        return not self._waiting and self._oldest is None

    @property
    def oldest(self) -> float | None:
        """Append time of the oldest message not yet handled; None when there is none."""
        if self._oldest is not None:
            return self._oldest
        return self._waiting[0].timestamp if self._waiting else None

    @property
    def has_room(self) -> bool:
        """Whether reading should go on."""
        return len(self._waiting) < self._room or self._stopped

    def offer(self, message: Message) -> Offer:
        """Take the next message, or say why not."""
        offset = message.offset
        if offset != self.next:
            self.jumping = self.jumping or offset > self.next
            return Offer.REPLAY if offset < self.next else Offer.JUMP
        self.next = offset + 1
        self.jumping = False
        self._waiting.append(message)
        self._wake.set()
        return Offer.TAKEN

    async def wait_for_room(self, patience: timedelta) -> bool:
        """Whether there is room again, or the lane was stopped, within `patience`."""
        try:
            async with asyncio.timeout(patience.total_seconds()):
                while not self.has_room:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            return False
        return True

    async def take(self, patience: timedelta) -> list[Message] | None:
        """Next group; empty when nothing came within `patience`; None when the lane was stopped.

        The group before counts as handled from here on; its state may still be on its way to the log.
        """
        self._oldest = None
        if not self._waiting and not self._stopped:
            await self._wait_for_some(patience)
        if self._linger and 0 < len(self._waiting) < self._group and not self._stopped:
            await asyncio.sleep(self._linger)
        if self._stopped:
            return None
        if not self._waiting:
            return []
        taken = [self._waiting.popleft() for _ in range(min(self._group, len(self._waiting)))]
        self._oldest = taken[0].timestamp
        self._freed.set()
        return taken

    def stop(self) -> None:
        """Hand out nothing more; what waits is dropped and will be read again by whoever owns the partition next."""
        self._stopped = True
        self._waiting.clear()
        self._wake.set()
        self._freed.set()

    async def _wait_for_some(self, patience: timedelta) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(patience.total_seconds()):
                await self._wake.wait()
        except TimeoutError:
            pass
