"""Source: a Prometheus exporter on this node (dcgm-exporter, npu-exporter), read by a mapping table.

Guarantees: see `producers.edges`. A scrape counts whole or not at all; one that failed changes nothing, is counted, and makes the source blind
in the heartbeat until one succeeds. Exporters show levels, so what comes and goes between two scrapes is missed: that is the exporter's limit,
and why the kernel log is read beside it where it can be.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from producers.edges import Edges
from producers.errors import ScrapeFailed
from producers.exposition import read_exposition
from producers.observation import Batch, Observation, SignalClass, State
from runtime import logs

Fetch = Callable[[], Awaitable[bytes]]

_log = logs.get(__name__)


class PrometheusScrape:
    """The source."""

    def __init__(
        self, name: str, fetch: Fetch, edges: Edges, now: Callable[[], datetime], *, every: timedelta
    ) -> None:
        """`name` is the exporter's among the agent's sources; its state is kept under it."""
        self._name = name
        self._fetch = fetch
        self._edges = edges
        self._now = now
        self._every = every
        self._counts: Counter[str] = Counter()
        self._scraped_before = False
        self.works = False

    @property
    def name(self) -> str:
        """The exporter's name."""
        return self._name

    def restore(self, state: State | None) -> None:
        """Go on from the codes that stood."""
        self._edges.restore(state)

    def counts(self) -> dict[str, int]:
        """Scrapes since the last call."""
        counted = dict(self._counts)
        self._counts.clear()
        return counted

    async def next(self) -> Batch:
        """Scrape until something changed."""
        while True:
            if self._scraped_before:
                await asyncio.sleep(self._every.total_seconds())
            self._scraped_before = True
            before = self._edges.state()
            found = await self.scrape()
            state = self._edges.state()
            if found or state != before:
                return Batch(SignalClass.FAULT, tuple(found), state)

    async def scrape(self) -> list[Observation]:
        """Scrape once; edges since the last that succeeded, none when this one failed."""
        at = self._now()
        try:
            found = self._edges.observe(read_exposition(await self._fetch()), at)
        except ScrapeFailed as error:
            if self.works or not self._counts["scrapes_failed"]:
                _log.warning("scrape failed", source=self._name, error=str(error))
            self.works = False
            self._counts["scrapes_failed"] += 1
            return []
        self.works = True
        self._counts["scrapes"] += 1
        return found
