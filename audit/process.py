"""`relight audit run` as a process: consumer, store, metrics and health put together, SIGTERM out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from types import FrameType
from typing import Final

from confluent_kafka import Consumer
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from audit.errors import StoreAway
from audit.settings import AuditSettings
from audit.store import Store
from audit.writer import READ, Writer
from runtime import logs
from runtime.health import Health
from runtime.kafka import KafkaClients
from runtime.metrics import MetricsServer

PREFIX: Final = "relight_audit_"
_log = logs.get(__name__)
_SHORTEST: Final = min(topic.retention.total_seconds() for topic in READ if topic.retention is not None)


class AuditMetrics(Collector):
    """What the writer counts, read when asked."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def collect(self) -> Iterator[Metric]:
        """One family a number."""
        rows = CounterMetricFamily(PREFIX + "rows", "Rows written.", labels=["table"])
        for table, count in sorted(self._writer.written.items()):
            rows.add_metric([table], count)
        yield rows
        yield CounterMetricFamily(
            PREFIX + "unreadable", "Messages nobody can read.", value=self._writer.unreadable
        )
        yield GaugeMetricFamily(
            PREFIX + "oldest_seconds",
            "Age of the oldest message that is not in the store.",
            value=_age(self._writer),
        )
        away = self._writer.away_since
        yield GaugeMetricFamily(
            PREFIX + "store_away_seconds",
            "How long the store has not answered.",
            value=0.0 if away is None else max(0.0, time.monotonic() - away),
        )


def _age(writer: Writer) -> float:
    return 0.0 if writer.oldest is None else max(0.0, time.time() - writer.oldest)


def make_health(settings: AuditSettings, writer: Writer) -> Health:
    """Red long before Kafka forgets what the store does not have (design 6: at half of the shortest retention)."""
    limit = settings.alarm_after * _SHORTEST

    def keeps_up() -> str | None:
        age = _age(writer)
        if age <= limit:
            return None
        return (
            f"the oldest message not in the store is {age:.0f} s old; at {_SHORTEST:.0f} s Kafka forgets it"
        )

    def store_answers() -> str | None:
        away = writer.away_since
        return None if away is None else f"the store has not answered for {time.monotonic() - away:.0f} s"

    health = Health()
    health.add("keeps up", keeps_up)
    health.add("store", store_answers)
    return health


def connect(settings: AuditSettings, stop: threading.Event) -> Store | None:
    """The store as the writer's user, waited for; None when told to stop first. Raises StoreRefused."""
    wait = settings.again_first.total_seconds()
    while not stop.is_set():
        try:
            return Store(settings.store, settings.store.writer)
        except StoreAway as error:
            _log.warning("the store does not answer", error=str(error))
            stop.wait(wait)
            wait = min(2 * wait, settings.again_most.total_seconds())
    return None


def run_audit(settings: AuditSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises StoreRefused, BrokerError."""
    stop = threading.Event()

    def ended(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended)
    with ExitStack() as stack:
        store = connect(settings, stop)
        if store is None:
            return
        stack.callback(store.close)
        consumer = _consumer(settings)
        stack.callback(consumer.close)
        writer = Writer(settings, consumer, store, time.monotonic)  # type: ignore[arg-type]  # its stub is wider
        if settings.observe.port is not None:
            registry = CollectorRegistry()
            registry.register(AuditMetrics(writer))
            health = make_health(settings, writer)
            observe = settings.observe
            server = MetricsServer(registry, health, host=observe.host, port=observe.port or 0)
            _log.info("metrics and health are served", port=stack.enter_context(server).port)
        _log.info("audit runs", database=settings.store.database)
        while not stop.is_set():
            writer.turn()
        try:
            writer.flush()
        except StoreAway as error:
            _log.warning("ended without the last batch", error=str(error))
    _log.info("audit ended", rows=sum(writer.written.values()))


def _consumer(settings: AuditSettings) -> Consumer:
    clients = KafkaClients(settings.kafka, "relight-audit")
    return clients.member(settings.identity("audit"), settings.consumer)
