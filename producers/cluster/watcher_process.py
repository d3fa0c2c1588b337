"""The cluster watcher as a process: settings in, Lease, book, informers, publisher, metrics and health put together, SIGTERM out."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from producers.clock_offset import ClockOffset
from producers.cluster.lease import Lease
from producers.cluster.outbox import Outbox, first_number, watcher_key
from producers.cluster.settings import WatcherSettings
from producers.cluster.told_before import ToldBefore, read_told
from producers.cluster.translator import Translator
from producers.cluster.watcher import Watcher
from producers.publisher import Publisher
from producers.settings import ClockSettings
from runtime import logs
from runtime.errors import BrokerError
from runtime.health import Health
from runtime.kafka import KafkaClients
from runtime.kubernetes import Cluster
from runtime.metrics import MetricsServer
from schemas import topics

PREFIX: Final = "relight_watcher_"
_AGAIN: Final = 2.0
_log = logs.get(__name__)


class _Parts:
    """What exists so far: a watcher that waits for the Lease has no informers yet."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.watcher: Watcher | None = None
        self.outbox: Outbox | None = None
        self.publisher: Publisher | None = None
        self.translator: Translator | None = None


class WatcherMetrics(Collector):
    """What the watcher counts, read when asked."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        """One family a number."""
        parts = self._parts
        speaks = parts.lease is None or parts.lease.is_ours
        yield GaugeMetricFamily(PREFIX + "speaks", "1 while it holds the Lease.", value=float(speaks))
        if (
            parts.watcher is None
            or parts.publisher is None
            or parts.outbox is None
            or parts.translator is None
        ):
            return
        counted, sent = parts.watcher.counted, parts.publisher.counted
        yield CounterMetricFamily(
            PREFIX + "differences", "Differences of objects.", value=counted.differences
        )
        yield CounterMetricFamily(PREFIX + "told", "Facts and signals told.", value=counted.tellings)
        yield CounterMetricFamily(PREFIX + "repeated", "Of these, states told again.", value=counted.repeated)
        yield CounterMetricFamily(PREFIX + "sent", "Events the broker confirmed.", value=sent.sent)
        yield CounterMetricFamily(
            PREFIX + "refused", "Events the broker will never take.", value=parts.outbox.refused
        )
        yield GaugeMetricFamily(PREFIX + "unconfirmed", "Events not confirmed.", value=len(parts.outbox))
        yield GaugeMetricFamily(
            PREFIX + "known", "Runs, nodes and pods told of.", value=parts.translator.known
        )
        yield GaugeMetricFamily(
            PREFIX + "silent_kinds",
            "Kinds for which the API does not answer.",
            value=len(parts.watcher.silent),
        )


def run_watcher(settings: WatcherSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises LeaseLost, SettingsConflict, CatalogueError."""
    stop = threading.Event()
    parts = _Parts()
    with ExitStack() as stack:
        stack.enter_context(_signals(stop))
        if settings.observe.port is not None:
            registry = CollectorRegistry()
            registry.register(WatcherMetrics(parts))
            health = _health(settings, parts)
            server = stack.enter_context(
                MetricsServer(registry, health, host=settings.observe.host, port=settings.observe.port)
            )
            _log.info("metrics and health are served", port=server.port)
        cluster = Cluster(settings.kubernetes, "watcher")
        lost: list[Exception] = []
        if settings.lease.enabled and not _speak(cluster, settings, parts, stack, stop, lost):
            return
        _watch(cluster, settings, parts, stack, stop)
    if lost:
        raise lost[0]
    _log.info("cluster watcher ended")


def _speak(
    cluster: Cluster,
    settings: WatcherSettings,
    parts: _Parts,
    stack: ExitStack,
    stop: threading.Event,
    lost: list[Exception],
) -> bool:
    """Wait for the Lease and keep it; False when the process was told to end meanwhile."""
    holder = settings.lease.holder or f"{platform.node()}-{os.getpid()}"
    lease = parts.lease = Lease(cluster, settings.lease, holder)
    _log.info("waits for the Lease", lease=f"{settings.lease.namespace}/{settings.lease.name}", holder=holder)
    if not lease.wait_for(stop):
        return False

    def keep() -> None:
        try:
            lease.keep(stop)
        except Exception as error:  # noqa: BLE001 - whatever it was, the process may not go on without its Lease
            lost.append(error)
            stop.set()

    keeper = threading.Thread(target=keep, name="lease", daemon=True)
    stack.callback(lease.let_go)
    stack.callback(keeper.join)
    stack.callback(stop.set)
    keeper.start()
    return True


def _watch(
    cluster: Cluster, settings: WatcherSettings, parts: _Parts, stack: ExitStack, stop: threading.Event
) -> None:
    clients = KafkaClients(settings.kafka, "relight-watcher")
    topic = settings.topic(topics.SIGNALS.name)
    name = settings.cluster or ""
    before = _read_before(clients, topic, settings, stop)
    if before is None:
        return
    started = _now()
    translator = Translator(name, settings.watch, before.book, _now, recent=settings.watch.memory)
    first = first_number(started, before.highest)
    outbox = Outbox(name, f"/clusters/{name}/watcher/{platform.node()}"[:300], first, time.time)
    clock = ClockSettings()
    offset = ClockOffset(synced_within=clock.synced_within, uncertain_above=clock.uncertain_above)
    publisher = Publisher(outbox, topic, clients.producer, offset, settings.publisher)
    lease = parts.lease
    watcher = Watcher(
        cluster,
        translator,
        outbox,
        settings,
        may_repeat=lambda: lease is None or lease.is_ours,
    )
    parts.translator, parts.outbox, parts.publisher, parts.watcher = translator, outbox, publisher, watcher
    publisher.start()
    stack.callback(publisher.stop, settings.publisher.stop_grace)
    _log.info("cluster watcher runs", cluster=name, told_before=before.read, first_number=first)

    def end() -> None:
        stop.wait()
        watcher.stop()

    stopper = threading.Thread(target=end, name="stopper", daemon=True)
    stopper.start()
    try:
        watcher.run()
    finally:
        stop.set()
        stopper.join()


def _read_before(
    clients: KafkaClients, topic: str, settings: WatcherSettings, stop: threading.Event
) -> ToldBefore | None:
    """What was told before; waits while the broker is away. None: told to end meanwhile."""
    key = watcher_key(settings.cluster or "")
    while not stop.is_set():
        try:
            return read_told(clients, topic, key, _now() - settings.watch.memory)
        except BrokerError as error:
            _log.warning("what was told before cannot be read yet", error=str(error))
            stop.wait(_AGAIN)
    return None


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set `stop`; afterwards they mean what they meant before."""
    before = {
        number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _health(settings: WatcherSettings, parts: _Parts) -> Health:
    """A watcher that waits for the Lease is well; one that speaks must see and send."""

    def sees() -> str | None:
        silent = parts.watcher.silent if parts.watcher is not None else []
        return f"the API does not answer for {', '.join(silent)}" if silent else None

    def sends() -> str | None:
        publisher = parts.publisher
        if publisher is None:
            return None
        if not publisher.lives:
            return "the publisher ended"
        oldest = publisher.counted.oldest
        waited = 0.0 if oldest is None else time.time() - oldest
        if waited <= settings.publisher.stale_after.total_seconds():
            return None
        return (
            f"the oldest fact waits for {waited:.0f} s ({publisher.counted.trouble or 'the broker is away'})"
        )

    health = Health()
    health.add("api", sees)
    health.add("publisher", sends)
    return health


def _now() -> datetime:
    return datetime.now(UTC)
