"""The recovery stage: takes inbox partitions up from the state log, and sends the ticks of those it has.

A position below the start of the inbox's log means that messages were deleted unread: an alarm (log, metric, health for a while), a
`partition_gap` message into the partition, and on from the start of the log. A position beyond its end means that the log is another one: the
partition is stopped, since every new message would count as a replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime
from typing import Final

from runtime import logs
from runtime.errors import BrokerError
from runtime.health import Past
from schemas.envelope import encode
from schemas.ids import mailbox_key, partition_subject
from schemas.wording import counted
from streams import stage_events
from streams.blocked_worker import BlockedWorker
from streams.dead_letters import DeadLetters
from streams.errors import PositionAhead, StreamError
from streams.handler import STAGE, Handler, HandlingLimits
from streams.memory import Memory
from streams.ports import LogBounds, PartitionWorker, Place, Send, StateLog
from streams.recovery_worker import RecoveryWorker, Surroundings
from streams.settings import StreamSettings

TICK_EVERY: Final = 0.05
"""Seconds between looks at the due times: what a tick may come late."""

_NO_CLUSTER: Final = "unnamed"

_log = logs.get(__name__)


class RecoveryStage:
    """Makes workers for inbox partitions; see `streams.ports.Stage`."""

    def __init__(
        self,
        settings: StreamSettings,
        shared: Surroundings,
        *,
        new_state_log: Callable[[Place], StateLog],
        bounds: LogBounds,
        pool: Executor,
    ) -> None:
        self._settings = settings
        self._shared = shared
        self._new_state_log = new_state_log
        self._bounds = bounds
        self._metrics = shared.metrics
        self._pool = pool
        self._dead_letters = DeadLetters(STAGE, settings.deadletters, settings.topic)
        self._limits = HandlingLimits(
            partitions=settings.topics.partitions,
            clock=settings.clock,
            cell_bytes=settings.recovery.cell_bytes,
            raises=settings.recovery.raises,
            tick_min=settings.recovery.tick_min,
        )
        self._workers: dict[Place, RecoveryWorker | BlockedWorker] = {}
        self._gaps = Past(settings.observe.gap_shown, shared.monotonic)

    async def open(self, place: Place) -> PartitionWorker:
        """Shut out the owner before us, load what it left, find out where to read on."""
        state_log = self._new_state_log(place)
        try:
            worker = await self._load(place, state_log)
        except StreamError as error:
            await state_log.close()
            first, _ = await self._bounds.bounds(place)
            worker = BlockedWorker(
                place, first, str(error), self._metrics, lambda: self._forget(place, worker)
            )
        except BaseException:
            await state_log.close()
            raise
        self._workers[place] = worker
        return worker

    def blocked(self) -> str | None:
        """What waits for an operator, for the health; None when nothing does."""
        why = {
            place: worker.blocked
            for place, worker in list(self._workers.items())
            if worker.blocked is not None
        }
        if not why:
            return None
        place, first = next(iter(sorted(why.items())))
        return f"{counted(len(why), 'partition')} stopped; {place}: {first}"

    def gaps(self) -> str | None:
        """Messages that were deleted unread not long ago, for the health; None when none were."""
        return self._gaps.check()

    async def send_ticks(self) -> None:
        """Send what is due, for ever."""
        while True:
            for worker in list(self._workers.values()):
                if isinstance(worker, RecoveryWorker):
                    await self._tick(worker)
            await asyncio.sleep(TICK_EVERY)

    async def _tick(self, worker: RecoveryWorker) -> None:
        try:
            await worker.tick(datetime.now(UTC))
        except BrokerError as error:
            _log.warning("ticks not sent, trying again", error=str(error))

    async def _load(self, place: Place, state_log: StateLog) -> RecoveryWorker | BlockedWorker:
        records = await state_log.open()
        memory = Memory(self._shared.core)
        await asyncio.get_running_loop().run_in_executor(self._pool, memory.restore, records)
        memory.position = await self._where_to_read_on(place, memory.position)
        handler = Handler(
            place.partition, memory, self._shared.core, self._limits, self._dead_letters, self._settings.topic
        )
        worker = RecoveryWorker(
            place, memory, handler, state_log, self._shared, on_close=lambda: self._forget(place, worker)
        )
        return worker

    def _forget(self, place: Place, worker: RecoveryWorker | BlockedWorker) -> None:
        if self._workers.get(place) is worker:
            del self._workers[place]

    async def _where_to_read_on(self, place: Place, position: int | None) -> int:
        first, end = await self._bounds.bounds(place)
        if position is None:
            if first > 0:
                _log.warning("no position, and the log does not begin at 0", place=str(place), first=first)
            return first
        if position > end:
            raise PositionAhead(
                f"position {position} of {place} lies beyond the end of its log, {end}: the topic was made anew or "
                "truncated; right would be the old topic, or an empty state log"
            )
        if position < first:
            await self._tell_gap(place, position, first)
            return first
        return position

    async def _tell_gap(self, place: Place, position: int, first: int) -> None:
        self._metrics.gaps.labels(place.topic, str(place.partition)).inc()
        self._gaps.happened(f"messages {position} to {first - 1} of {place} were deleted unread")
        _log.error("messages were deleted unread", place=str(place), position=position, first=first)
        cluster = self._settings.cluster or _NO_CLUSTER
        event = stage_events.gap(
            place.partition, cluster, first_lost=position, first_kept=first, now=datetime.now(UTC)
        )
        key = mailbox_key(cluster, partition_subject(place.partition))
        await self._shared.sender.send([Send(place.topic, key, encode(event), place.partition)])
