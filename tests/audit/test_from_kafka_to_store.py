"""The whole way on a real broker and the real engine: every topic in, rows out; kills, cuts and long absences change no row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from audit.migrate import migrate
from audit.process import LateStore
from audit.retention import ask_broker
from audit.settings import AuditSettings, BatchSettings, StoreSettings
from audit.store import Store
from audit.writer import READ, Writer
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings, TopicSettings
from runtime.topics import TopicAdministration
from sandbox import tied_process
from sandbox.clickhouse import ClickHouse
from sandbox.kafka_server import KafkaBroker
from schemas.catalogue import PAYLOADS
from schemas.envelope import encode
from schemas.facts import Fact
from schemas.ids import derive_id
from schemas.mailbox import Tick
from schemas.records import Decision, Incident, RulebookRelease
from schemas.signals import OTHERS_MAY_TELL, Signal
from schemas.topics import (
    COMMANDS,
    DEADLETTERS,
    DECISIONS,
    EXTERNAL_SIGNALS,
    INBOX,
    INCIDENTS,
    RULEBOOKS,
    SIGNALS,
    Topic,
)
from tests.schemas.samples import sample

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
DATABASE = "whole_way"
COUNT = "SELECT count(), uniqExact(topic, partition, offset) FROM {db}.{table} FINAL"


def topics_of(payload: type[Any]) -> tuple[Topic, ...]:
    """Where the pipeline writes it."""
    if issubclass(payload, Signal):
        return (SIGNALS, INBOX, EXTERNAL_SIGNALS) if payload in OTHERS_MAY_TELL else (SIGNALS, INBOX)
    if issubclass(payload, Fact):
        return (SIGNALS, INBOX)
    by_class: dict[Any, Topic] = {Decision: DECISIONS, Incident: INCIDENTS, RulebookRelease: RULEBOOKS}
    if payload in by_class:
        return (by_class[payload],)
    return (COMMANDS,) if "command." in payload.TYPE else (INBOX,)


class Way:
    """A pipeline of its own between a shared broker and a store."""

    def __init__(self, kafka: KafkaBroker, store: ClickHouse, prefix: str) -> None:
        self.settings = AuditSettings(
            cluster="lab",
            kafka=KafkaSettings(bootstrap=kafka.bootstrap, replication_factor=1, min_insync_replicas=1),
            topics=TopicSettings(prefix=prefix, partitions=1),
            store=StoreSettings(port=store.port, database=DATABASE, timeout=timedelta(seconds=2)),
            batch=BatchSettings(rows=500, wait=timedelta(milliseconds=200)),
            again_first=timedelta(milliseconds=100),
            again_most=timedelta(milliseconds=400),
        )
        self.clients = KafkaClients(self.settings.kafka, "relight-audit-test")
        TopicAdministration(self.settings, self.clients).create()
        self.producer = self.clients.producer()

    def send(self, topic: Topic, value: bytes | None, headers: dict[str, bytes] | None = None) -> None:
        name = self.settings.topic(topic.name)
        self.producer.produce(name, key=b"k", value=value, headers=list((headers or {}).items()))

    def every_kind(self) -> dict[str, int]:
        """Send one of each to each topic it goes by, and what nobody can read; rows that should stand, by table."""
        rows: dict[str, int] = {}
        for payload in PAYLOADS:
            event = sample(payload.TYPE)
            for topic in topics_of(payload):
                self.send(topic, encode(event))
                copied = topic is INBOX and issubclass(payload, (Signal, Fact))
                if payload is not Tick and not copied:
                    table = TABLES.get(payload.TYPE.split(".")[2], "mailbox")
                    rows[table] = rows.get(table, 0) + 1
        self.send(SIGNALS, b"\xff\xfe")
        self.send(EXTERNAL_SIGNALS, encode(sample(Decision.TYPE)))
        self.send(DEADLETTERS, b"\x00", {"relight.reason": b"unreadable", "relight.stage": b"router"})
        self.send(INCIDENTS, None)
        self.producer.flush(30)
        return rows | {"dead_letters": 3}

    def faults(self, first: int, count: int) -> None:
        event = sample("dev.relight.signal.chip_fault.v1")
        for number in range(first, first + count):
            self.send(SIGNALS, encode(event.model_copy(update={"id": derive_id("fault", number)})))
        self.producer.flush(30)

    def writer(self) -> tuple[Writer, Callable[[], None]]:
        store = LateStore(self.settings)
        consumer = self.clients.member(self.settings.identity("audit"), self.settings.consumer)
        writer = Writer(self.settings, consumer, store, time.monotonic)  # type: ignore[arg-type]

        def close() -> None:
            consumer.close()
            store.close()

        return writer, close

    def rows(self, statement: str, **named: str) -> list[tuple[Any, ...]]:
        patient = self.settings.store.model_copy(update={"timeout": timedelta(seconds=60)})
        with Store(patient, patient.reader) as store:
            return store.rows(statement.format(db=DATABASE, **named))

    def stand(self, table: str) -> int:
        count, places = self.rows(COUNT, table=table)[0]
        assert count == places
        return int(count)

    def ends(self) -> dict[str, int]:
        """Positions of all topics: what a feedback would move."""
        reader = self.clients.reader()
        try:
            return {
                topic.name: reader.get_watermark_offsets(
                    TopicPartition(self.settings.topic(topic.name), 0), 10
                )[1]
                for topic in READ
            }
        finally:
            reader.close()


TABLES = {
    "signal": "signals",
    "fact": "facts",
    "decision": "decisions",
    "incident": "incident_states",
    "command": "commands",
    "outcome": "outcomes",
    "rulebook": "rulebooks",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    """A store of this file's own: it is stopped and killed."""
    with ClickHouse(tmp_path_factory.mktemp("whole-way")) as running:
        settings = StoreSettings(port=running.port, database=DATABASE)
        with Store(settings, settings.migrator) as migrator:
            migrate(migrator, lambda: datetime.now(UTC))
        yield running


