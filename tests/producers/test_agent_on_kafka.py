"""The agent as a process on a real broker, killed again and again: every fault line arrives, once by origin, in order."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sandbox import tied_process
from sandbox.kafka_server import KafkaBroker
from schemas.envelope import Event, TimeQuality, decode
from schemas.signals import ChipFault, SignalGap
from tests.real.kafka import NewKafka

PARTITIONS = 3
PATIENCE = 40.0


class World:
    """A broker, a kernel log, and an agent that is killed."""

    def __init__(self, folder: Path, broker: KafkaBroker, prefix: str) -> None:
        self.folder = folder
        self.broker = broker
        self.bootstrap = broker.bootstrap
        self.prefix = prefix
        self.log = folder / "kern.log"
        self.log.touch()
        self.written = 0
        self.more: dict[str, str] = {}
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topic = NewTopic(
            f"{prefix}signals.v1",
            num_partitions=PARTITIONS,
            replication_factor=1,
            config={"message.timestamp.type": "LogAppendTime"},
        )
        admin.create_topics([topic])[f"{prefix}signals.v1"].result(20)

    def write_faults(self, count: int) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            for _ in range(count):
                at = datetime.now(UTC).isoformat()
                line = f"{at} node-1 kernel: NVRM: Xid (PCI:0000:05:00): 48, pid={self.written}, name=python"
                file.write(f"{line}\n{at} node-1 kernel: eth0: link becomes ready\n")
                self.written += 1

    @contextmanager
    def agent(self) -> Iterator[subprocess.Popen[bytes]]:
        env = {
            **os.environ,
            "RELIGHT_CLUSTER": "test",
            "RELIGHT_NODE__NAME": "node-1",
            "RELIGHT_NODE__UID": "uid-1",
            "RELIGHT_KAFKA__BOOTSTRAP": self.bootstrap,
            "RELIGHT_TOPICS__PREFIX": self.prefix,
            "RELIGHT_SPOOL__FOLDER": str(self.folder / "state"),
            "RELIGHT_SOURCES__KERNEL_LOG": "false",
            "RELIGHT_SOURCES__KERNEL_LOG_FILES": json.dumps([str(self.log)]),
            "RELIGHT_SOURCES__LOOK_EVERY": "20ms",
            "RELIGHT_SOURCES__AGAIN_AFTER": "200ms",
            "RELIGHT_SOURCES__HEARTBEAT_EVERY": "500ms",
            "RELIGHT_PUBLISHER__STOP_GRACE": "3s",
            **self.more,
        }
        with (self.folder / "agent.log").open("ab") as log:
            process = tied_process.start(
                [sys.executable, "-m", "relight.cli", "node-agent"], env=env, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def spooled(self) -> int:
        found = 0
        for path in (self.folder / "state").glob("*.segment"):
            with suppress(FileNotFoundError):  # dropped since
                found += path.stat().st_size
        return found

    def events(self) -> list[tuple[int, Event]]:
        """Everything in the topic with its partition, in order within each."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": uuid.uuid4().hex})
        name = f"{self.prefix}signals.v1"
        found: list[tuple[int, Event]] = []
        for partition in range(PARTITIONS):
            high = self._end_of(consumer, TopicPartition(name, partition))
            consumer.assign([TopicPartition(name, partition, 0)])
            for _ in range(high):
                message = consumer.poll(10)
                assert message is not None
                assert message.error() is None
                value = message.value()
                assert value is not None
                found.append((partition, decode(value)))
        consumer.close()
        return found

    def _end_of(self, consumer: Consumer, partition: TopicPartition) -> int:
        """A broker that was just started leads its partitions a moment later."""
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                return int(consumer.get_watermark_offsets(partition, timeout=10)[1])
            except KafkaException:
                assert time.monotonic() < ends
                time.sleep(0.1)

    def count(self) -> int:
        """How many events are in the topic."""
        return len(self.events())

    def pids(self) -> set[int]:
        """Numbers of the fault lines that arrived."""
        return {pid_of(event.data) for _, event in self.events() if isinstance(event.data, ChipFault)}

    def starts(self) -> int:
        """How often an agent said that it runs."""
        return (self.folder / "agent.log").read_text().count("node agent runs")

    def let_all_arrive(self) -> None:
        ends = time.monotonic() + PATIENCE
        while len(self.pids()) < self.written:
            assert time.monotonic() < ends, (self.folder / "agent.log").read_text()[-3000:]
            time.sleep(0.2)


