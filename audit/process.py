"""`relight audit run` as a process: consumer, store, metrics and health put together, SIGTERM out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from audit.errors import StoreAway, StoreRefused
from audit.retention import Retention, ask_broker
from audit.settings import AuditSettings
from audit.store import Store
from audit.writer import READ, Writer
from runtime import logs
from runtime.health import Health
from runtime.kafka import KafkaClients
from runtime.metrics import MetricsServer

PREFIX: Final = "relight_audit_"
_log = logs.get(__name__)


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
            PREFIX + "unreadable", "Messages this release cannot read.", value=self._writer.unreadable
        )
        yield CounterMetricFamily(
            PREFIX + "refused_rows", "Rows the store does not take.", value=self._writer.refused_rows
        )
        yield GaugeMetricFamily(
            PREFIX + "oldest_seconds",
            "Age of the oldest message that is not in the store.",
            value=_age(self._writer),
        )
        away = self._writer.away_since
        yield GaugeMetricFamily(
            PREFIX + "store_away_seconds",
            "How long the store has not answered or refused what is written.",
            value=0.0 if away is None else max(0.0, time.monotonic() - away),
        )
        yield GaugeMetricFamily(
            PREFIX + "store_refuses",
            "1: the store refuses what is written until somebody acts.",
            value=float(self._writer.refusal is not None),
        )


def _age(writer: Writer) -> float:
    return 0.0 if writer.oldest is None else max(0.0, time.time() - writer.oldest)


def make_health(settings: AuditSettings, writer: Writer, retention: Retention, store: LateStore) -> Health:
    """Red long before Kafka forgets what the store does not have (design 6: at half of the shortest retention)."""

    def keeps_up() -> str | None:
        age, kept = _age(writer), retention.shortest
        if kept is None or age <= settings.alarm_after * kept.total_seconds():
            return None
        return f"the oldest message not in the store is {age:.0f} s old; at {kept.total_seconds():.0f} s Kafka forgets it"

    def store_answers() -> str | None:
        away = writer.away_since
        if away is not None and writer.refusal is not None:
            return (
                f"the store has refused what is written for {time.monotonic() - away:.0f} s: {writer.refusal}"
            )
        if away is not None:
            return f"the store has not answered for {time.monotonic() - away:.0f} s"
        return None if store.connected else "the store has not answered yet"

    health = Health()
    health.add("keeps up", keeps_up)
    health.add("store", store_answers)
    return health


class LateStore:
    """The store as the writer's user, connected when it answers: a store that is away at the start is one that is away, no more."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._store: Store | None = None

    @property
    def connected(self) -> bool:
        """It has answered once."""
        return self._store is not None

    def connect(self) -> Store:
        """Raises StoreAway, StoreRefused."""
        if self._store is None:
            self._store = Store(self._settings.store, self._settings.store.writer)
        return self._store

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, token: str
    ) -> None:
        """Insert one block. Raises StoreAway, StoreRefused, RowsRefused."""
        self.connect().insert(table, columns, rows, token=token)

    def close(self) -> None:
        """Let go of the server."""
        if self._store is not None:
            self._store.close()


def run_audit(settings: AuditSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises BrokerError."""
    stop = threading.Event()

    def ended(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended)
    with ExitStack() as stack:
        store = LateStore(settings)
        stack.callback(store.close)
        try:
            store.connect()
        except StoreAway as error:
            _log.warning("the store does not answer yet", error=str(error))
        except StoreRefused as error:
            _log.error("the store does not let us in; it is asked again until it does", error=str(error))
        clients = KafkaClients(settings.kafka, "relight-audit")
        consumer = clients.member(settings.identity("audit"), settings.consumer)
        stack.callback(consumer.close)
        writer = Writer(settings, consumer, store, time.monotonic)  # type: ignore[arg-type]  # its stub is wider
        retention = Retention(
            partial(ask_broker, clients.admin(), READ, settings.topic), READ, time.monotonic
        )
        if settings.observe.port is not None:
            registry = CollectorRegistry()
            registry.register(AuditMetrics(writer))
            health = make_health(settings, writer, retention, store)
            observe = settings.observe
            server = MetricsServer(registry, health, host=observe.host, port=observe.port or 0)
            _log.info("metrics and health are served", port=stack.enter_context(server).port)
        _log.info("audit runs", database=settings.store.database)
        while not stop.is_set():
            retention.look()
            writer.turn()
        try:
            writer.flush()
        except StoreAway as error:
            _log.warning("ended without the last batch", error=str(error))
    _log.info("audit ended", rows=sum(writer.written.values()))
