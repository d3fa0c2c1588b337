"""Changed cells and position of one partition on their way to its log: one transaction at a time, and what comes meanwhile goes into the next.

Why: a transaction takes some 20 ms. A group that waited for the one before was decided that much later, and with one transaction a group the
broker was the busiest process of all at 50 faults a second; now a group is decided and told at once, and its state waits a moment for company.
Nothing is lost by it: emits are confirmed before their state is handed over here, and are the same, with the same ids and origins, however
often they are decided from the same messages. A write that can never be made (fenced, outcome unknown) makes memory worthless as a whole:
nothing decided on top of it is believed.

A write that was not taken is tried again byte for byte before anything else is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from streams.ports import StateRecord
from streams.state_records import POSITION_KEY, Position


@dataclass(slots=True)
class _Batch:
    """What goes into one transaction."""

    next: int
    now: datetime
    messages: int = 0
    records: dict[bytes, bytes | None] = field(default_factory=dict)
    """The last value of each key only."""


class StateWriter:
    """Writes what is put, in order; what it fails of is raised to whoever uses it next."""

    def __init__(
        self,
        write: Callable[[Sequence[StateRecord]], Awaitable[None]],
        position: int,
        *,
        room: int,
        linger: timedelta,
    ) -> None:
        """`write` returns when all of it is in the log, and raises when it never will be.

        `room`: messages that may wait for their turn. `linger`: how long they wait for company while there is room.
        """
        self.written = position
        """The position in the log."""
        self._write = write
        self._room = room
        self._waiting: _Batch | None = None
        self._task: asyncio.Task[None] | None = None
        self._linger = linger.total_seconds()
        self._turned = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """All that was put is in the log."""
        return self._task is None

    def put(self, records: Mapping[bytes, bytes | None], *, next_: int, now: datetime, messages: int) -> None:
        """Have it written with the position after it. Raises what a write before ended with."""
        self.check()
        batch = self._waiting = self._waiting or _Batch(next_, now)
        batch.next, batch.now = next_, now
        batch.messages += messages
        batch.records.update(records)
        if not self._has_room:
            self._hurry.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="state writer")

    async def wait_for_room(self) -> None:
        """Until another group may be put. Raises what a write before ended with."""
        self.check()
        while not self._has_room:
            await self._turn()

    async def settle(self) -> None:
        """Until all that was put is in the log. Raises what a write ended with."""
        self.check()
        while not self.is_idle:
            self._hurry.set()
            await self._turn()

    def check(self) -> None:
        """Raises what a write ended with: nothing can be written any more then."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def cancel(self) -> None:
        """Write nothing more. What is under way may still come to be."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task

    @property
    def _has_room(self) -> bool:
        return self._waiting is None or self._waiting.messages < self._room

    async def _turn(self) -> None:
        self._turned.clear()
        await self._turned.wait()
        self.check()

    async def _run(self) -> None:
        try:
            while (batch := self._waiting) is not None:
                await self._wait_for_company()
                self._waiting = None
                self._hurry.clear()
                self._turned.set()
                await self._write_one(batch)
            self._task = None
        finally:
            self._turned.set()

    async def _wait_for_company(self) -> None:
        if not self._linger:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._linger):
                await self._hurry.wait()

    async def _write_one(self, batch: _Batch) -> None:
        position = Position(first=self.written, next=batch.next, now=batch.now).encode()
        await self._write([*batch.records.items(), (POSITION_KEY, position)])
        self.written = batch.next
