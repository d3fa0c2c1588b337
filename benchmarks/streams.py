"""Router and recovery stage on a real broker beside a bare Faust agent, in one run: backlog, latency, restore.

Run: python -m benchmarks streams
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewTopic

from benchmarks.report import Row
from rules.compiled import content_of, default_rulebook
from rules.model import RulebookDocument
from rules.packaged import default_content
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings, read_settings
from runtime.topic_tail import tail
from runtime.topics import TopicAdministration
from sandbox import kafka_jars, tied_process
from sandbox.kafka_server import KafkaBroker
from schemas import topics
from schemas.envelope import Event, Payload, decode, encode, make_event
from schemas.ids import derive_id, mailbox_key, node_subject, partition_subject, run_subject
from schemas.mailbox import RulebookSwitch
from schemas.records import Decision, RulebookRelease
from schemas.signals import ChipFault, ChipRef, FaultState, Heartbeat, NodeRef, Placement, Progress
from streams.settings import StreamSettings

PARTITIONS = 4
BACKLOG = 40_000
RATE = 500
SECONDS = 20
FIRST = 0.1
"""The first tenth of a backlog is warm-up: joining the group is not what is measured."""


class Bench:
    """One broker, one set of topics, one process at a time."""

    def __init__(self, broker: KafkaBroker, prefix: str) -> None:
        self.env = {
            "RELIGHT_KAFKA__BOOTSTRAP": broker.bootstrap,
            "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
            "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
            "RELIGHT_TOPICS__PREFIX": prefix,
            "RELIGHT_TOPICS__PARTITIONS": str(PARTITIONS),
            "RELIGHT_CONSUMER__COMMIT_INTERVAL": "100ms",
        }
        os.environ.update(self.env)
        self.settings = read_settings(StreamSettings)
        self.clients = KafkaClients(
            KafkaSettings(bootstrap=broker.bootstrap, replication_factor=1, min_insync_replicas=1), "bench"
        )
        TopicAdministration(self.settings, self.clients).create()

    def release(self) -> None:
        """The default rulebook, in force in every partition."""
        book, at = default_rulebook(), datetime.now(UTC)
        content = content_of(RulebookDocument.model_validate(default_content()))
        release = RulebookRelease(rulebook=book.hash, released_by="bench", released_at=at, content=content)
        producer = self.clients.producer()
        producer.produce(
            self.name(topics.RULEBOOKS), encode(_event(release, "book", book.hash)), book.hash.encode()
        )
        for number in range(PARTITIONS):
            subject = partition_subject(number)
            switch = _event(
                RulebookSwitch(rulebook=book.hash, released_by="bench"), f"switch{number}", subject
            )
            producer.produce(
                self.name(topics.INBOX), encode(switch), mailbox_key("c", subject), partition=number
            )
        producer.flush(30)

    def name(self, topic: topics.Topic) -> str:
        """Name in the broker."""
        return self.settings.topic(topic.name)

    def send(self, topic: str, events: Iterator[Event]) -> None:
        """Write events, each under its mailbox's key."""
        producer = self.clients.producer()
        for event in events:
            producer.produce(topic, encode(event), mailbox_key("c", event.subject))
            producer.poll(0)
        producer.flush(60)

    def start(self, module: list[str], more: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a process of ours."""
        env = {**os.environ, **self.env, **(more or {})}
        return tied_process.start(
            [sys.executable, "-m", *module], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def ends(self, topic: str) -> list[int]:
        """Where each partition of a topic ends."""
        consumer = self.clients.reader()
        try:
            places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            return [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
        finally:
            consumer.close()

    def handled(self, group: str, topic: str) -> int:
        """Messages a group has confirmed."""
        consumer = self.clients.reader(group)
        try:
            places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            return sum(max(0, place.offset) for place in consumer.committed(places, timeout=10))
        finally:
            consumer.close()

    def backlog_rate(self, process: subprocess.Popen[bytes], group: str, topic: str, count: int) -> float:
        """Messages a second from a tenth of the backlog to its end."""
        began = first = 0.0
        deadline = time.monotonic() + 120
        try:
            while time.monotonic() < deadline:
                done = self.handled(group, topic)
                now = time.monotonic()
                if done >= count * FIRST and not began:
                    began, first = now, float(done)
                if done >= count:
                    return (done - first) / (now - began)
                time.sleep(0.02)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        raise TimeoutError(f"{group} did not get through {topic}")


def _event(data: Payload, name: str, subject: str) -> Event:
    return make_event(
        data,
        id=derive_id("bench", name),
        source="/bench",
        subject=subject,
        time=datetime.now(UTC),
        cluster="c",
    )


def fleet(count: int, tag: str) -> Iterator[Event]:
    """99 of 100 are heartbeats and steps; the hundredth is a fault of record class."""
    for number in range(count):
        node = NodeRef(uid=f"n{number % 500}", name=f"n{number % 500}")
        where = Placement(run=f"r{number % 50}")
        if number % 100 == 0:
            fault = ChipFault(
                node=node,
                placement=where,
                chip=ChipRef(id="c0"),
                namespace="ascend",
                code="80E01809",
                state=FaultState.ONCE,
            )
            yield _event(fault, f"{tag}{number}", run_subject(where.run))
        elif number % 3:
            beat = Heartbeat(node=node, boot_id="b", started_at=datetime.now(UTC))
            yield _event(beat, f"{tag}{number}", node_subject(node.uid))
        else:
            yield _event(Progress(placement=where, step=number), f"{tag}{number}", run_subject(where.run))


def measure(broker: KafkaBroker) -> Iterator[Row]:
    """Bare agent, router and stage over the same backlog; then the stage's latency at a steady rate."""
    bench = Bench(broker, "bench.")
    bench.release()
    signals, inbox = bench.name(topics.SIGNALS), bench.name(topics.INBOX)
    admin = bench.clients.admin()  # kept: a future of an admin client that is gone never gets its answer
    admin.create_topics([NewTopic("bench.bare", PARTITIONS, 1)])["bench.bare"].result(20)
    bench.send(signals, fleet(BACKLOG, "s"))
    bare_env = {"BARE_GROUP": "bench.bare", "BARE_FROM": signals, "BARE_TO": "bench.bare"}
    bare = bench.backlog_rate(
        bench.start(["benchmarks.bare_agent", "worker", "--without-web"], bare_env),
        "bench.bare",
        signals,
        BACKLOG,
    )
    said = f"bare agent {bare:,.0f}/s"
    router = bench.backlog_rate(
        bench.start(["relight.cli", "router"]), bench.settings.identity("router"), signals, BACKLOG
    )
    yield Row("streams", "router, backlog", router, "events/s", said, router / bare, "0.8 of it")
    waiting = sum(bench.ends(inbox))
    stage = bench.backlog_rate(
        bench.start(["relight.cli", "recovery"]), bench.settings.identity("recovery"), inbox, waiting
    )
    yield Row(
        "streams", "recovery stage, fleet mix, backlog", stage, "events/s", said, stage / bare, "2 times it"
    )
    yield from latency(bench, inbox)


def _until_handled(bench: Bench, inbox: str) -> None:
    deadline = time.monotonic() + 60
    while bench.handled(bench.settings.identity("recovery"), inbox) < sum(bench.ends(inbox)):
        if time.monotonic() > deadline:
            raise TimeoutError("the recovery stage did not come up")
        time.sleep(0.1)


def latency(bench: Bench, inbox: str) -> Iterator[Row]:
    """Append in the inbox to append of the decision, at a steady rate: what came between is the stage."""
    process = bench.start(["relight.cli", "recovery"])
    # The worker before was killed: until its session ends the group waits for it, which is no part of the latency.
    bench.send(inbox, fleet(1, "w"))
    _until_handled(bench, inbox)
    producer = bench.clients.producer()
    began = time.monotonic()
    for number in range(RATE * SECONDS):
        fault = ChipFault(
            node=NodeRef(uid=f"n{number % 500}", name="n"),
            chip=ChipRef(id=f"x{number}"),
            namespace="ascend",
            code="80E01809",
            state=FaultState.ONCE,
        )
        event = _event(fault, f"l{number}", node_subject(f"n{number % 500}"))
        producer.produce(inbox, encode(event), mailbox_key("c", event.subject))
        producer.poll(0)
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
    producer.flush(30)
    time.sleep(2)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    asked = {event.id: at for event, at in _read(bench, inbox) if isinstance(event.data, ChipFault)}
    waits = sorted(
        at - asked[event.data.trigger]
        for event, at in _read(bench, bench.name(topics.DECISIONS))
        if isinstance(event.data, Decision)
        and event.data.trigger in asked
        and str(event.data.chip).startswith("x")
    )
    what = f"append to decision at {RATE}/s"
    yield Row(
        "streams",
        f"{what}, P50",
        statistics.median(waits),
        "ms",
        f"{len(waits):,} decisions",
        None,
        "16 ms (spike)",
    )
    yield Row("streams", f"{what}, P99", waits[int(len(waits) * 0.99)], "ms", f"{len(waits):,} decisions")


def _read(bench: Bench, topic: str) -> Iterator[tuple[Event, int]]:

    for message in tail(bench.clients, topic, from_start=True, lasting=timedelta(seconds=2)):
        yield decode(message.value() or b""), message.timestamp()[1]


def rows() -> list[Row]:
    """Measured rows, for `python -m benchmarks`."""
    kafka_jars.fetch()
    with tempfile.TemporaryDirectory() as folder, KafkaBroker(Path(folder)) as broker:
        return list(measure(broker))
