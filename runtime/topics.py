"""Topic administration: make the catalogue's topics, compare them with the broker's, prove the partitioner.

Guarantees: `create` never alters or deletes an existing topic and may be repeated; `differences` names each setting that is not as the catalogue
wants it, and what would be right. A worker that starts on other partition counts would keep one key's state in two places; on another
cleanup policy it would lose idle subjects after a week; on CreateTime its deadlines would run on the producers' clocks.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from aiokafka.partitioner import murmur2
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # its documented place
from confluent_kafka.cimpl import NewTopic

from runtime.errors import BrokerAway, BrokerError, BrokerRefused
from runtime.kafka import KafkaClients, explain
from runtime.settings import Settings
from schemas.errors import CatalogueError
from schemas.topics import EXTERNAL_SIGNALS, INBOX, SIGNALS, TOPICS, Cleanup, Topic

PROBES: Final = 256
"""Keys of the partitioner's proof; CRC32 would agree on all of them once in 4**256 on four partitions."""

READ_BY_FAUST: Final = (SIGNALS, EXTERNAL_SIGNALS, INBOX)
"""Stored uncompressed, whatever a producer sends: Faust's driver dies of a codec whose library it lacks, for ever."""

STAND_IN: Final = "mockCluster"
"""How the cluster id of librdkafka's in-process broker begins."""

