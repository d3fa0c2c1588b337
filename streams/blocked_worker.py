"""A partition that must not be worked on until somebody acts: it reads nothing, says why, and leaves the others alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from runtime import logs
from runtime.metrics import StreamMetrics
from streams.ports import Message, Place

_log = logs.get(__name__)


class BlockedWorker:
    """Stands for the worker of a partition that waits for an operator."""

    def __init__(
        self, place: Place, position: int, why: str, metrics: StreamMetrics, on_close: Callable[[], None]
    ) -> None:
        self.blocked: str | None = why
        self._position = position
        self._on_close = on_close
        metrics.blocked.labels(place.topic, str(place.partition)).set(1)
        _log.error("partition stopped", place=str(place), why=why)

    @property
    def position(self) -> int:
        """Where it would read on."""
        return self._position

    async def handle(self, messages: Sequence[Message]) -> None:
        """Never handle anything."""
        del messages
        await asyncio.Event().wait()

    async def idle(self) -> None:
        """Nothing to write."""

    async def settle(self) -> None:
        """Nothing is under way."""

    async def close(self) -> None:
        """Nothing to let go of."""
        self._on_close()
