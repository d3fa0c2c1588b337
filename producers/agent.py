"""The node agent: asks its sources, stamps what they saw with what ran there, and puts it into the spool; the publisher sends it on.

Guarantees: a source's cursor goes to disk with what it saw, in one record, so that kill -9 at any moment loses nothing and tells nothing twice
under two origins. A source that fails is asked again and is missing from the heartbeat meanwhile; it never takes the others with it. Without
room for faults a source waits, with its cursor where it was. Kafka being away changes nothing but the length of the spool.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from producers.clock_offset import ClockOffset
from producers.errors import SpoolFull
from producers.heartbeat import HeartbeatSource
from producers.identity import Identity, subject_of
from producers.observation import Batch, Observation, SignalClass, Source
from producers.placement import Placements, placed
from producers.settings import AgentSettings
from producers.spool import Gap, Spool
from runtime import logs
from schemas.envelope import Event, TimeQuality, make_event
from schemas.ids import mailbox_key, node_subject
from schemas.signals import SignalGap

_log = logs.get(__name__)


class Stamp:
    """Makes events of observations: source, subject, placement, clock."""

    def __init__(self, identity: Identity, placements: Placements, offset: ClockOffset) -> None:
        self._identity = identity
        self._placements = placements
        self._offset = offset
        self._source = f"/clusters/{identity.cluster}/node-agent/{identity.node.name}"
        self._node = node_subject(identity.node.uid)

    def event(self, observation: Observation) -> Event:
        """The event; its origin is given by the spool."""
        now = time.time()
        offset = self._offset.seconds(now)
        signal = placed(observation.signal, self._placements, observation.time)
        if offset is not None:
            signal = signal.model_copy(update={"clock_offset_seconds": round(offset, 6)})
        return make_event(
            signal,
            id=observation.id,
            source=self._source,
            subject=subject_of(signal) or self._node,
            time=observation.time,
            cluster=self._identity.cluster,
            timequality=self._offset.quality(now) if observation.stamped else TimeQuality.UNKNOWN,
        )

    def gap(self, gap: Gap) -> Event:
        """The event that tells a gap of the spool."""
        signal = SignalGap(
            node=self._identity.node, lost_class=gap.lost_class, lost=gap.lost, reason=gap.reason[:2000]
        )
        now = datetime.now(UTC)
        return self.event(
            Observation(signal, self._identity.derive("spool-gap", gap.place, now.isoformat()), now)
        )


def open_spool(settings: AgentSettings, identity: Identity, stamp: Stamp, *, boot_id: str) -> Spool:
    """The agent's spool. Raises SpoolInUse."""
    key = mailbox_key(identity.cluster, node_subject(identity.node.uid))
    return Spool(
        settings.spool,
        lambda spool: f"agent:{identity.node.uid}:{spool}",
        stamp.gap,
        time.time,
        lambda _: key,
        boot_id=boot_id,
    )


class Agent:
    """Runs sources into a spool until it is told to stop."""

    def __init__(
        self,
        settings: AgentSettings,
        identity: Identity,
        sources: Iterable[Source],
        spool: Spool,
        stamp: Stamp,
        *,
        boot_id: str,
        now: Callable[[], datetime],
    ) -> None:
        """`sources` without the heartbeat, which the agent adds."""
        self._settings = settings
        self._spool = spool
        self._stamp = stamp
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spool")
        self._spooled: Counter[str] = Counter()
        self._dropped_told = 0
        self._eyes = list(sources)
        self._waiting: set[str] = set()
        self._heartbeat = HeartbeatSource(
            identity,
            lambda: self._eyes,
            self._tally,
            now,
            boot_id=boot_id,
            every=settings.sources.heartbeat_every,
        )

    @property
    def blind(self) -> list[str]:
        """Sources that do not see at present."""
        return [source.name for source in self._eyes if not source.works]

    @property
    def waiting(self) -> list[str]:
        """Sources that wait for room in the spool."""
        return sorted(self._waiting)

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set; afterwards nothing is appended any more."""
        watching = [asyncio.create_task(self._watch(source)) for source in (*self._eyes, self._heartbeat)]
        stopped = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([stopped, *watching], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()  # watching ends only by an error of ours
        finally:
            for task in (*watching, stopped):
                task.cancel()
            await asyncio.gather(*watching, stopped, return_exceptions=True)
            await asyncio.to_thread(self._disk.shutdown)  # what is being written is written

    async def _watch(self, source: Source) -> None:
        source.restore(self._spool.state_of(source.name))
        failing = False
        while True:
            try:
                batch = await source.next()
            except OSError as error:
                if not failing:
                    _log.warning("source is blind", source=source.name, error=str(error))
            except Exception:  # noqa: BLE001 - a source must not take the others with it
                _log.exception("source failed, it starts again behind what is kept", source=source.name)
                source.restore(self._spool.state_of(source.name))
            else:
                failing = False
                await self._keep(source.name, batch)
                continue
            failing = True
            await asyncio.sleep(self._settings.sources.again_after.total_seconds())

    async def _keep(self, source: str, batch: Batch) -> None:
        events = [self._stamp.event(observation) for observation in batch.observations]
        pieces = list(self._pieces(events))
        for piece in pieces[:-1]:
            await self._append(source, Batch(batch.kind), piece)
        await self._append(source, batch, pieces[-1])

    def _pieces(self, events: Sequence[Event]) -> Iterable[Sequence[Event]]:
        """One piece, unless a batch is larger than the spool can ever take at once."""
        if len(events) < 2 or self._spool.fits(events):  # noqa: PLR2004 - one cannot be halved
            yield events
            return
        middle = len(events) // 2
        yield from self._pieces(events[:middle])
        yield from self._pieces(events[middle:])

    async def _append(self, source: str, batch: Batch, events: Sequence[Event]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                kept = await loop.run_in_executor(
                    self._disk,
                    lambda: self._spool.append(batch.kind, events, source=source, state=batch.state),
                )
            except (SpoolFull, OSError) as error:
                if source not in self._waiting:
                    _log.error("source waits for room", source=source, error=str(error))
                self._waiting.add(source)
                await asyncio.sleep(self._settings.sources.again_after.total_seconds())
            else:
                self._waiting.discard(source)
                self._spooled[f"spooled_{batch.kind.value}"] += kept
                return

    def _tally(self) -> Mapping[str, int]:
        counted = dict(self._spooled)
        self._spooled.clear()
        dropped = self._spool.dropped[SignalClass.METRIC]
        counted["dropped_metrics"] = dropped - self._dropped_told
        self._dropped_told = dropped
        return counted
