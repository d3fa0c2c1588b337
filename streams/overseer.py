"""Looks after the partitions we hold: commits what is confirmed, mends what stands still, measures. Knows no engine but by `Reader`.

The watchdog is needed only after a seek on a live consumer: the batch that Faust is handing out then goes on after the seek and lifts its own
read offset, and what is fetched again is dropped as old (measured: silence for good). So a partition with something to read and nothing read,
without pause for a while, is seeked to where it stands.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final, Protocol

from runtime import logs
from runtime.health import Health, Movement, Pulse
from runtime.metrics import StreamMetrics
from runtime.settings import ConsumerSettings, ObserveSettings
from streams.holdings import Holding, Holdings
from streams.ports import Place

LOOK_EVERY: Final = timedelta(milliseconds=500)
BEAT_EVERY: Final = timedelta(milliseconds=100)

_log = logs.get(__name__)


class Reader(Protocol):
    """What an engine's consumer can do."""

    def end_of(self, place: Place) -> int | None:
        """Offset the next message of the partition will get, as last heard; None when not known or not ours."""
        ...

    async def seek(self, place: Place, offset: int) -> None:
        """Read on from there."""
        ...

    def pause(self, place: Place) -> None:
        """Read nothing more of it for now."""
        ...

    def resume(self, place: Place) -> None:
        """Read it again; nothing changes when it is not paused."""
        ...

    async def commit(self, positions: Mapping[Place, int]) -> None:
        """Tell the group."""
        ...


class Overseer:
    """Periodic care of all holdings of one process."""

    def __init__(
        self,
        holdings: Holdings,
        reader: Reader,
        consumer: ConsumerSettings,
        observe: ObserveSettings,
        metrics: StreamMetrics,
        health: Health,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._holdings = holdings
        self._reader = reader
        self._stall_after = consumer.stall_after.total_seconds()
        self._commit_every = consumer.commit_interval
        self._metrics = metrics
        self._wall = wall
        self._monotonic = monotonic
        self._committed: dict[Place, int] = {}
        self._stalled_since: dict[Place, tuple[int, float]] = {}
        """Where a partition with something to read and nothing in hand stands, and since when."""
        self._pulse = Pulse("the event loop", observe.loop_stuck, monotonic)
        self._movement = Movement(observe.stand_still, monotonic)
        health.add("loop", self._pulse.check)
        health.add("movement", self._movement.check)

    def tasks(self) -> list[Callable[[], Awaitable[None]]]:
        """What has to run beside the reading, for ever."""
        return [self._beat, self._look, self._commit]

    async def mend_jump(self, holding: Holding) -> None:
        """Something was jumped over: read it again."""
        self._metrics.seeks.labels("jump").inc()
        _log.warning("jump, seeking back", place=str(holding.lane.place), to=holding.lane.next)
        await self._reader.seek(holding.lane.place, holding.lane.next)

    def set_aside(self, holding: Holding) -> None:
        """Full for too long: one partition that cannot go on must not keep the others from being read."""
        holding.lane.set_aside = True
        self._reader.pause(holding.lane.place)
        _log.warning(
            "full, reading on without it", place=str(holding.lane.place), position=holding.worker.position
        )

    async def read_on(self, holding: Holding) -> None:
        """Read from where the lane stands, whatever was read or paused before."""
        self._reader.resume(holding.lane.place)
        await self._reader.seek(holding.lane.place, holding.lane.next)

    async def commit_now(self) -> None:
        """Tell the group what is confirmed, if it does not know yet."""
        known = self._committed
        news = {
            place: position
            for place, position in self._holdings.positions().items()
            if known.get(place) != position
        }
        if news:
            await self._reader.commit(news)
            known.update(news)

    def took_up(self, positions: Mapping[Place, int]) -> None:
        """A rebalance ended: the group knows these positions and none of what we thought of others."""
        self._committed = dict(positions)
        for place in set(self._stalled_since) - set(positions):
            del self._stalled_since[place]
        self._movement.keep_only(str(place) for place in positions)

    async def look_once(self) -> None:
        """Measure all partitions and mend those that stand still."""
        for place, holding in self._holdings:
            end = self._reader.end_of(place)
            if end is None or holding.stopped:
                continue
            self._measure(place, holding, end)
            if holding.lane.set_aside:
                await self._take_back(holding)
            elif self._is_stalled(place, holding, end):
                self._metrics.seeks.labels("stall").inc()
                _log.warning("stands still, seeking", place=str(place), to=holding.lane.next, end=end)
                await self.read_on(holding)

    async def _take_back(self, holding: Holding) -> None:
        if not holding.lane.is_empty:
            return
        holding.lane.set_aside = False
        self._metrics.seeks.labels("set_aside").inc()
        await self.read_on(holding)

    def _measure(self, place: Place, holding: Holding, end: int) -> None:
        position = holding.worker.position
        label = (place.topic, str(place.partition))
        waiting = max(0, end - position)
        oldest = holding.lane.oldest
        self._metrics.lag.labels(*label).set(waiting)
        self._metrics.age.labels(*label).set(0.0 if oldest is None else max(0.0, self._wall() - oldest))
        self._movement.saw(str(place), position, waiting)

    def _is_stalled(self, place: Place, holding: Holding, end: int) -> bool:
        """Nothing in hand though there is more to read, for a while without pause; begins anew after a yes."""
        if not holding.lane.is_empty or end <= holding.lane.next:
            self._stalled_since.pop(place, None)
            return False
        now = self._monotonic()
        stands_at, since = self._stalled_since.setdefault(place, (holding.lane.next, now))
        if stands_at != holding.lane.next:  # it was read meanwhile
            self._stalled_since[place] = holding.lane.next, now
            return False
        if now - since < self._stall_after:
            return False
        del self._stalled_since[place]
        return True

    async def _beat(self) -> None:
        pause = BEAT_EVERY.total_seconds()
        while True:
            before = self._monotonic()
            await asyncio.sleep(pause)
            self._metrics.loop.observe(max(0.0, self._monotonic() - before - pause))
            self._pulse.beat()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY.total_seconds())
            await self.look_once()

    async def _commit(self) -> None:
        while True:
            await asyncio.sleep(self._commit_every.total_seconds())
            await self.commit_now()
