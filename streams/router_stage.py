"""The router: stateless, so its position is what the group committed, and it commits only what is confirmed.

A crash repeats what was not committed, with the same origins: the mailboxes drop what they have had.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from runtime import logs
from runtime.errors import BrokerError
from runtime.metrics import StreamMetrics
from streams.blocked_worker import BlockedWorker
from streams.ports import LogBounds, Message, PartitionWorker, Place, Send, Sender
from streams.routing import Routing

_RETRY: Final = timedelta(milliseconds=500)

_log = logs.get(__name__)


class RouterWorker:
    """Routes the messages of one partition; see `streams.ports.PartitionWorker`."""

    def __init__(self, position: int, routing: Routing, sender: Sender, metrics: StreamMetrics) -> None:
        self._position = position
        self._routing = routing
        self._sender = sender
        self._metrics = metrics

    @property
    def position(self) -> int:
        """Offset of the next message to route."""
        return self._position

    async def handle(self, messages: Sequence[Message]) -> None:
        """Route a group and return when everything is confirmed."""
        sends: list[Send] = []
        dead: Counter[str] = Counter()
        for message in messages:
            made, reason = self._routing.route(message)
            sends += made
            if reason is not None:
                dead[reason.value] += 1
        await self._send(sends)
        self._position = messages[-1].offset + 1
        for topic, number in Counter(send.topic for send in sends).items():
            self._metrics.emitted.labels(topic).inc(number)
        for label, number in dead.items():
            self._metrics.dead.labels(label).inc(number)

    async def idle(self) -> None:
        """Nothing is kept back."""

    async def settle(self) -> None:
        """Nothing is under way."""

    async def close(self) -> None:
        """Nothing is held."""

    async def _send(self, sends: Sequence[Send]) -> None:
        while True:
            try:
                await self._sender.send(sends)
            except BrokerError as error:
                self._metrics.retries.inc()
                _log.warning("the broker did not take a group, trying again", error=str(error))
                await asyncio.sleep(_RETRY.total_seconds())
            else:
                return


class RouterStage:
    """Makes workers for the router's partitions; see `streams.ports.Stage`."""

    def __init__(self, routing: Routing, sender: Sender, bounds: LogBounds, metrics: StreamMetrics) -> None:
        self._routing = routing
        self._sender = sender
        self._bounds = bounds
        self._metrics = metrics

    async def open(self, place: Place) -> PartitionWorker:
        """Begin at what the group committed, or at the start of the log."""
        committed = await self._bounds.committed(place)
        first, end = await self._bounds.bounds(place)
        if committed is not None and committed > end:
            why = f"the group committed {committed} of {place}, which ends at {end}: the topic was made anew or truncated"
            return BlockedWorker(place, end, why, self._metrics, lambda: None)
        if committed is not None and committed < first:
            self._metrics.gaps.labels(place.topic, str(place.partition)).inc()
            _log.error("messages were deleted unread", place=str(place), position=committed, first=first)
        position = first if committed is None else max(committed, first)
        return RouterWorker(position, self._routing, self._sender, self._metrics)
