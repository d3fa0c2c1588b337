"""Metrics of the stream processes, and the small server that shows them and the health, on the loopback interface.

`/metrics` is Prometheus text; `/healthz` is 200 with `ok`, or 503 with a line for each thing that is wrong. Served by a thread, so that it
answers while the event loop does not. A registry of its own: nothing of other libraries slips in, and tests make as many as they like.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

from runtime.health import Health

_LOOP_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
_GROUP_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_SECONDS_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class StreamMetrics:
    """What a stage counts. Labels are few and bounded: stage, topic, partition, reason."""

    def __init__(self, stage: str) -> None:
        self.registry = CollectorRegistry()
        self.stage = stage
        place = ("topic", "partition")
        self.applied = self._counter("applied", "Messages handled, their emits confirmed.", ())
        self.emitted = self._counter("emitted", "Messages sent and confirmed.", ("topic",))
        self.dead = self._counter("dead_letters", "Messages put to the dead letters.", ("reason",))
        self.replays = self._counter("replays", "Messages at or below the position, skipped.", place)
        self.jumps = self._counter("jumps", "Messages ahead of the position, dropped unhandled.", place)
        self.seeks = self._counter("seeks", "Seeks of a live partition.", ("cause",))
        self.fences = self._counter("fences", "Producers fenced; not proof of a second owner.", ())
        self.retries = self._counter("retries", "Groups tried again after the broker failed them.", ())
        self.gaps = self._counter(
            "position_gaps", "Positions below the start of the log: messages lost.", place
        )
        self.ticks = self._counter("ticks", "Ticks sent.", ())
        self.early = self._counter(
            "early_ticks", "Ticks that came before their time and were armed again.", ()
        )
        self.forwarded = self._counter("misplaced", "Messages of another partition, sent on to it.", ())
        self.halts = self._counter("halts", "Subjects halted since the start.", ())
        self.lag = self._gauge("lag_messages", "Messages between position and end of log.", place)
        self.age = self._gauge("lag_seconds", "Age of the oldest message not yet handled.", place)
        self.cells = self._gauge("cells", "Cells held.", place)
        self.halted = self._gauge("halted_subjects", "Subjects halted now.", place)
        self.blocked = self._gauge("blocked_partition", "1 while a partition waits for an operator.", place)
        self.loop = self._histogram("loop_delay_seconds", "How late the event loop woke up.", _LOOP_BUCKETS)
        self.group = self._histogram("group_messages", "Messages of a group.", _GROUP_BUCKETS)
        self.confirm = self._histogram(
            "confirm_seconds", "From a full group to the confirmation of its emits.", _SECONDS_BUCKETS
        )
        self.load = self._histogram(
            "load_seconds", "Taking a partition up: fence and load.", _SECONDS_BUCKETS
        )

    def forget_partition(self, topic: str, partition: int) -> None:
        """Drop the gauges of a partition that is no longer ours: an old value would look like a live one."""
        for gauge in (self.lag, self.age, self.cells, self.halted, self.blocked):
            if (topic, str(partition)) in gauge._metrics:  # noqa: SLF001 - `remove` raises or warns for an unknown one
                gauge.remove(topic, str(partition))

    def _counter(self, name: str, says: str, labels: Iterable[str]) -> Counter:
        return Counter(f"relight_{self.stage}_{name}", says, tuple(labels), registry=self.registry)

    def _gauge(self, name: str, says: str, labels: Iterable[str]) -> Gauge:
        return Gauge(f"relight_{self.stage}_{name}", says, tuple(labels), registry=self.registry)

    def _histogram(self, name: str, says: str, buckets: Iterable[float]) -> Histogram:
        return Histogram(f"relight_{self.stage}_{name}", says, buckets=tuple(buckets), registry=self.registry)


class _Quiet(WSGIRequestHandler):
    """A scrape is no news."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's own name
        """Say nothing."""


class MetricsServer:
    """Serves one registry and one health. ``with MetricsServer(...) as server: server.port``."""

    def __init__(self, registry: CollectorRegistry, health: Health, *, host: str, port: int) -> None:
        """Port 0 takes a free one."""
        show_metrics = make_wsgi_app(registry)

        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if environ["PATH_INFO"] != "/healthz":
                shown: Iterable[bytes] = show_metrics(environ, start)
                return shown
            faults = health.faults()
            start(
                "503 Service Unavailable" if faults else "200 OK",
                [("Content-Type", "text/plain; charset=utf-8")],
            )
            lines = [f"{name}: {fault}\n" for name, fault in faults.items()] or ["ok\n"]
            return ["".join(lines).encode()]

        self._server = make_server(host, port, answer, ThreadingWSGIServer, handler_class=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
