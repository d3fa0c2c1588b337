"""Source: the agent's own sign of life, folded: one event a minute, with counters since the last and the sources that work.

Of class metric: it is the first to go when disk runs out, since the next one replaces it. Counters of a heartbeat that was dropped are lost
with it; nothing is decided by them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from producers.identity import Identity
from producers.observation import Batch, Observation, SignalClass, Source, State
from schemas.signals import Heartbeat

NAME: Final = "heartbeat"
NAME_LENGTH: Final = 200


class HeartbeatSource:
    """The source; asks all others what they counted."""

    name = NAME
    works = True

    def __init__(
        self,
        identity: Identity,
        sources: Callable[[], Sequence[Source]],
        more_counts: Callable[[], Mapping[str, int]],
        now: Callable[[], datetime],
        *,
        boot_id: str,
        every: timedelta,
    ) -> None:
        """`sources`: those whose lives are told; `more_counts`: what the agent itself counted since the last call."""
        self._identity = identity
        self._sources = sources
        self._more_counts = more_counts
        self._now = now
        self._boot_id = boot_id
        self._every = every
        self._started_at = now()
        self._first = True

    def restore(self, state: State | None) -> None:
        """Nothing outlives a restart: a start is told by `started_at`."""

    def counts(self) -> dict[str, int]:
        """Its own life is no news."""
        return {}

    async def next(self) -> Batch:
        """The first at once, then one each time the period is over."""
        if not self._first:
            await asyncio.sleep(self._every.total_seconds())
        self._first = False
        return Batch(SignalClass.METRIC, (self.beat(),))

    def beat(self) -> Observation:
        """One heartbeat, with everything counted since the last."""
        at = self._now()
        folded = {name: count for name, count in self._more_counts().items() if count}
        for source in self._sources():
            for name, count in source.counts().items():
                folded[name] = folded.get(name, 0) + count
        signal = Heartbeat(
            node=self._identity.node,
            boot_id=self._boot_id,
            started_at=self._started_at,
            sources=tuple(source.name[:NAME_LENGTH] for source in self._sources() if source.works),
            folded=folded,
        )
        return Observation(signal, self._identity.derive("heartbeat", self._boot_id, at.isoformat()), at)