@pytest.fixture
def way(kafka: KafkaBroker, store: ClickHouse, topic_name: str) -> Way:
    made = Way(kafka, store, topic_name[:60] + ".")
    with Store(made.settings.store, made.settings.store.migrator) as migrator:
        for table in {*TABLES.values(), "mailbox", "dead_letters"}:
            migrator.command(f"TRUNCATE TABLE {DATABASE}.{table}")
    return made


def turn_until(writer: Writer, holds: Callable[[], bool]) -> None:
    """The test's own time limit is the bound."""
    while not holds():
        writer.turn()


def test_every_topic_becomes_rows_and_nothing_comes_back(way: Way) -> None:
    expected = way.every_kind()
    before = way.ends()
    writer, close = way.writer()

    turn_until(writer, lambda: dict(writer.written) == expected)
    writer.flush()
    close()

    assert {table: way.stand(table) for table in expected} == expected
    assert way.ends() == before
    assert writer.unreadable == 2
    told = way.rows("SELECT DISTINCT trust FROM {db}.signals WHERE topic = 'external-signals.v1'")
    assert told == [("external",)]


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_store_that_is_away_for_long_is_caught_up(way: Way, store: ClickHouse, how: str) -> None:
    way.faults(0, 300)
    writer, close = way.writer()
    turn_until(writer, lambda: writer.written["signals"] == 300)
    store.kill() if how == "killed" else store.pause()
    way.faults(300, 1200)

    turn_until(writer, lambda: writer.away_since is not None)
    for _ in range(10):
        writer.turn()
    assert writer.oldest is not None
    store.start() if how == "killed" else store.resume()
    turn_until(writer, lambda: writer.written["signals"] >= 1500 and writer.oldest is None)
    close()

    assert way.stand("signals") == 1500
    assert writer.away_since is None


def test_a_writer_that_is_killed_inside_a_batch_and_started_again_has_written_each_row_once(
    way: Way, tmp_path: Path
) -> None:
    way.faults(0, 4000)
    total = 0
    for after in (1, 3, 1000):
        with (tmp_path / "audit.log").open("ab") as log:
            process = start_audit(way.settings, log)
            try:
                while process.poll() is None and way.stand("signals") < min(4000, total + 500 * after):
                    time.sleep(0.02)
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        total = way.stand("signals")

    assert total == 4000
    assert way.rows("SELECT count(), uniqExact(event_id) FROM {db}.signals_once") == [(4000, 4000)]


def start_audit(settings: AuditSettings, log: Any) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "RELIGHT_CLUSTER": "lab",
        "RELIGHT_KAFKA__BOOTSTRAP": settings.kafka.bootstrap,
        "RELIGHT_TOPICS__PREFIX": settings.topics.prefix,
        "RELIGHT_TOPICS__PARTITIONS": "1",
        "RELIGHT_STORE__PORT": str(settings.store.port),
        "RELIGHT_STORE__DATABASE": settings.store.database,
        "RELIGHT_BATCH__ROWS": "500",
        "RELIGHT_CONSUMER__SESSION_TIMEOUT": "6s",
        "RELIGHT_CONSUMER__HEARTBEAT": "1s",
    }
    command = [sys.executable, "-m", "relight.cli", "audit", "run"]
    root = Path(__file__).resolve().parents[2]
    return tied_process.start(command, cwd=root, stdout=log, stderr=log, env=environment)


def test_the_retention_that_counts_is_what_the_broker_says(way: Way) -> None:
    kept = ask_broker(way.clients.admin(), READ, way.settings.topic)

    assert min(kept) == timedelta(days=7)
    assert len(kept) == sum(topic.retention is not None for topic in READ)
