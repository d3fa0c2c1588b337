"""Topics are made as the catalogue wants them, on a real broker, and each difference is found and named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from runtime.errors import BrokerAway
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings, Settings, TopicSettings
from runtime.topics import TopicAdministration
from sandbox import ports
from sandbox.kafka_server import KafkaBroker
from schemas.errors import CatalogueError
from schemas.topics import INBOX, STATE, TOPICS, Topic
from tests.torture.pipeline import wait_until


@pytest.fixture
def settings(kafka: KafkaBroker, topic_name: str) -> Settings:
    return Settings(
        kafka=KafkaSettings(bootstrap=kafka.bootstrap, replication_factor=1, min_insync_replicas=1),
        topics=TopicSettings(prefix=f"{topic_name[-8:]}.", partitions=3),
    )


@pytest.fixture
def administration(settings: Settings) -> Iterator[TopicAdministration]:
    made = TopicAdministration(settings, KafkaClients(settings.kafka, "test"))
    yield made
    made._admin.delete_topics([settings.topic(topic.name) for topic in TOPICS])


def test_what_was_created_is_as_the_catalogue_wants_it(administration: TopicAdministration) -> None:
    assert len(administration.create()) == len(TOPICS)

    assert administration.differences() == []
    administration.require()


def test_creating_again_changes_nothing(administration: TopicAdministration) -> None:
    administration.create()

    assert administration.create() == []


def test_topics_that_exist_already_are_waited_for_until_they_are_listed(
    administration: TopicAdministration, monkeypatch: pytest.MonkeyPatch
) -> None:
    administration.create()
    look, late = administration._partitions, [dict[str, int](), dict[str, int]()]
    monkeypatch.setattr(administration, "_partitions", lambda: late.pop() if late else look())

    assert administration.create() == []

    assert late == [], "it asked until they were there"


def test_every_missing_topic_is_named(administration: TopicAdministration, settings: Settings) -> None:
    found = administration.differences()

    assert {difference.topic for difference in found} == {settings.topic(topic.name) for topic in TOPICS}
    assert "relight topics create" in str(found[0])
    with pytest.raises(CatalogueError, match="missing"):
        administration.require()


@pytest.mark.parametrize(
    ("topic", "config", "partitions", "says"),
    [
        (INBOX, {"message.timestamp.type": "CreateTime"}, 3, "message.timestamp.type is CreateTime"),
        (INBOX, {"retention.ms": "1000"}, 3, "retention.ms is 1000"),
        (INBOX, {"max.message.bytes": "1000"}, 3, "max.message.bytes is 1000"),
        (INBOX, {"cleanup.policy": "compact"}, 3, "cleanup.policy is compact"),
        (INBOX, {"compression.type": "producer"}, 3, "compression.type is producer"),
        (INBOX, {}, 4, "number of partitions is 4"),
        (STATE, {"cleanup.policy": "delete"}, 3, "cleanup.policy is delete"),
        (STATE, {"cleanup.policy": "compact,delete"}, 3, "cleanup.policy is compact,delete"),
    ],
)
def test_each_difference_is_found(
    administration: TopicAdministration,
    settings: Settings,
    topic: Topic,
    config: dict[str, str],
    partitions: int,
    says: str,
) -> None:
    name = settings.topic(topic.name)
    wrong = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap})
    admin.create_topics([wrong])[name].result(20)
    administration.create()

    found = [str(difference) for difference in administration.differences()]
    assert any(says in line and line.startswith(name) for line in found), found


def test_more_than_the_catalogue_asks_for_is_no_difference(administration: TopicAdministration) -> None:
    administration.create(extra={INBOX.name: {"retention.ms": "-1", "max.message.bytes": "9000000"}})

    assert administration.differences() == []


def test_the_partitioner_is_proven_by_where_keys_go(
    administration: TopicAdministration, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert administration.probe_partitioner() == []

    monkeypatch.setattr("runtime.kafka.PARTITIONER", "consistent_random")
    (difference,) = administration.probe_partitioner()
    assert "murmur2_random" in str(difference)
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap})
    begins = f"{settings.topics.prefix}relight-probe"
    wait_until(
        lambda: not [name for name in admin.list_topics(timeout=10).topics if name.startswith(begins)],
        "no topic of a probe is left",  # what is deleted is listed for a moment longer
    )


@pytest.mark.slow
def test_nobody_there_is_told_as_such() -> None:
    (port,) = ports.free_ports(1)
    settings = Settings.model_validate(
        {"kafka": {"bootstrap": f"127.0.0.1:{port}"}, "topics": {"patience": "1s"}}
    )

    with pytest.raises(BrokerAway):
        TopicAdministration(settings, KafkaClients(settings.kafka, "test")).differences()
