"""Partitions this worker holds: taken up, kept, given up. Knows no engine.

An engine calls, for each rebalance, first `give_way` (partitions are about to move: no more groups, those in flight may end), then `take_up`
(the new assignment is known: open what is new, keep what may be kept, close the rest; it says where to read on).

Memory of a partition may be kept over a rebalance only if nobody can have owned it in between: the generation is the same or the next one,
and no group ended with its outcome unknown. A worker that was stopped for a while comes back with a generation skipped (measured: kept memory
was stale then, and only the fence found out).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from runtime import logs
from runtime.errors import Fenced, OutcomeUnknown
from runtime.metrics import StreamMetrics
from runtime.settings import ConsumerSettings
from streams.lane import Lane, Offer
from streams.ports import Message, PartitionWorker, Place, Stage
from streams.settings import GroupingSettings

_IDLE: Final = timedelta(seconds=1)
_RETRY: Final = timedelta(seconds=1)
_OPEN_AT_ONCE: Final = 4

_log = logs.get(__name__)


@dataclass(slots=True)
class Holding:
    """One partition we hold."""

    worker: PartitionWorker
    lane: Lane
    generation: int
    pump: asyncio.Task[None] | None = None
    certain: bool = True
    """False when a group ended with its outcome unknown: what is remembered is worthless."""
    stopped: bool = field(default=False)


class Holdings:
    """All partitions of one worker process."""

    def __init__(
        self,
        stage: Stage,
        grouping: GroupingSettings,
        consumer: ConsumerSettings,
        metrics: StreamMetrics,
        *,
        on_lost: Callable[[Place], None],
    ) -> None:
        """`on_lost` is told when a partition was lost to a fence or a fault and has to be taken up again."""
        self._stage = stage
        self._grouping = grouping
        self._consumer = consumer
        self._metrics = metrics
        self._on_lost = on_lost
        self._held: dict[Place, Holding] = {}
        self._lock = asyncio.Lock()

    def __iter__(self) -> Iterator[tuple[Place, Holding]]:
        """Places and what is held there."""
        return iter(list(self._held.items()))

    def get(self, place: Place) -> Holding | None:
        """What is held there; None when nothing."""
        return self._held.get(place)

    def offer(self, message: Message) -> Holding | None:
        """Hand a message on. Returns its holding when the reader should look at it: no room, or a jump to mend."""
        holding = self._held.get(Place(message.topic, message.partition))
        if holding is None or holding.stopped:
            return None
        lane = holding.lane
        if lane.set_aside:
            return None
        was_jumping = lane.jumping
        offer = lane.offer(message)
        if offer is Offer.TAKEN:
            return None if lane.has_room else holding
        place = (lane.place.topic, str(lane.place.partition))
        if offer is Offer.REPLAY:
            self._metrics.replays.labels(*place).inc()
            return None
        self._metrics.jumps.labels(*place).inc()
        return None if was_jumping else holding

    async def give_way(self) -> None:
        """Hand out no more groups and let those in flight end; what does not end in time is forgotten."""
        await asyncio.gather(*(self._stop(place, holding) for place, holding in list(self._held.items())))

    async def take_up(
        self, places: Iterable[Place], generation: int, still_ours: Callable[[Place], bool]
    ) -> dict[Place, int]:
        """Hold exactly these; returns where to read on. May be called twice in one generation.

        `still_ours` is asked right before a partition is fenced: a worker slow to load would otherwise fence partitions that moved on meanwhile.
        """
        wanted = set(places)
        async with self._lock:
            for place in set(self._held) - wanted:
                await self._drop(place)
            gate = asyncio.Semaphore(_OPEN_AT_ONCE)

            async def one(place: Place) -> None:
                async with gate:
                    await self._keep_or_open(place, generation, still_ours)

            await asyncio.gather(*(one(place) for place in sorted(wanted)))
            return {place: self._held[place].worker.position for place in wanted if place in self._held}

    async def take_up_again(
        self, place: Place, generation: int, still_ours: Callable[[Place], bool]
    ) -> Holding | None:
        """Open a partition that was lost to a fence or a fault; None when there is nothing to win back any more."""
        async with self._lock:
            lost = self._held.get(place)
            if lost is None or (lost.certain and not lost.stopped):
                return None
            await self._keep_or_open(place, generation, still_ours)
            return self._held.get(place)

    async def give_up(self) -> None:
        """Stop and close everything."""
        await self.give_way()
        async with self._lock:
            for place in list(self._held):
                await self._drop(place)

    def positions(self) -> dict[Place, int]:
        """Where each partition stands."""
        return {place: holding.worker.position for place, holding in self._held.items() if holding.certain}

    async def _keep_or_open(self, place: Place, generation: int, still_ours: Callable[[Place], bool]) -> None:
        holding = self._held.get(place)
        if holding is not None:
            await self._stop(place, holding)
            if holding.certain and generation - holding.generation in {0, 1}:
                self._start(place, holding.worker, generation)
                return
            await self._drop(place)
        worker = await self._open(place, still_ours)
        if worker is not None:
            self._start(place, worker, generation)

    async def _open(self, place: Place, still_ours: Callable[[Place], bool]) -> PartitionWorker | None:
        while still_ours(place):
            started = time.monotonic()
            try:
                worker = await self._stage.open(place)
            except Exception as error:  # noqa: BLE001 - the engine's recovery must survive whatever the broker answers
                _log.warning("partition not taken up, trying again", place=str(place), error=repr(error))
                await asyncio.sleep(_RETRY.total_seconds())
                continue
            self._metrics.load.observe(time.monotonic() - started)
            _log.info("partition taken up", place=str(place), position=worker.position)
            return worker
        _log.info("partition moved on before it was taken up", place=str(place))
        return None

    def _start(self, place: Place, worker: PartitionWorker, generation: int) -> None:
        grouping = self._grouping
        lane = Lane(
            place, worker.position, group=grouping.size, backlog=grouping.backlog, linger=grouping.linger
        )
        holding = Holding(worker=worker, lane=lane, generation=generation)
        holding.pump = asyncio.create_task(self._pump(holding), name=f"pump {place}")
        self._held[place] = holding

    async def _pump(self, holding: Holding) -> None:
        place = holding.lane.place
        try:
            await self._turn(holding)
        except Fenced as error:
            self._metrics.fences.inc()
            _log.warning("fenced", place=str(place), error=str(error))
        except OutcomeUnknown as error:
            _log.warning("outcome of a write unknown, loading anew", place=str(place), error=str(error))
        except Exception:  # noqa: BLE001 - logged with its trace; the partition is loaded anew, the others are well
            _log.exception("partition failed, loading it anew", place=str(place))
        else:
            return
        holding.certain = False
        holding.stopped = True
        holding.lane.stop()
        self._on_lost(place)

    async def _turn(self, holding: Holding) -> None:
        lane, worker = holding.lane, holding.worker
        while True:
            messages = await lane.take(_IDLE)
            if messages is None:
                await worker.settle()
                return
            if not messages:
                await worker.idle()
                continue
            started = time.monotonic()
            await worker.handle(messages)
            self._metrics.confirm.observe(time.monotonic() - started)
            self._metrics.group.observe(len(messages))
            self._metrics.applied.inc(len(messages))

    async def _stop(self, place: Place, holding: Holding) -> None:
        holding.stopped = True
        holding.lane.stop()
        pump = holding.pump
        if pump is None or pump.done():
            return
        await asyncio.wait([pump], timeout=self._consumer.revoke_grace.total_seconds())
        if not pump.done():
            _log.warning("a group in flight did not end in time: its outcome is unknown", place=str(place))
            holding.certain = False
            pump.cancel()

    async def _drop(self, place: Place) -> None:
        holding = self._held.pop(place)
        await self._stop(place, holding)
        self._metrics.forget_partition(place.topic, place.partition)
        await holding.worker.close()