_LOOK_EVERY: Final = 0.05
_POSITIVE: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as the catalogue wants it."""

    topic: str
    setting: str
    found: str
    wanted: str

    def __str__(self) -> str:
        """One line for the operator."""
        return f"{self.topic}: {self.setting} is {self.found}; right would be {self.wanted}"


def wanted_config(topic: Topic, settings: Settings) -> dict[str, str]:
    """Settings of a topic in Kafka's own names."""
    config = {
        "cleanup.policy": topic.cleanup.value,
        "message.timestamp.type": "LogAppendTime" if topic.log_append_time else "CreateTime",
        "min.insync.replicas": str(settings.kafka.min_insync_replicas),
    }
    if topic.retention is not None:
        config["retention.ms"] = str(topic.retention // timedelta(milliseconds=1))
    if topic in READ_BY_FAUST:
        config["compression.type"] = "uncompressed"
    if topic.max_message_bytes is not None:
        config["max.message.bytes"] = str(topic.max_message_bytes)
    return config


class TopicAdministration:
    """Topics of one pipeline on one broker."""

    def __init__(self, settings: Settings, clients: KafkaClients) -> None:
        self._settings = settings
        self._clients = clients
        self._admin = clients.admin()

    def create(self, *, extra: Mapping[str, Mapping[str, str]] | None = None) -> list[str]:
        """Make the topics that are missing and return their names; `extra` adds settings by catalogue name (tests)."""
        if self.is_stand_in():
            return self._ask_for_all()
        added = extra or {}
        wanted = [
            NewTopic(
                self._settings.topic(topic.name),
                num_partitions=self._settings.topics.partitions,
                replication_factor=self._settings.kafka.replication_factor,
                config={**wanted_config(topic, self._settings), **added.get(topic.name, {})},
            )
            for topic in TOPICS
        ]
        made: list[str] = []
        for name, future in self._admin.create_topics(wanted, request_timeout=self._patience).items():
            try:
                future.result(self._patience)
            except TimeoutError as error:
                raise BrokerAway(f"creating topic {name}: no answer within {self._patience:g} s") from error
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise explain(error, f"creating topic {name}") from error
            else:
                made.append(name)
        # Of others' as well: who asked twice, or beside another, is told that they exist before the broker lists them.
        self._wait_until_known(map(self._name, TOPICS))
        return made

    def is_stand_in(self) -> bool:
        """Whether the broker is librdkafka's in-process one, which keeps no settings of topics and makes none when told to."""
        try:
            cluster: str | None = self._admin.list_topics(timeout=self._patience).cluster_id
        except KafkaException as error:
            raise explain(error, "asking the broker what it is") from error
        return str(cluster).startswith(STAND_IN)

    def _ask_for_all(self) -> list[str]:
        """On the stand-in: a topic is there once somebody asked for it. Raises CatalogueError."""
        before = self._partitions()
        for topic in TOPICS:
            self._admin.list_topics(self._name(topic), timeout=self._patience)
        if wrong := self.sizes():
            raise CatalogueError("\n".join(map(str, wrong)))
        return [self._name(topic) for topic in TOPICS if self._name(topic) not in before]

    def _wait_until_known(self, names: Iterable[str]) -> None:
        """A broker answers before all of it has heard of a new topic."""
        missing, deadline = set(names), time.monotonic() + self._patience
        while missing and time.monotonic() < deadline:
            missing -= self._partitions().keys()
            time.sleep(_LOOK_EVERY if missing else 0)

    def sizes(self) -> list[Difference]:
        """Which topics are missing, or have another number of partitions than keys need. A broker of any kind can say."""
        try:
            partitions = self._partitions()
        except KafkaException as error:
            raise explain(error, "describing the topics") from error
        wanted = self._settings.topics.partitions
        found = []
        for name in map(self._name, TOPICS):
            if name not in partitions:
                found.append(_missing(name))
            elif partitions[name] != wanted:
                found.append(_of_other_size(name, partitions[name], wanted))
        return found

    def differences(self) -> list[Difference]:
        """What is not as the catalogue wants it; empty when all is well. Raises BrokerAway when nobody answers."""
        if self.is_stand_in():
            raise BrokerRefused(
                "describing the topics: the broker is librdkafka's in-process one, a stand-in that keeps no settings to compare; "
                "RELIGHT_TOPICS__CHECK_AT_START=false lets processes start on it"
            )
        try:
            partitions = self._partitions()
            configs = self._configs([name for name in map(self._name, TOPICS) if name in partitions])
        except TimeoutError as error:
            raise BrokerAway(f"describing the topics: no answer within {self._patience:g} s") from error
        except KafkaException as error:
            raise explain(error, "describing the topics") from error
        found: list[Difference] = []
        for topic in TOPICS:
            name = self._name(topic)
            if name not in partitions:
                found.append(_missing(name))
                continue
            found += self._compare(topic, partitions[name], configs[name])
        return found

    def require(self) -> None:
        """Raise CatalogueError when a topic is not as the catalogue wants it."""
        found = self.differences()
        if found:
            raise CatalogueError("\n".join(map(str, found)))

    def probe_partitioner(self) -> list[Difference]:
        """Send keys through the factory's producer to a topic made for it, and compare where they went with murmur2."""
        count = self._settings.topics.partitions
        name = f"{self._settings.topics.prefix}relight-probe-{uuid.uuid4().hex[:12]}"
        probe = NewTopic(
            name, num_partitions=count, replication_factor=self._settings.kafka.replication_factor
        )
        try:
            self._admin.create_topics([probe])[name].result(self._patience)
            try:
                went = self._send_probes(name)
            finally:
                self._admin.delete_topics([name])[name].result(self._patience)
        except KafkaException as error:
            raise explain(error, "probing the partitioner") from error
        wrong = [key for key, partition in went.items() if partition != (murmur2(key) & _POSITIVE) % count]
        if not wrong:
            return []
        return [
            Difference(name, "partitioner", f"another for {len(wrong)} of {len(went)} keys", "murmur2_random")
        ]

    def _send_probes(self, name: str) -> dict[bytes, int]:
        producer = self._clients.bounded_producer(self._settings.topics.patience)
        went: dict[bytes, int] = {}
        failed: list[BrokerError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            key, partition = message.key(), message.partition()
            if error is not None or key is None or partition is None:
                failed.append(BrokerAway(f"a probe did not arrive: {error}"))
                return
            went[key] = partition

        for number in range(PROBES):
            producer.produce(name, key=b"probe-%d" % number, value=b"", on_delivery=delivered)
        producer.flush(self._patience)
        if failed or len(went) < PROBES:
            raise (
                failed[0] if failed else BrokerAway(f"{PROBES - len(went)} of {PROBES} probes did not arrive")
            )
        return went

    def _compare(self, topic: Topic, partitions: int, config: Mapping[str, str]) -> Iterable[Difference]:
        name = self._name(topic)
        wanted_partitions = self._settings.topics.partitions
        if partitions != wanted_partitions:
            yield _of_other_size(name, partitions, wanted_partitions)
        for setting, wanted in wanted_config(topic, self._settings).items():
            found = config.get(setting, "unknown")
            if not _is_enough(topic, setting, found, wanted):
                yield Difference(name, setting, found, wanted)

    def _partitions(self) -> dict[str, int]:
        topics = self._admin.list_topics(timeout=self._patience).topics
        return {
            name: len(described.partitions) for name, described in topics.items() if described.error is None
        }

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        if not resources:
            return {}
        described = self._admin.describe_configs(resources, request_timeout=self._patience)
        return {
            resource.name: {key: str(entry.value) for key, entry in future.result(self._patience).items()}
            for resource, future in described.items()
        }

    def _name(self, topic: Topic) -> str:
        return self._settings.topic(topic.name)

    @property
    def _patience(self) -> float:
        return self._settings.topics.patience.total_seconds()


def _missing(name: str) -> Difference:
    return Difference(name, "the topic", "missing", "there (`relight topics create`)")


def _of_other_size(name: str, partitions: int, wanted: int) -> Difference:
    return Difference(name, "number of partitions", str(partitions), str(wanted))


def _is_enough(topic: Topic, setting: str, found: str, wanted: str) -> bool:
    """Equal, or more where more does no harm: longer retention, larger messages, more copies."""
    if setting == "message.timestamp.type" and not topic.log_append_time:
        return True
    if setting not in {"retention.ms", "max.message.bytes", "min.insync.replicas"}:
        return found == wanted
    try:
        number = int(found)
    except ValueError:
        return False
    if setting == "retention.ms" and number < 0:  # for ever
        return topic.cleanup is Cleanup.DELETE
    return number >= int(wanted)
