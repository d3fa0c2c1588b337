"""Source: what other parts of the agent's process have to tell; they wait until it is on disk.

Ids of the last ones are kept in the same record, so that who was killed before it knew may tell it again, and it is told once.
"""

from __future__ import annotations

import asyncio
from typing import Final

from producers.observation import Batch, Observation, SignalClass, State

NAME: Final = "told"
REMEMBERED: Final = 64


class Told:
    """The source; `tell` from the event loop."""

    name = NAME
    works = True

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Observation, asyncio.Future[None]]] = asyncio.Queue()
        self._given: list[asyncio.Future[None]] = []
        self._ids: list[str] = []

    async def tell(self, observation: Observation) -> None:
        """Returns once it is on disk. Who is cancelled meanwhile does not know, and tells it again under the same id."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._queue.put((observation, kept))
        await kept

    def restore(self, state: State | None) -> None:
        """Go on behind this state. Who waits for what was given and not kept is told so."""
        self._ids = list((state or {}).get("ids", ()))
        given, self._given = self._given, []
        for kept in given:
            if not kept.done():
                kept.set_exception(OSError("it was not kept; right would be to tell it again"))

    def counts(self) -> dict[str, int]:
        """Its tellers count for themselves."""
        return {}

    async def next(self) -> Batch:
        """Being asked again means that what was given is on disk."""
        for kept in self._given:
            if not kept.done():
                kept.set_result(None)
        self._given = []
        while True:
            observation, kept = await self._queue.get()
            if observation.id not in self._ids:
                break
            kept.set_result(None)
        self._given = [kept]
        self._ids = [*self._ids, observation.id][-REMEMBERED:]
        return Batch(SignalClass.EXIT, (observation,), {"ids": self._ids})
