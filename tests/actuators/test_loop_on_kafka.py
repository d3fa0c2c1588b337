"""The actuators as a process on a real broker and a real API server, killed where it hurts: one effect, one accepted outcome."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition

from actuators.settings import ActuatorSettings
from runtime.kafka import KafkaClients
from runtime.kubernetes import Cluster, Object
from runtime.settings import KafkaSettings, TopicSettings
from runtime.topics import TopicAdministration
from sandbox import tied_process
from sandbox.control_plane import ControlPlane
from sandbox.kafka_server import KafkaBroker
from schemas.cluster import DESIRED, Desired
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event, decode, encode, make_event
from schemas.ids import mailbox_key
from tests.actuators.real_job import make_job, pods_of, wait_until
from tests.real.kafka import NewKafka
from tests.real.kubernetes import real_plane_only, stand_in_at_length

PARTITIONS = 3
PATIENCE = 45.0


class Line:
    """A broker with relight's topics, an actuator process that is killed, and what came out."""

    def __init__(self, folder: Path, broker: KafkaBroker, plane: ControlPlane) -> None:
        self.folder = folder
        self.plane = plane
        self.prefix = f"act-{uuid.uuid4().hex[:8]}."
        self.settings = ActuatorSettings(
            kafka=KafkaSettings(bootstrap=broker.bootstrap, replication_factor=1, min_insync_replicas=1),
            topics=TopicSettings(prefix=self.prefix, partitions=PARTITIONS),
        )
        self.clients = KafkaClients(self.settings.kafka, "test")
        self.producer = self.clients.producer()
        self.more: dict[str, str] = {}
        TopicAdministration(self.settings, self.clients).create()
        wait_until(self._has_leaders)

    def _has_leaders(self) -> bool:
        """A broker knows a topic before it leads it."""
        try:
            self.outcomes()
        except KafkaException:
            return False
        return True

    @property
    def log(self) -> str:
        return (self.folder / "actuators.log").read_text()[-4000:]

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[bytes]]:
        env = {
            **os.environ,
            "RELIGHT_KAFKA__BOOTSTRAP": self.settings.kafka.bootstrap,
            "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
            "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
            "RELIGHT_TOPICS__PREFIX": self.prefix,
            "RELIGHT_TOPICS__PARTITIONS": str(PARTITIONS),
            "RELIGHT_CONSUMER__SESSION_TIMEOUT": "3s",
            "RELIGHT_CONSUMER__HEARTBEAT": "500ms",
            "RELIGHT_KUBERNETES__KUBECONFIG": str(self.plane.kubeconfig),
            **self.more,
        }
        with (self.folder / "actuators.log").open("ab") as log:
            process = tied_process.start(
                [sys.executable, "-m", "tests.actuators.killed_process", str(self.folder)],
                env=env,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def send(self, command: Command) -> Event:
        event = make_event(
            command,
            id=f"{command.command}-{command.action}-{command.look}",
            source="/clusters/test/recovery/test",
            subject=command.subject,
            time=datetime.now(UTC),
            cluster="test",
        )
        self.producer.produce(
            self.settings.topic("commands.v1"), value=encode(event), key=mailbox_key("test", command.subject)
        )
        assert self.producer.flush(10) == 0
        return event

    def outcomes(self) -> list[Event]:
        """All messages of the inbox, partition by partition."""
        consumer = self.clients.reader()
        name = self.settings.topic("inbox.v1")
        found: list[Event] = []
        try:
            places = [TopicPartition(name, partition, 0) for partition in range(PARTITIONS)]
            # All ends first: behind a fetch of an empty partition a question waits that fetch out.
            ends = [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
            for place, end in zip(places, ends, strict=True):
                if not end:
                    continue
                consumer.assign([place])
                for _ in range(end):
                    message = consumer.poll(10)
                    assert message is not None
                    value = message.value()
                    assert value is not None
                    found.append(decode(value))
        finally:
            consumer.close()
        return found

    def await_outcomes(self, count: int) -> list[Event]:
        ends = time.monotonic() + PATIENCE
        while len(found := self.outcomes()) < count:
            assert time.monotonic() < ends, self.log
            time.sleep(0.2)
        return found


@pytest.fixture
def line(tmp_path: Path, kafka: KafkaBroker, cluster: ControlPlane) -> Line:
    return Line(tmp_path, kafka, cluster)


def stop(job: Object, **given: Any) -> Command:
    now = datetime.now(UTC)
    metadata = job["metadata"]
    values: dict[str, Any] = {
        "command": "command-1",
        "incident": "incident-1",
        "attempt": 1,
        "step": StepName.STOP_PROCESSES,
        "index": 0,
        "subject": f"run/{metadata['uid']}",
        "epoch": 1,
        "deadline": now + timedelta(seconds=60),
        "not_after": now + timedelta(minutes=5),
        "reason": "a test",
        "rulebook": "hash",
        "trigger": "event-1",
        "arguments": {
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "workload": "Job",
            "until": (now + timedelta(minutes=5)).isoformat(),
            "otherwise": "rerun",
            "grace_seconds": 30,
        },
    }
    return Command(**{**values, **given})


def data_of(event: Event) -> Outcome:
    assert isinstance(event.data, Outcome)
    return event.data


def versions(api: Cluster, job: Object) -> dict[str, str]:
    return {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in pods_of(api, job)}


def make_settled_job(api: Cluster, namespace: str, pods: int) -> Object:
    """A job of whose pods the scheduler has said that they fit nowhere: that is a write as well, and the last but ours."""
    job = make_job(api, namespace, pods)
    wait_until(lambda: all(pod["status"].get("conditions") for pod in pods_of(api, job)))
    return job


def are_told(api: Cluster, job: Object) -> bool:
    return all(DESIRED in (pod["metadata"].get("annotations") or {}) for pod in pods_of(api, job))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_killed_between_effect_and_outcome_there_is_one_effect_and_one_outcome(
    line: Line, api: Cluster, namespace: str
) -> None:
    job = make_settled_job(api, namespace, 3)
    (line.folder / "kill").touch()
    line.send(stop(job))
    with line.process() as process:
        assert process.wait(PATIENCE) == -signal.SIGKILL, line.log
    assert are_told(api, job), "the effect was there"
    effect = versions(api, job)
    assert line.outcomes() == [], "and nobody was told"

    with line.process():
        line.await_outcomes(1)
        line.send(stop(job, action="look", look=1))
        events = line.await_outcomes(2)

    assert versions(api, job) == effect, "one effect, counted at the target"
    assert [(data_of(event).result, data_of(event).told) for event in events] == [(OutcomeResult.DONE, 3)] * 2
    assert len({event.origin for event in events}) == 2


@pytest.mark.slow
@pytest.mark.timeout(120)
@stand_in_at_length("it looks at the broker")
def test_killed_between_outcome_and_commit_the_outcome_comes_twice_with_one_origin(
    line: Line, api: Cluster, namespace: str
) -> None:
    line.more = {"RELIGHT_CONSUMER__COMMIT_INTERVAL": "1h"}
    job = make_settled_job(api, namespace, 2)
    with line.process() as process:
        line.send(stop(job))
        line.await_outcomes(1)
        effect = versions(api, job)
        process.kill()
    with line.process():
        events = line.await_outcomes(2)

    assert versions(api, job) == effect
    assert len({(event.id, event.origin) for event in events}) == 1, "a mailbox takes it once"
    assert {data_of(event).told for event in events} == {2}


@pytest.mark.slow
@pytest.mark.timeout(120)
@stand_in_at_length("it looks at the broker")
def test_it_ends_in_good_order_commits_what_is_confirmed_and_passes_over_what_is_no_command(
    line: Line, api: Cluster, namespace: str
) -> None:
    jobs = [make_job(api, namespace, 1, name=f"train-{number}") for number in range(4)]
    line.producer.produce(line.settings.topic("commands.v1"), value=b"\x00 no event", key=b"x")
    with line.process() as process:
        for attempt in (1, 2, 3):
            for job in jobs:
                line.send(stop(job, attempt=attempt, command=f"command-{attempt}"))
        events = line.await_outcomes(12)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, line.log

    by_subject = {
        subject: [data_of(event).attempt for event in events if event.subject == subject]
        for subject in {event.subject for event in events}
    }
    assert set(map(tuple, by_subject.values())) == {(1, 2, 3)}, "in order for each subject"
    group = line.clients.reader(line.settings.identity("actuators"))
    name = line.settings.topic("commands.v1")
    committed = group.committed([TopicPartition(name, number) for number in range(PARTITIONS)], timeout=10)
    ends = [group.get_watermark_offsets(place, timeout=10)[1] for place in committed]
    group.close()
    assert [place.offset for place in committed if place.offset >= 0] == [end for end in ends if end > 0]


@pytest.mark.slow
@pytest.mark.timeout(120)
@real_plane_only("no cluster is asked")
def test_a_silent_api_is_told_as_unreachable_within_ten_seconds(
    line: Line, api: Cluster, namespace: str, tmp_path: Path
) -> None:
    job = make_job(api, namespace, 1)
    away = tmp_path / "away.kubeconfig"
    away.write_text(line.plane.kubeconfig.read_text().replace(line.plane.url, "https://127.0.0.1:9"))
    line.more = {"RELIGHT_KUBERNETES__KUBECONFIG": str(away)}
    line.send(stop(job))
    with line.process():
        events = line.await_outcomes(1)

    assert data_of(events[0]).result is OutcomeResult.UNREACHABLE
    assert not are_told(api, job)


@pytest.mark.slow
@pytest.mark.timeout(180)
@stand_in_at_length("it looks at the broker")
def test_two_share_the_work_and_one_that_is_killed_loses_nothing(
    line: Line, api: Cluster, namespace: str
) -> None:
    jobs = [make_job(api, namespace, 1, name=f"train-{number}") for number in range(12)]
    with line.process() as first, line.process():
        for attempt in range(1, 6):
            for job in jobs:
                line.send(stop(job, attempt=attempt, command=f"command-{attempt}"))
            if attempt == 3:
                first.kill()
        ends = time.monotonic() + PATIENCE
        while len({event.origin for event in line.outcomes()}) < 60:
            assert time.monotonic() < ends, line.log
            time.sleep(0.2)

    accepted: dict[str, list[int]] = {}
    seen: set[str | None] = set()
    for event in line.outcomes():
        if event.origin not in seen:  # as a mailbox does
            seen.add(event.origin)
            accepted.setdefault(event.subject, []).append(data_of(event).attempt)
    assert set(map(tuple, accepted.values())) == {(1, 2, 3, 4, 5)}
    assert len(accepted) == 12
    for job in jobs:
        (pod,) = pods_of(api, job)
        assert Desired.from_text(pod["metadata"]["annotations"][DESIRED]).attempt == 5


@pytest.mark.slow
@pytest.mark.timeout(120)
@stand_in_at_length("it looks at the broker")
def test_it_ends_on_sigterm_without_a_broker_and_answers_scrapes_meanwhile(
    tmp_path: Path, new_kafka: NewKafka, cluster: ControlPlane, api: Cluster, namespace: str
) -> None:
    broker = new_kafka()
    line = Line(tmp_path, broker, cluster)
    line.more = {"RELIGHT_OBSERVE__PORT": "0", "RELIGHT_CONSUMER__STOP_GRACE": "2s"}
    job = make_job(api, namespace, 1)
    line.send(stop(job))
    with line.process() as process:
        line.await_outcomes(1)
        port = re.search(r'"port": (\d+), "event": "metrics', (tmp_path / "actuators.log").read_text())
        assert port, line.log
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics") as answer:
            assert (
                b'relight_actuators_outcomes_total{result="done",step="stop_processes"} 1.0' in answer.read()
            )
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/healthz") as answer:
            assert answer.read() == b"ok\n"
        broker.stop()
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, line.log
