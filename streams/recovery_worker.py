"""One inbox partition at work: handle a group, confirm its emits, have its state written, go on.

Order, and why: emits are confirmed first, so that nothing decided can be lost; then one transaction writes changed cells and position, or
nothing. A crash in between repeats the same emits with the same origins and ids, which is harmless; the other order would lose them. The next
group does not wait for that transaction (see `streams.state_writer`): it is decided from memory, which moves on when emits are confirmed, and is
thrown away as a whole when a write can never be made. What fails is tried again byte for byte, until it is taken, the producer is fenced, or
the partition is taken away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from runtime import logs
from runtime.errors import BrokerError, Fenced, OutcomeUnknown
from runtime.metrics import StreamMetrics
from streams.core import Core
from streams.errors import RulebookMissing
from streams.group import Group
from streams.handler import Handler
from streams.memory import Memory
from streams.ports import Message, Place, Rulebooks, Send, Sender, StateLog, StateRecord
from streams.settings import RecoverySettings
from streams.state_writer import StateWriter

_RETRY: Final = timedelta(milliseconds=200)
_RETRY_MOST: Final = timedelta(seconds=5)

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all workers of a stage share."""

    core: Core
    sender: Sender
    rulebooks: Rulebooks
    settings: RecoverySettings
    metrics: StreamMetrics
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], datetime] = lambda: datetime.now(UTC)