def pid_of(data: ChipFault) -> int:
    assert data.detail is not None
    return int(data.detail.partition("pid=")[2].partition(",")[0])


def wait_until(what: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < ends, "it did not come to that"
        time.sleep(0.02)


def check_story(world: World) -> None:
    """Every line once by origin, one content an origin, first arrivals in the order of the log, one partition."""
    events = world.events()
    faults = [(partition, event) for partition, event in events if isinstance(event.data, ChipFault)]
    content: dict[str, Event] = {}
    first_seen: list[int] = []
    for _, event in faults:
        assert event.origin is not None
        if event.origin not in content:
            assert isinstance(event.data, ChipFault)
            first_seen.append(pid_of(event.data))
        assert content.setdefault(event.origin, event) == event, "one origin, one content"
    assert first_seen == list(range(world.written)), "nothing lost, nothing out of order"
    assert len(content) == world.written
    assert len({event.id for _, event in faults}) == world.written
    assert len({partition for partition, _ in events}) == 1, "one key, one partition"
    offsets = [event.origin_parts.offset for _, event in events if event.origin_parts is not None]
    assert len(offsets) == len(events)
    seen: set[int] = set()
    for offset in offsets:
        assert offset in seen or offset > max(seen, default=-1), "a mailbox would drop it as a repeat"
        seen.add(offset)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_killed_while_the_broker_is_away_and_while_it_sends_every_line_arrives(
    tmp_path: Path, new_kafka: NewKafka
) -> None:
    broker = new_kafka()
    world = World(tmp_path, broker, "kills.")
    world.write_faults(200)
    with world.agent():
        wait_until(lambda: len(world.pids()) > 0)  # killed in the middle of sending
    broker.stop()
    for _ in range(2):  # killed without a broker
        before = world.spooled()
        world.write_faults(150)
        with world.agent():
            wait_until(partial(_is_more, world.spooled, before + 1000))
    broker.start()
    for _ in range(3):  # killed while it catches up
        world.write_faults(300)
        before_count = world.count()
        with world.agent():
            wait_until(partial(_is_more, world.count, before_count))
    starts = world.starts()
    with world.agent() as process:
        wait_until(lambda: world.starts() > starts)  # before that it does not hear SIGTERM
        world.let_all_arrive()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0

    check_story(world)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_with_the_broker_away_a_small_spool_drops_metrics_first_and_says_so(
    tmp_path: Path, new_kafka: NewKafka
) -> None:
    broker = new_kafka()
    world = World(tmp_path, broker, "small.")
    world.more = {
        "RELIGHT_SPOOL__MAX_BYTES": "65536",
        "RELIGHT_SPOOL__SEGMENT_BYTES": "4096",
        "RELIGHT_SOURCES__HEARTBEAT_EVERY": "2ms",
    }
    broker.stop()
    with world.agent() as process:
        wait_until(lambda: world.spooled() > 60_000)
        world.write_faults(40)
        wait_until(lambda: _kept(world) >= 40)
        broker.start()
        world.let_all_arrive()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0

    check_story(world)
    gaps = [event.data for _, event in world.events() if isinstance(event.data, SignalGap)]
    assert gaps
    assert {gap.lost_class for gap in gaps} == {"metric"}
    assert sum(gap.lost or 0 for gap in gaps) > 0


def _is_more(what: Callable[[], int], than: int) -> bool:
    return what() > than


def _kept(world: World) -> int:
    return sum(
        path.read_bytes().count(b"signal.chip_fault")
        for path in (world.folder / "state").glob("kept-*.segment")
    )


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_the_clock_is_measured_and_stamped(tmp_path: Path, kafka: KafkaBroker) -> None:
    world = World(tmp_path, kafka, f"clock-{uuid.uuid4().hex[:8]}.")
    with world.agent() as process:
        wait_until(lambda: any(event.timequality is TimeQuality.SYNCED for _, event in world.events()))
        world.write_faults(3)
        world.let_all_arrive()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0

    faults = [event for _, event in world.events() if isinstance(event.data, ChipFault)]
    assert all(event.timequality is TimeQuality.SYNCED for event in faults)
    offsets = [event.data.clock_offset_seconds for event in faults if isinstance(event.data, ChipFault)]
    assert all(offset is not None and abs(offset) < 1 for offset in offsets)
    check_story(world)
