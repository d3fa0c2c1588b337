"""A replay of recorded events through the real router and recovery stage: processes on a real broker, event time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import TopicPartition

from recovery import Cell, decode_cell
from rules.compiled import content_of
from rules.model import RulebookDocument
from runtime.kafka import KafkaClients
from runtime.settings import read_settings
from runtime.topics import TopicAdministration
from sandbox import tied_process
from sandbox.kafka_server import KafkaBroker
from schemas import topics
from schemas.envelope import Event, decode, encode, make_event
from schemas.ids import derive_id, mailbox_key, partition_subject
from schemas.mailbox import RulebookSwitch
from schemas.records import Decision, RulebookRelease
from streams.settings import StreamSettings
from streams.state_records import CELL, read_key

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 200.0
"""Seconds; a busy machine takes a fifth of it."""
QUIET = 1.5
"""Seconds without anything new, with both groups at the end of what they read: the replay is through."""


@dataclass
class Replay:
    """Topics with one prefix, a rulebook, and the processes that work on them."""

    broker: KafkaBroker
    prefix: str
    partitions: int
    folder: Path
    cluster: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._variables = {
            "RELIGHT_CLOCK": "event",
            "RELIGHT_KAFKA__BOOTSTRAP": self.broker.bootstrap,
            "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
            "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
            "RELIGHT_TOPICS__PREFIX": self.prefix,
            "RELIGHT_TOPICS__PARTITIONS": str(self.partitions),
            "RELIGHT_CONSUMER__SESSION_TIMEOUT": "3s",
            "RELIGHT_CONSUMER__HEARTBEAT": "500ms",
            "RELIGHT_CONSUMER__REBALANCE_TIMEOUT": "5s",
            "RELIGHT_CONSUMER__COMMIT_INTERVAL": "200ms",
        }
        before = dict(os.environ)
        os.environ.update(self._variables)
        try:
            self.settings = read_settings(StreamSettings)
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.clients = KafkaClients(self.settings.kafka, "replay")
        TopicAdministration(self.settings, self.clients).create()

    def release(self, document: RulebookDocument, digest: str, at: Event) -> None:
        """Publish a rulebook and switch every inbox partition to it, as of the first event."""
        content = RulebookRelease(
            rulebook=digest, released_by="replay", released_at=at.time, content=content_of(document)
        )
        record = self._event(content, "rulebook", digest, at)
        producer = self.clients.producer()
        producer.produce(self.settings.topic(topics.RULEBOOKS.name), encode(record), digest.encode())
        for partition in range(self.partitions):
            subject = partition_subject(partition)
            switch = self._event(
                RulebookSwitch(rulebook=digest, released_by="replay"), f"s{partition}", subject, at
            )
            key = mailbox_key(self.cluster, subject)
            producer.produce(self.settings.topic(topics.INBOX.name), encode(switch), key, partition=partition)
        assert producer.flush(30) == 0

    def _event(self, data: RulebookRelease | RulebookSwitch, name: str, subject: str, at: Event) -> Event:
        return make_event(
            data,
            id=derive_id("replay", name),
            source="/replay",
            subject=subject,
            time=at.time,
            cluster=self.cluster,
        )

    def publish(self, events: Iterable[Event]) -> None:
        """Write events to the signals topic, each under its subject's key."""
        producer = self.clients.producer()
        for event in events:
            key = mailbox_key(self.cluster, event.subject)
            producer.produce(self.settings.topic(topics.SIGNALS.name), encode(event), key)
            producer.poll(0)
        assert producer.flush(60) == 0

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Start `relight router` or `relight recovery`."""
        log = self.folder / f"{len(self.processes)}-{command}.log"
        env: Mapping[str, str] = {**os.environ, **self._variables}
        with log.open("ab") as sink:
            process = tied_process.start(
                [sys.executable, "-m", "relight.cli", command], env=env, cwd=ROOT, stdout=sink, stderr=sink
            )
        self.processes.append(process)
        return process

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait(10)

    def logs(self) -> str:
        """The end of what each process said."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text()[-2000:]}" for log in sorted(self.folder.glob("*.log"))
        )

    def wait_until_through(self) -> None:
        """Return when both stages have handled all they were given and nothing new came for a while."""
        deadline, quiet_since, seen = time.monotonic() + PATIENCE, time.monotonic(), (-1, -1)
        while time.monotonic() < deadline:
            now = (self._done("router", topics.SIGNALS), self._done("recovery", topics.INBOX))
            if now != seen or min(now) < 0:
                seen, quiet_since = now, time.monotonic()
            elif time.monotonic() - quiet_since > QUIET:
                return
            time.sleep(0.2)
        raise AssertionError(f"not through within {PATIENCE:.0f} s\n{self.logs()}")

    def handled(self, group: str, topic: topics.Topic) -> int:
        """How many messages a group has confirmed."""
        return sum(max(0, offset) for offset, _ in self._offsets(group, topic))

    def _done(self, group: str, topic: topics.Topic) -> int:
        """Confirmed messages of a group, -1 while some are left."""
        pairs = self._offsets(group, topic)
        return sum(end for _, end in pairs) if all(max(0, offset) == end for offset, end in pairs) else -1

    def _offsets(self, group: str, topic: topics.Topic) -> list[tuple[int, int]]:
        consumer = self.clients.reader(self.settings.identity(group))
        name = self.settings.topic(topic.name)
        try:
            places = [TopicPartition(name, partition) for partition in range(self.partitions)]
            ends = [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
            return [
                (place.offset, end)
                for place, end in zip(consumer.committed(places, timeout=10), ends, strict=True)
            ]
        finally:
            consumer.close()

    def read(self, topic: topics.Topic) -> list[tuple[bytes | None, bytes | None]]:
        """Key and value of every committed record of a topic."""
        consumer = self.clients.reader()
        name = self.settings.topic(topic.name)
        records: list[tuple[bytes | None, bytes | None]] = []
        try:
            for partition in range(self.partitions):
                end = consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=10)[1]
                consumer.assign([TopicPartition(name, partition, 0)])
                deadline = time.monotonic() + PATIENCE
                while end and consumer.position([TopicPartition(name, partition)])[0].offset < end:
                    assert time.monotonic() < deadline, f"{name}/{partition} was not read to its end"
                    records += [(found.key(), found.value()) for found in consumer.consume(5000, 0.2)]
        finally:
            consumer.close()
        return records

    def decisions(self) -> dict[str, Decision]:
        """Decisions by event id: what a restart sent again is the same decision."""
        found: dict[str, Decision] = {}
        for _, value in self.read(topics.DECISIONS):
            event = decode(value or b"")
            assert isinstance(event.data, Decision)
            assert found.setdefault(event.id, event.data) == event.data
        return found

    def cells(self) -> dict[tuple[str, str], Cell]:
        """Cells that stand in the state log, by subject and name."""
        last: dict[tuple[str, str], bytes | None] = {}
        for key, value in self.read(topics.STATE):
            parts = read_key(key or b"")
            if parts[0] == CELL:
                last[parts[2], parts[3]] = value
        return {place: decode_cell(raw) for place, raw in last.items() if raw}
