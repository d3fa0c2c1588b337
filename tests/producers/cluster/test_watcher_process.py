"""`relight watcher` as a process on a real broker and a real control plane: killed, replaced, two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from producers.cluster.outbox import watcher_key
from producers.cluster.told_before import read_told
from runtime import paths
from runtime.kafka import KafkaClients
from runtime.kubernetes import Cluster
from runtime.settings import KafkaSettings, Settings, TopicSettings
from runtime.topics import TopicAdministration
from sandbox import tied_process
from sandbox.control_plane import ControlPlane
from sandbox.kafka_server import KafkaBroker
from schemas.envelope import Event, decode
from schemas.facts import FACTS, IssueState, PodBound, PodEnded, RunEnded, RunSeen
from schemas.topics import SIGNALS
from streams.route import mailboxes
from tests.producers.cluster.test_watcher_on_kubernetes import CHIPS, create, job_of
from tests.real.kubernetes import NewKubelet, real_plane_only, stand_in_at_length
from tests.recovery.fact_contract import keeps_contract

PARTITIONS = 5
PATIENCE = 40.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


class World:
    """A broker, a cluster, and watchers that are killed."""

    def __init__(self, folder: Path, kafka: KafkaBroker, plane: ControlPlane, namespace: str) -> None:
        self.folder = folder
        self.kafka = kafka
        self.plane = plane
        self.namespace = namespace
        self.prefix = f"w{uuid.uuid4().hex[:8]}."
        self.topic = f"{self.prefix}{SIGNALS.name}"
        brokers = KafkaSettings(bootstrap=kafka.bootstrap, replication_factor=1, min_insync_replicas=1)
        settings = Settings(kafka=brokers, topics=TopicSettings(prefix=self.prefix, partitions=PARTITIONS))
        self.clients = KafkaClients(settings.kafka, "test")
        TopicAdministration(settings, self.clients).create()
        self.until(self._can_be_read)

    def _can_be_read(self) -> bool:
        """A topic just made has no leader for a moment."""
        try:
            return self.events() == []
        except KafkaException:
            return False

    @contextmanager
    def watcher(self, name: str, *, lasts: str = "3s") -> Iterator[subprocess.Popen[bytes]]:
        """`lasts`: its Lease."""
        env = {
            **os.environ,
            "RELIGHT_CLUSTER": "test",
            "RELIGHT_KAFKA__BOOTSTRAP": self.kafka.bootstrap,
            "RELIGHT_TOPICS__PREFIX": self.prefix,
            "RELIGHT_KUBERNETES__KUBECONFIG": str(self.plane.kubeconfig),
            "RELIGHT_LEASE__NAMESPACE": self.namespace,
            "RELIGHT_LEASE__HOLDER": name,
            "RELIGHT_LEASE__DURATION": lasts,
            "RELIGHT_LEASE__RENEW": "500ms",
            "RELIGHT_WATCH__REPEAT": "2s",
            "RELIGHT_WATCH__MEMORY": "1h",
            "RELIGHT_PUBLISHER__STOP_GRACE": "3s",
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            process = tied_process.start(
                [sys.executable, "-m", "relight.cli", "watcher"], env=env, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def events(self) -> list[Event]:
        """Everything in the topic, in order: all of it lies in one partition."""
        consumer = self.clients.reader()
        places = [TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)]
        # All ends first: a broker answers a connection in turn, and behind a fetch of an empty partition a question waits that fetch out.
        ends = [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
        found: list[list[Event]] = []
        for place, end in zip(places, ends, strict=True):
            if not end:
                continue
            consumer.assign([place])
            told: list[Event] = []
            for _ in range(end):
                message = consumer.poll(10)
                assert message is not None
                assert message.error() is None
                assert message.key() == watcher_key("test")
                told.append(decode(message.value() or b""))
            found.append(told)
        consumer.close()
        assert len(found) <= 1, "facts lie in several partitions"
        return found[0] if found else []

    def until(self, look: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not look():
            assert time.monotonic() < ends, {
                file.name: file.read_text()[-2000:] for file in self.folder.glob("*.log")
            }
            time.sleep(0.2)

    def has(self, kind: type, about: str, **fields: object) -> bool:
        return any(
            isinstance(event.data, kind)
            and about in event.data.model_dump_json()
            and all(getattr(event.data, name) == value for name, value in fields.items())
            for event in self.events()
        )

    def keeps_contract(self) -> None:
        events = self.events()
        numbers = [event.origin_parts.offset for event in events if event.origin_parts]
        assert len(numbers) == len(events)
        assert numbers == sorted(set(numbers)), (
            "a number came twice or went back: a mailbox would drop what is new"
        )
        facts = [
            (subject, event.data)
            for event in events
            if isinstance(event.data, FACTS)
            for subject in mailboxes(event.data)
        ]
        keeps_contract(facts)


@pytest.fixture
def world(tmp_path: Path, kafka: KafkaBroker, cluster: ControlPlane, namespace: str) -> World:
    return World(tmp_path, kafka, cluster, namespace)


@stand_in_at_length("processes that start and wait")
def test_a_watcher_that_is_killed_is_followed_by_one_that_knows_what_was_told(
    world: World, api: Cluster, namespace: str, new_kubelet: NewKubelet
) -> None:
    node = new_kubelet(devices={CHIPS: 24})
    with world.watcher("one") as one:
        gone, stays, later = (
            create(api, namespace, job_of(name, node, size=1)) for name in ("gone", "stays", "later")
        )
        for run in (gone, stays, later):
            world.until(lambda run=run: world.has(IssueState, run, state="complete"))  # type: ignore[misc]
        one.send_signal(signal.SIGKILL)
        one.wait()
    api.delete(paths.jobs(namespace, "gone"))
    world.until(
        lambda: (
            not [p for p in api.list(paths.pods(namespace)).items if p["metadata"]["name"].startswith("gone")]
        )
    )
    with world.watcher("two"):
        world.until(lambda: world.has(RunEnded, gone, how="deleted"))
        world.until(lambda: world.has(PodEnded, gone, how="lost"))  # pods are listed after jobs
        world.until(
            lambda: (
                sum(isinstance(e.data, PodBound) and e.data.placement.run == stays for e in world.events())
                > 1
            )
        )
        api.delete(paths.jobs(namespace, "later"))
        world.until(lambda: world.has(RunEnded, later))
        assert not world.has(RunEnded, stays)
        world.until(lambda: world.has(PodEnded, later))
    world.keeps_contract()
    before = read_told(
        world.clients, world.topic, watcher_key("test"), datetime.now(UTC) - timedelta(minutes=10)
    )
    assert before.read == len(world.events())
    assert before.book.runs[stays].ended is None
    assert before.book.runs[gone].ended is not None
    nothing = read_told(
        world.clients, world.topic, watcher_key("test"), datetime.now(UTC) + timedelta(minutes=10)
    )
    assert (nothing.read, nothing.highest, nothing.book.runs) == (0, None, {})


def test_of_two_watchers_one_speaks_and_the_other_follows_at_once_when_it_is_stopped(
    world: World, api: Cluster, namespace: str
) -> None:
    lasts = f"{2 * PATIENCE:.0f}s"  # so long that nobody here sees one run out
    with world.watcher("one", lasts=lasts) as one:
        world.until(lambda: "everything was listed" in world.said("one"))
        with world.watcher("two", lasts=lasts) as two:
            world.until(lambda: "waits for the Lease" in world.said("two"))
            time.sleep(2)
            assert "cluster watcher runs" not in world.said("two")
            one.send_signal(signal.SIGTERM)
            assert one.wait(PATIENCE) == 0, world.said("one")
            run = create(api, namespace, job_of("train", size=1, suspend=True))
            world.until(lambda: world.has(RunSeen, run, suspended=True))
            two.send_signal(signal.SIGTERM)
            assert two.wait(PATIENCE) == 0, world.said("two")
    assert "Traceback" not in world.said("one") + world.said("two")
    world.keeps_contract()


@stand_in_at_length("processes that start and wait")
def test_a_watcher_that_slept_through_its_lease_ends_and_its_late_facts_have_lower_numbers(
    world: World, api: Cluster, namespace: str
) -> None:
    with world.watcher("one") as one:
        world.until(lambda: "everything was listed" in world.said("one"))
        one.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        highest = max(
            (event.origin_parts.offset for event in world.events() if event.origin_parts), default=0
        )
        with world.watcher("two"):
            world.until(lambda: "everything was listed" in world.said("two"))
            run = create(api, namespace, job_of("train", size=1, suspend=True))
            world.until(lambda: world.has(RunSeen, run))
            lines = [json.loads(line) for line in world.said("two").splitlines() if line.startswith("{")]
            first = next(line["first_number"] for line in lines if "first_number" in line)
            assert (
                highest + 1_000 < first
            )  # whatever the sleeper still sends is dropped where the successor was heard
            one.send_signal(signal.SIGCONT)
            assert one.wait(PATIENCE) != 0
            assert "another watcher holds the Lease" in world.said("one")
    assert "Traceback" not in world.said("one")


@real_plane_only("no cluster is asked")
def test_it_says_what_it_lacks(world: World) -> None:
    env = {
        **os.environ,
        "RELIGHT_KUBERNETES__KUBECONFIG": str(world.folder / "none"),
        "RELIGHT_CLUSTER": "test",
    }
    command = [sys.executable, "-m", "relight.cli", "watcher"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "RELIGHT_KUBERNETES__KUBECONFIG" in ended.stderr
    del env["RELIGHT_CLUSTER"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "RELIGHT_CLUSTER must be set" in ended.stderr
