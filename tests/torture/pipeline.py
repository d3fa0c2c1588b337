"""One pipeline on a real broker, apart from others by its topic prefix: topics, worker processes, what stands in the topics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import psutil
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from runtime.kafka import KafkaClients
from runtime.settings import read_settings
from runtime.topics import TopicAdministration
from sandbox import tied_process
from schemas import topics
from streams.settings import StreamSettings

T = TypeVar("T")

PARTITIONS = 4
PATIENCE = 100.0
STATE_CONFIG = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "2000"}
ORDINARY_CONFIG = {"segment.bytes": "100000000", "min.compaction.lag.ms": "86400000"}
"""The broker's own small segments and eager cleaner are for the state log; two megabytes do not fit into the one, and the other would take
incidents away that a verdict wants to see."""

ROOT = Path(__file__).resolve().parents[2]

SHORT = {
    "RELIGHT_CONSUMER__SESSION_TIMEOUT": "3s",
    "RELIGHT_CONSUMER__HEARTBEAT": "500ms",
    "RELIGHT_CONSUMER__REBALANCE_TIMEOUT": "5s",
    "RELIGHT_CONSUMER__COMMIT_INTERVAL": "200ms",
    "RELIGHT_CONSUMER__FENCED_WAIT": "2s",
    "RELIGHT_CONSUMER__STOP_GRACE": "10s",
    "RELIGHT_RECOVERY__POSITION_INTERVAL": "500ms",
    "RELIGHT_RECOVERY__TRANSACTION_TIMEOUT": "5s",
}


class Broker(Protocol):
    """Whatever clients can connect to."""

    @property
    def bootstrap(self) -> str:
        """Its address."""
        ...


class Process:
    """A worker process of ours."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.log = log
        self.dismissed = False
        """We ended it: its end is no surprise."""
        with log.open("ab") as sink:
            self._process: subprocess.Popen[bytes] = tied_process.start(
                [sys.executable, "-m", *arguments], env=env, cwd=ROOT, stdout=sink, stderr=sink
            )

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether it was told to stop, and stands."""
        return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM, patience: float = 20.0) -> int:
        """Send a signal and wait for the end."""
        self.dismissed = True
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(number)
        return self._process.wait(patience)


class Pipeline:
    """Topics with one prefix, and the processes that work on them."""

    def __init__(
        self,
        broker: Broker,
        prefix: str,
        folder: Path,
        *,
        module: str,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.broker = broker
        self.folder = folder
        self._module = module
        self._variables = {
            "RELIGHT_KAFKA__BOOTSTRAP": broker.bootstrap,
            "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
            "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
            "RELIGHT_TOPICS__PREFIX": prefix,
            "RELIGHT_TOPICS__PARTITIONS": str(PARTITIONS),
            **SHORT,
            **(more or {}),
        }
        self.settings = self._read_settings()
        self.clients = KafkaClients(self.settings.kafka, "torture")
        self.processes: list[Process] = []
        self._askers: dict[str | None, Consumer] = {}
        self._make_topics()

    def _make_topics(self) -> None:
        extra = {topic.name: ORDINARY_CONFIG for topic in topics.TOPICS} | {topics.STATE.name: STATE_CONFIG}
        TopicAdministration(self.settings, self.clients).create(extra=extra)

    def start(self, *arguments: str, **variables: str) -> Process:
        """Start one more worker, or another module with its arguments."""
        log = self.folder / f"worker-{len(self.processes)}.log"
        env = {**os.environ, **self._variables, "PYTHONPATH": str(ROOT), **variables}
        process = Process(arguments or (self._module,), env, log)
        self.processes.append(process)
        return process

    def require_alive(self) -> None:
        """Fail at once when a worker died by itself: nothing that waits for it will come."""
        dead = [
            process.log.name for process in self.processes if not process.dismissed and not process.is_alive
        ]
        assert not dead, f"died by itself: {dead}"

    def end_all(self) -> None:
        """Kill what still runs; what stands in the topics can still be asked for."""
        for process in self.processes:
            if process.is_alive:
                process.end(signal.SIGKILL)

    def logs(self) -> str:
        """The end of what each worker said."""
        return "\n".join(
            f"--- {process.log.name}\n{process.log.read_text(encoding='utf-8', errors='replace')[-3000:]}"
            for process in self.processes
        )

    # ------------------------------------------------------------------ topics

    def name(self, topic: topics.Topic) -> str:
        """Name in the broker."""
        return self.settings.topic(topic.name)

    def read(self, topic: topics.Topic, partition: int, start: int = 0) -> list[Message]:
        """Every committed record from `start` to the present end of one partition."""
        consumer = self.clients.reader()  # a new one: a used one may still say where it stood before
        try:
            return _read(consumer, TopicPartition(self.name(topic), partition, start))
        finally:
            consumer.close()

    def read_all(self, topic: topics.Topic) -> list[Message]:
        """Every committed record of all partitions, by partition and offset."""
        return [message for partition in range(PARTITIONS) for message in self.read(topic, partition)]

    def ends(self, topic: topics.Topic) -> dict[int, int]:
        """Offset the next record of each partition will get."""
        name, asker = self.name(topic), self._asker()
        return {
            partition: _asked(
                partial(asker.get_watermark_offsets, TopicPartition(name, partition), timeout=10)
            )[1]
            for partition in range(PARTITIONS)
        }

    def committed(self, group: str) -> dict[int, int]:
        """What a group of ours has committed of the inbox."""
        places = [TopicPartition(self.name(topics.INBOX), partition) for partition in range(PARTITIONS)]
        found = _asked(partial(self._asker(self.settings.identity(group)).committed, places, timeout=10))
        return {place.partition: place.offset for place in found}

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        """Set by hand what the group has committed; its workers must be gone."""
        consumer = self.clients.reader(self.settings.identity(group))
        try:
            name = self.name(topics.INBOX)
            places = [TopicPartition(name, partition, offset) for partition, offset in offsets.items()]
            consumer.commit(offsets=places, asynchronous=False)
        finally:
            consumer.close()

    def _asker(self, group: str | None = None) -> Consumer:
        """One client for each group that is asked about: a new one for each question costs a tenth of a second. Never joins the group."""
        if group not in self._askers:
            self._askers[group] = self.clients.reader(group)
        return self._askers[group]

    def _read_settings(self) -> StreamSettings:
        before = dict(os.environ)
        os.environ.update(self._variables)
        try:
            return read_settings(StreamSettings)
        finally:
            os.environ.clear()
            os.environ.update(before)


def wait_until(
    is_so: Callable[[], bool], what: str, *, patience: float = PATIENCE, every: float = 0.05
) -> None:
    """Wait for something that other processes bring about; a failure says what did not come."""
    deadline = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:.0f} s: {what}")
        time.sleep(every)


def _asked(ask: Callable[[], T]) -> T:
    """What the broker answers; one that has just come back refuses for a while and is asked again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _read(consumer: Consumer, place: TopicPartition) -> list[Message]:
    edges = partial(consumer.get_watermark_offsets, TopicPartition(place.topic, place.partition), timeout=10)
    first, end = _asked(edges)
    found: list[Message] = []
    if end == first or place.offset >= end:
        return found
    consumer.assign([TopicPartition(place.topic, place.partition, max(first, place.offset))])
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for message in consumer.consume(5000, 0.05):
            if message.error() is not None:  # a broker that was away: read on, the deadline stands
                continue
            if (message.offset() or 0) >= end:  # of a transaction that would not be read whole
                return found
            found.append(message)
        position = consumer.position([TopicPartition(place.topic, place.partition)])[0].offset
        if position >= end:
            return found
    raise AssertionError(f"{place.topic}/{place.partition} was not read to its end")
