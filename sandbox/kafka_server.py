"""One real Kafka broker (KRaft: controller and broker in one process) on loopback ports.

Guarantees: it is up when `start` returns (metadata names it as a live broker); data and port survive `stop`,
`kill` and `restart`; it never outlives the process that started it. Not safe to drive from several threads at
once.

Why the real one: an in-process broker neither fences producers nor hides aborted records, and fencing is what
the state log stands on.
"""

import base64
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sandbox import kafka_jars, ports
from sandbox.component import Component
from sandbox.errors import NotRunning, PartMissing, StartFailed

NODE_ID: Final = 1
FORMAT_SECONDS: Final = 120
FIRST_START_TRIES: Final = 3  # somebody else may take a port between our choice and the bind

# Small heap and the quick compiler only: up in 2 s and 280 MB resident (measured on two cores), fast enough
# for any test.
JVM_OPTIONS: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")

# One node: everything internal has one replica, and few partitions, since each is created before its first
# use returns.
SINGLE_NODE: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",  # tests shorten leases
    # A killed broker is let in again only when the lease of its former self is over: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",  # a misspelt topic is an error, not a new topic
}

# With these a compacted topic is cleaned seconds after it was written. The segment that is being written is
# never cleaned: one more record after `log.roll.ms` closes it (`segment.ms` of the topic, where the topic
# sets it).
EAGER_COMPACTION: Final[Mapping[str, str]] = {
    "log.cleaner.backoff.ms": "100",
    # Emptied before each cleaning, which takes 50 ms and more at the usual 128 MB; so it has room for 170,000 keys.
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.min.cleanable.ratio": "0.0",
    "log.cleaner.min.compaction.lag.ms": "0",
    "log.cleaner.delete.retention.ms": "100",
    "log.roll.ms": "500",
    "log.segment.bytes": "1048576",  # the least that Kafka 4 allows
}


class KafkaBroker(Component):
    """A broker with its own folder. ``with KafkaBroker(folder) as broker: ... broker.bootstrap``.

    Args:
        folder: where `data`, `server.properties` and `server.log` go; made when absent. The first start of this
            object empties `data`: an earlier broker is not taken up again.
        properties: what differs from `SINGLE_NODE`, by Kafka's own names.
        patience: how long `start` and `stop` wait before they give up (`start` raises, `stop` kills).
        jvm_options: more options of Java's own, for the broker; it uses no archive of classes then.
    """

    def __init__(
        self,
        folder: Path,
        *,
        properties: Mapping[str, str] | None = None,
        patience: timedelta = timedelta(seconds=45),
        jvm_options: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._properties_file = folder / "server.properties"
        self._overrides = dict(properties or {})
        self._port = 0
        self._formatted = False
        super().__init__(
            "Kafka",
            [*_java(*(jvm_options or _archived())), "kafka.Kafka", str(self._properties_file)],
            log_file=folder / "server.log",
            is_ready=self._serves,
            patience=patience,
        )

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients; known after the first `start` and the same ever after."""
        if not self._formatted:
            raise NotRunning("the broker has no port before its first start")
        return f"{ports.LOOPBACK}:{self._port}"

    def start(self) -> Self:
        """Start and wait until it serves. The first start makes a fresh, empty broker; does nothing when it runs.

        Raises:
            PartMissing: no Java, or Kafka's jars were not fetched.
            StartFailed: it ended or did not serve in time; the message holds the end of its log.
        """
        if self.is_running:
            return self
        missing = kafka_jars.missing()
        if missing is not None:
            raise PartMissing(missing)
        if self._formatted:
            return super().start()
        self._start_fresh()
        return self

    def restart(self) -> None:
        """Stop in good order, as for an upgrade, and start again on the same data and port."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_fresh(self) -> None:
        for last in (False,) * (FIRST_START_TRIES - 1) + (True,):
            self._format()
            try:
                super().start()
            except StartFailed:
                if last or ports.is_free(self._port):  # not for want of the port
                    raise
            else:
                self._formatted = True
                return

    def _format(self) -> None:
        data = self._folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._port, controller_port = ports.free_ports(2)
        self._write_properties(data, controller_port)
        done = subprocess.run(
            [*_java(*_archived()), "kafka.tools.StorageTool", "format",
             "--config", str(self._properties_file), "--cluster-id", _cluster_id()],
            capture_output=True, text=True, timeout=FORMAT_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise StartFailed(f"the folder {self._folder} was not formatted:\n{done.stdout}{done.stderr}")

    def _write_properties(self, data: Path, controller_port: int) -> None:
        listener = f"PLAINTEXT://{ports.LOOPBACK}:{self._port}"
        properties = {
            **SINGLE_NODE,
            "listeners": f"{listener},CONTROLLER://{ports.LOOPBACK}:{controller_port}",
            "advertised.listeners": listener,
            "controller.quorum.voters": f"{NODE_ID}@{ports.LOOPBACK}:{controller_port}",
            "log.dirs": str(data),
            **self._overrides,
        }
        lines = [f"{name}={value}" for name, value in properties.items()]
        self._properties_file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _serves(self) -> bool:
        return ports.is_listened_on(self._port) and self._names_itself()

    def _names_itself(self) -> bool:
        """A broker that listens may still be fenced by its controller; metadata lists live ones only."""
        admin = AdminClient({"bootstrap.servers": f"{ports.LOOPBACK}:{self._port}", "log_level": 0})
        try:
            return NODE_ID in admin.list_topics(timeout=2).brokers
        except KafkaException:
            return False


def _archived() -> list[str]:
    """Where the classes are archived, if they are: see `sandbox.kafka_classes`."""
    archive = kafka_jars.class_archive()
    return [f"-XX:SharedArchiveFile={archive}"] if archive is not None and archive.is_file() else []


def _java(*options: str) -> list[str]:
    return [
        "java", *JVM_OPTIONS, *options,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-cp", f"{kafka_jars.jars_folder()}/*",
    ]  # fmt: skip


def _cluster_id() -> str:
    """Sixteen random bytes in the form Kafka wants; making it here saves a start of Java."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not made.startswith("-"):  # the formatter would take it for an option
            return made
