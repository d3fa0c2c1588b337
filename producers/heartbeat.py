"""Source: the agent's own sign of life, folded to one a minute (design 12: 12,500 nodes make 210 a second).

It says which sources see, so that silence of one is not taken for health (an exporter that hangs makes its metrics vanish, and nothing else), what
was counted since the last one, and, with every signal, how far the node's clock is off.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from producers.identity import Identity
from producers.observation import Batch, Observation, SignalClass, Source, State
from schemas.signals import Heartbeat

NAME = "heartbeat"


class HeartbeatSource:
    """The source."""

    name = NAME
    works = True

    def __init__(
        self,
        identity: Identity,
        *,
        boot_id: str,
        sources: Iterable[Source],
        tally: Callable[[], Mapping[str, int]],
        now: Callable[[], datetime],
        every: timedelta,
    ) -> None:
        """`tally` gives what the agent itself counted since it was last asked."""
        self._identity = identity
        self._boot_id = boot_id
        self._sources = tuple(sources)
        self._tally = tally
        self._now = now
        self._every = every
        self._started_at = now()
        self._beats = 0

    def restore(self, state: State | None) -> None:
        """Nothing outlives a restart: a new process is a new life."""

    def counts(self) -> dict[str, int]:
        """Nothing of its own."""
        return {}

    async def next(self) -> Batch:
        """The first beat at once, then one each interval."""
        if self._beats:
            await asyncio.sleep(self._every.total_seconds())
        return Batch(SignalClass.METRIC, (self.beat(),))

    def beat(self) -> Observation:
        """One heartbeat, with everything counted since the last."""
        folded = Counter(self._tally())
        for source in self._sources:
            folded.update(source.counts())
        self._beats += 1
        heartbeat = Heartbeat(
            node=self._identity.node,
            boot_id=self._boot_id,
            started_at=self._started_at,
            sources=tuple(sorted(source.name for source in self._sources if source.works)),
            folded={name: number for name, number in sorted(folded.items()) if number > 0},
        )
        life = (self._boot_id, self._started_at.isoformat())
        return Observation(heartbeat, self._identity.derive(NAME, *life, self._beats), self._now())