class RecoveryWorker:
    """Handles the messages of one inbox partition; see `streams.ports.PartitionWorker`."""

    def __init__(
        self,
        place: Place,
        memory: Memory,
        handler: Handler,
        state_log: StateLog,
        shared: Surroundings,
        *,
        on_close: Callable[[], None],
    ) -> None:
        """`memory` is restored and has a position."""
        if memory.position is None:
            raise ValueError(f"memory of {place} has no position")
        self.memory = memory
        self.handler = handler
        self.blocked: str | None = None
        """Why the partition waits for an operator; None: it does not."""
        self._place = place
        self._state_log = state_log
        self._shared = shared
        self._writer = StateWriter(
            self._write,
            memory.position,
            room=shared.settings.grouping.size,
            linger=shared.settings.write_linger,
        )
        self._metrics = shared.metrics
        self._on_close = on_close
        self._handled = memory.position
        self._confirmed = memory.position
        self._put_at = shared.monotonic()
        self._ticks: list[Send] = []
        """Taken out of the heap and not confirmed yet."""
        self._show()

    @property
    def position(self) -> int:
        """Offset below which nothing has to be repeated: what was handled, once it is written."""
        return self._handled if self._writer.is_idle else max(self._confirmed, self._writer.written)

    async def handle(self, messages: Sequence[Message]) -> None:
        """Handle a group and return when its emits are confirmed; its state is being written then, see `settle`."""
        done = 0
        while done < len(messages):
            await self._writer.wait_for_room()
            if self.memory.rulebook_needed is not None:
                self.memory.use_rulebook(await self._obtain(self.memory.rulebook_needed))
            rest = messages[done:]
            group = self.handler.handle(rest)
            if group.needs is not None and group.taken == 0:
                self.handler.switch(group, await self._obtain(group.needs), rest[0])
            await self._confirm(group)
            done += group.taken

    async def idle(self) -> None:
        """Nothing came for a while: write the position if it moved and its time has come."""
        self._writer.check()
        if self._writer.is_idle and self._writer.written < self._handled and self._is_position_due():
            self._put({}, self._handled, self.memory.now, 0)

    async def settle(self) -> None:
        """Return when the state of all that was handled is written."""
        await self._writer.settle()

    async def tick(self, now: datetime) -> None:
        """Send the ticks that are due by `now`; raises BrokerError, and sends the same again the next time."""
        self._ticks += self.handler.ticks(now)
        if self._ticks:
            await self._shared.sender.send(self._ticks)
            self._metrics.ticks.inc(len(self._ticks))
            self._ticks = []

    async def close(self) -> None:
        """Let go of the partition."""
        self._on_close()
        await self._writer.cancel()
        await self._state_log.close()

    async def _confirm(self, group: Group) -> None:
        await self._until_taken(lambda: self._shared.sender.send(group.sends))
        if group.must_be_told or self._is_position_due():
            self._put(group.records, group.next, group.now, group.taken)
        self.memory.commit(group, wall=self._shared.wall())
        self._handled = group.next
        self._count(group)

    def _put(self, records: Mapping[bytes, bytes | None], next_: int, now: datetime, messages: int) -> None:
        self._confirmed = self.position
        self._writer.put(records, next_=next_, now=now, messages=messages)
        self._put_at = self._shared.monotonic()

    async def _write(self, records: Sequence[StateRecord]) -> None:
        await self._until_taken(lambda: self._state_log.write(records))

    async def _until_taken(self, attempt: Callable[[], Any]) -> None:
        wait = _RETRY
        while True:
            try:
                await attempt()
            except (Fenced, OutcomeUnknown):
                raise
            except BrokerError as error:
                self._metrics.retries.inc()
                _log.warning(
                    "the broker did not take a group, trying again", place=str(self._place), error=str(error)
                )
            else:
                return
            await asyncio.sleep(wait.total_seconds())
            wait = min(wait * 2, _RETRY_MOST)

    async def _obtain(self, digest: str) -> Any:  # noqa: ANN401 - see Core
        """Compiled rulebook; waits for its content, and says so: deciding by another one would be wrong."""
        while True:
            if self._shared.rulebooks.known(digest) is None:
                await self._until_taken(self._shared.rulebooks.refresh)
            try:
                rulebook = self._compile(digest)
            except RulebookMissing as missing:
                self._block(str(missing))
                await asyncio.sleep(self._shared.settings.rulebook_retry.total_seconds())
            else:
                self._block(None)
                return rulebook

    def _compile(self, digest: str) -> Any:  # noqa: ANN401 - see Core
        content = self._shared.rulebooks.known(digest)
        if content is None:
            raise RulebookMissing(
                f"content of rulebook {digest} is missing; `relight rules release` writes it"
            )
        try:
            return self._shared.core.compile_rulebook(content)
        except Exception as error:
            raise RulebookMissing(f"rulebook {digest} is none this release can use: {error}") from error

    def _block(self, why: str | None) -> None:
        if why is not None and why != self.blocked:
            _log.error("partition stopped", place=str(self._place), why=why)
        if why is None and self.blocked is not None:
            _log.info("partition goes on", place=str(self._place))
        self.blocked = why
        self._metrics.blocked.labels(*self._label).set(0 if why is None else 1)

    def _is_position_due(self) -> bool:
        return (
            self._shared.monotonic() - self._put_at >= self._shared.settings.position_interval.total_seconds()
        )

    def _count(self, group: Group) -> None:
        metrics = self._metrics
        for send in group.sends:
            metrics.emitted.labels(send.topic).inc()
        for reason, number in group.dead.items():
            metrics.dead.labels(reason).inc(number)
        metrics.early.inc(group.counts["early"])
        metrics.forwarded.inc(group.counts["forwarded"])
        metrics.halts.inc(group.counts["halts"])
        for subject, halt in group.halted.items():
            if halt is not None:
                _log.error("subject halted", subject=subject, offset=halt.offset, error=halt.error)
        if group.rulebook is not None:
            _log.info("rulebook switched", place=str(self._place), rulebook=str(group.rulebook.hash))
        if group.must_be_told:
            self._show()

    def _show(self) -> None:
        self._metrics.cells.labels(*self._label).set(self.memory.cell_count)
        self._metrics.halted.labels(*self._label).set(len(self.memory.halted))

    @property
    def _label(self) -> tuple[str, str]:
        return self._place.topic, str(self._place.partition)
