"""The node agent as a process: settings in, sources, spool, publisher, metrics and health put together, SIGTERM out."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from producers.agent import Agent, Stamp, open_spool
from producers.clock_offset import ClockOffset
from producers.eyes import make_sources, read_boot_id
from producers.identity import Identity
from producers.placement import NobodyKnows, PlacementFile, Placements
from producers.publisher import Publisher
from producers.settings import AgentSettings
from producers.spool import Spool
from runtime import logs
from runtime.health import Health
from runtime.kafka import KafkaClients
from runtime.metrics import MetricsServer
from schemas import topics
from schemas.signals import NodeRef

if TYPE_CHECKING:
    from producers.on_cluster import MakeHands, OnCluster

PREFIX: Final = "relight_agent_"
BROKER_AWAY: Final = 15.0
"""Seconds an event may wait for the broker before no supervisor is promised a verdict any more."""
_log = logs.get(__name__)


class AgentMetrics(Collector):
    """What the agent counts, read when asked."""

    def __init__(
        self,
        agent: Agent,
        spool: Spool,
        publisher: Publisher,
        offset: ClockOffset,
        on_cluster: OnCluster | None,
    ) -> None:
        self._agent = agent
        self._on_cluster = on_cluster
        self._spool = spool
        self._publisher = publisher
        self._offset = offset

    def collect(self) -> Iterator[Metric]:
        """One family a number."""
        counted = self._publisher.counted
        yield CounterMetricFamily(
            PREFIX + "spooled", "Events put into the spool.", value=self._spool.appended
        )
        yield CounterMetricFamily(PREFIX + "sent", "Events the broker confirmed.", value=counted.sent)
        dropped = CounterMetricFamily(
            PREFIX + "dropped", "Events that will never be sent, told as gaps.", labels=["class"]
        )
        for kind, count in self._spool.dropped.items():
            dropped.add_metric([kind.value], count)
        dropped.add_metric(["refused"], self._spool.refused)
        yield dropped
        yield CounterMetricFamily(
            PREFIX + "send_restarts", "Times everything unconfirmed was sent again.", value=counted.restarts
        )
        yield GaugeMetricFamily(PREFIX + "spool_bytes", "Bytes of the spool.", value=self._spool.size)
        yield GaugeMetricFamily(
            PREFIX + "unconfirmed",
            "Events not confirmed.",
            value=max(0, self._spool.next_sequence - self._spool.acked),
        )
        oldest = counted.oldest
        yield GaugeMetricFamily(
            PREFIX + "oldest_seconds",
            "Age of the oldest event not confirmed.",
            value=0.0 if oldest is None else max(0.0, time.time() - oldest),
        )
        yield GaugeMetricFamily(
            PREFIX + "blind_sources", "Sources that do not see.", value=len(self._agent.blind)
        )
        offset = self._offset.seconds(time.time())
        if offset is not None:
            yield GaugeMetricFamily(
                PREFIX + "clock_offset_seconds", "Node clock minus broker clock.", value=offset
            )
        if self._on_cluster is not None:
            yield from self._on_cluster.collect()


def run_agent(settings: AgentSettings, make_hands: MakeHands | None = None) -> None:
    """Run until SIGTERM or SIGINT; on a cluster, `make_hands` gives who acts on this node. Raises SpoolInUse, MappingError, SettingsConflict."""
    identity = Identity(settings.cluster or "", NodeRef(uid=settings.node.uid, name=settings.node.name))
    offset = ClockOffset(
        synced_within=settings.node_clock.synced_within, uncertain_above=settings.node_clock.uncertain_above
    )
    on_cluster = _on_cluster(settings, identity, make_hands)
    stamp = Stamp(identity, on_cluster.placements if on_cluster else _placements(settings), offset)
    sources = make_sources(settings.sources, identity, _now)
    sources += on_cluster.sources if on_cluster else []
    boot_id = read_boot_id()
    spool = open_spool(settings, identity, stamp, boot_id=boot_id)
    clients = KafkaClients(settings.kafka, f"relight-node-agent-{settings.node.name}")
    publisher = Publisher(
        spool, settings.topic(topics.SIGNALS.name), clients.producer, offset, settings.publisher
    )
    agent = Agent(settings, identity, sources, spool, stamp, boot_id=boot_id, now=_now)
    if on_cluster is not None:
        share = settings.spool.max_bytes * settings.supervisors.spool_share
        on_cluster.lean_on(has_room=lambda: spool.kept_size < share, reaches_broker=_reaches(publisher))
    with ExitStack() as stack:
        stack.callback(spool.close)
        if settings.observe.port is not None:
            registry = CollectorRegistry()
            registry.register(AgentMetrics(agent, spool, publisher, offset, on_cluster))
            server = stack.enter_context(
                MetricsServer(
                    registry,
                    _health(settings, agent, publisher, on_cluster),
                    host=settings.observe.host,
                    port=settings.observe.port,
                )
            )
            _log.info("metrics and health are served", port=server.port)
        publisher.start()
        stack.callback(publisher.stop, settings.publisher.stop_grace)
        _log.info("node agent runs", node=settings.node.name, spool=spool.id, unconfirmed_from=spool.acked)
        asyncio.run(_watch(agent, on_cluster))
    _log.info("node agent ended", sent=publisher.counted.sent)


async def _watch(agent: Agent, on_cluster: OnCluster | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    beside = None if on_cluster is None else loop.create_task(on_cluster.run())
    if beside is not None:
        beside.add_done_callback(lambda _: stop.set())
    await agent.run(stop)
    if beside is not None:
        beside.cancel()
        with suppress(asyncio.CancelledError):
            await beside


def _on_cluster(
    settings: AgentSettings, identity: Identity, make_hands: MakeHands | None
) -> OnCluster | None:
    if not settings.on_cluster:
        return None
    from producers.on_cluster import OnCluster  # noqa: PLC0415 - without a cluster its client is not even loaded

    return OnCluster(settings, identity, _now, _placements(settings), make_hands)


def _reaches(publisher: Publisher) -> Callable[[], bool]:
    """What is spooled is confirmed within seconds."""

    def reaches() -> bool:
        oldest = publisher.counted.oldest
        return publisher.lives and (oldest is None or time.time() - oldest < BROKER_AWAY)

    return reaches


def _placements(settings: AgentSettings) -> Placements:
    path = settings.sources.placements
    return NobodyKnows() if path is None else PlacementFile(path, _now)


def _health(
    settings: AgentSettings, agent: Agent, publisher: Publisher, on_cluster: OnCluster | None
) -> Health:
    def sends() -> str | None:
        if not publisher.lives:
            return "the publisher ended"
        oldest = publisher.counted.oldest
        waited = 0.0 if oldest is None else time.time() - oldest
        if waited <= settings.publisher.stale_after.total_seconds():
            return None
        return f"the oldest event waits for {waited:.0f} s" + (
            f" ({publisher.counted.trouble})" if publisher.counted.trouble else ""
        )

    def has_room() -> str | None:
        return f"no room in the spool for {', '.join(agent.waiting)}" if agent.waiting else None

    health = Health()
    health.add("publisher", sends)
    health.add("spool", has_room)
    if on_cluster is not None:
        on_cluster.add_health(health)
    return health


def _now() -> datetime:
    return datetime.now(UTC)
