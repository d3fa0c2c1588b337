"""Changed cells and position of one partition on their way to its log: one transaction at a time, and what comes meanwhile goes into the next.

Why: a transaction takes some 20 ms, most of which the broker spends telling its own logs. A group that waited for the one before was decided
that much later; now it is decided and told at once, and written with whatever else came meanwhile. Nothing is lost by it: emits are
confirmed before their state is handed over here, and are the same, with the same ids and origins, however often they are decided from the same
messages. A write that can never be made (fenced, outcome unknown) makes memory worthless as a whole: nothing decided on top of it is believed.

A write that was not taken is tried again byte for byte before anything else is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from streams.ports import StateRecord
from streams.state_records import POSITION_KEY, Position


@dataclass(slots=True)
class _Batch:
    """What goes into one transaction."""

    records: dict[bytes, bytes | None] = field(default_factory=dict)
    """The last value of each key only."""
    next: int = 0
    now: datetime | None = None
    messages: int = 0

    def add(self, records: Mapping[bytes, bytes | None], next_: int, now: datetime, messages: int) -> None:
        """A group that follows."""
        self.records.update(records)
        self.next, self.now = next_, now
        self.messages += messages


class StateWriter:
    """Writes what is put, in order; what it fails of is raised to whoever uses it next."""

    def __init__(
        self, write: Callable[[Sequence[StateRecord]], Awaitable[None]], position: int, *, room: int
    ) -> None:
        """`write` returns when all of it is in the log, and raises when it never will be. `room`: messages that may wait for their turn."""
        self.written = position
        """The position in the log."""
        self._write = write
        self._room = room
        self._waiting: _Batch | None = None
        self._task: asyncio.Task[None] | None = None
        self._turned = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """All that was put is in the log."""
        return self._task is None

    def put(self, records: Mapping[bytes, bytes | None], *, next_: int, now: datetime, messages: int) -> None:
        """Have it written with the position after it. Raises what a write before ended with."""
        self.check()
        if self._waiting is None:
            self._waiting = _Batch()
        self._waiting.add(records, next_, now, messages)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="state writer")

    async def wait_for_room(self) -> None:
        """Until another group may be put. Raises what a write before ended with."""
        self.check()
        while self._waiting is not None and self._waiting.messages >= self._room:
            await self._turn()

    async def settle(self) -> None:
        """Until all that was put is in the log. Raises what a write ended with."""
        self.check()
        while not self.is_idle:
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

    async def _turn(self) -> None:
        self._turned.clear()
        await self._turned.wait()
        self.check()

    async def _run(self) -> None:
        try:
            while (batch := self._waiting) is not None and batch.now is not None:
                self._waiting = None
                self._turned.set()
                position = Position(first=self.written, next=batch.next, now=batch.now).encode()
                await self._write([*batch.records.items(), (POSITION_KEY, position)])
                self.written = batch.next
            self._task = None
        finally:
            self._turned.set()
