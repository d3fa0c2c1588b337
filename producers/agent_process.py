"""The node agent as a process: settings in, sources, spool, publisher, metrics and health put together, SIGTERM out."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final

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

PREFIX: Final = "relight_agent_"
_log = logs.get(__name__)


class AgentMetrics(Collector):
    """What the agent counts, read when asked."""

    def __init__(self, agent: Agent, spool: Spool, publisher: Publisher, offset: ClockOffset) -> None:
        self._agent = agent
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


def run_agent(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises SpoolInUse, MappingError."""
    identity = Identity(settings.cluster or "", NodeRef(uid=settings.node.uid, name=settings.node.name))
    offset = ClockOffset(
        synced_within=settings.node_clock.synced_within, uncertain_above=settings.node_clock.uncertain_above
    )
    stamp = Stamp(identity, _placements(settings), offset)
    sources = make_sources(settings.sources, identity, _now)
    boot_id = read_boot_id()
    spool = open_spool(settings, identity, stamp, boot_id=boot_id)
    clients = KafkaClients(settings.kafka, f"relight-node-agent-{settings.node.name}")
    publisher = Publisher(
        spool, settings.topic(topics.SIGNALS.name), clients.producer, offset, settings.publisher
    )
    agent = Agent(settings, identity, sources, spool, stamp, boot_id=boot_id, now=_now)
    with ExitStack() as stack:
        stack.callback(spool.close)
        if settings.observe.port is not None:
            registry = CollectorRegistry()
            registry.register(AgentMetrics(agent, spool, publisher, offset))
            server = stack.enter_context(
                MetricsServer(
                    registry,
                    _health(settings, agent, publisher),
                    host=settings.observe.host,
                    port=settings.observe.port,
                )
            )
            _log.info("metrics and health are served", port=server.port)
        publisher.start()
        stack.callback(publisher.stop, settings.publisher.stop_grace)
        _log.info("node agent runs", node=settings.node.name, spool=spool.id, unconfirmed_from=spool.acked)
        asyncio.run(_watch(agent))
    _log.info("node agent ended", sent=publisher.counted.sent)


async def _watch(agent: Agent) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await agent.run(stop)


def _placements(settings: AgentSettings) -> Placements:
    path = settings.sources.placements
    return NobodyKnows() if path is None else PlacementFile(path, _now)


def _health(settings: AgentSettings, agent: Agent, publisher: Publisher) -> Health:
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
    return health


def _now() -> datetime:
    return datetime.now(UTC)
