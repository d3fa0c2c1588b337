"""Releasing a rulebook on a real broker: content first, then every partition, repeated without harm."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Message, TopicPartition

from relight.cli import main
from relight.rulebook_release import Releases
from rules.compiled import compile_document, default_rulebook
from rules.model import RulebookDocument
from rules.packaged import default_content
from runtime.errors import BrokerError
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings, Settings, TopicSettings
from runtime.topics import TopicAdministration
from sandbox.kafka_server import KafkaBroker
from schemas.envelope import Event, decode
from schemas.ids import mailbox_key
from schemas.mailbox import RulebookSwitch
from schemas.records import RulebookRelease
from schemas.topics import INBOX, RULEBOOKS

PARTITIONS = 3
PATIENCE = timedelta(seconds=20)
CLUSTER = "c1"


@pytest.fixture
def pipeline(kafka: KafkaBroker) -> Settings:
    """Topics of the test's own."""
    settings = Settings(
        kafka=KafkaSettings(bootstrap=kafka.bootstrap, replication_factor=1, min_insync_replicas=1),
        topics=TopicSettings(prefix=f"release-{uuid.uuid4().hex[:8]}.", partitions=PARTITIONS),
    )
    TopicAdministration(settings, clients(settings)).create()
    return settings


def clients(settings: Settings) -> KafkaClients:
    return KafkaClients(settings.kafka, "test-release")


def release(settings: Settings, *arguments: str | Path) -> Result:
    environment = {
        "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
        "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
        "RELIGHT_TOPICS__PREFIX": settings.topics.prefix,
        "RELIGHT_TOPICS__PARTITIONS": str(PARTITIONS),
        "RELIGHT_CLUSTER": CLUSTER,
    }
    told = ["rules", "release", "--bootstrap", settings.kafka.bootstrap, "--by", "me", *map(str, arguments)]
    return CliRunner(env=environment).invoke(main, told)


def written(settings: Settings, topic: str) -> list[tuple[Message, Event]]:
    """Everything that stands in a topic, by partition and offset."""
    consumer = clients(settings).reader()
    try:
        return [
            (message, decode(message.value() or b""))
            for message in _messages(consumer, settings.topic(topic))
        ]
    finally:
        consumer.close()


def _messages(consumer: Consumer, topic: str) -> Iterator[Message]:
    for number in range(PARTITIONS):
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10.0)
        consumer.assign([TopicPartition(topic, number, 0)])
        read = 0
        while read < high:
            for message in consumer.consume(high, 1.0):
                read += 1
                yield message


def test_a_release_publishes_the_content_under_its_hash_and_switches_every_partition(
    pipeline: Settings,
) -> None:
    result = release(pipeline)

    assert result.exit_code == 0, result.output
    assert f"{PARTITIONS} partitions were told" in result.stdout
    ((message, event),) = written(pipeline, RULEBOOKS.name)
    assert isinstance(event.data, RulebookRelease)
    assert message.key() == event.data.rulebook.encode()
    assert compile_document(event.data.content).hash == event.data.rulebook == default_rulebook().hash
    switches = written(pipeline, INBOX.name)
    assert [message.partition() for message, _ in switches] == list(range(PARTITIONS))
    for message, event in switches:
        assert event.subject == f"partition/{message.partition()}"
        assert message.key() == mailbox_key(CLUSTER, event.subject)
        assert isinstance(event.data, RulebookSwitch)
        assert event.data == RulebookSwitch(rulebook=default_rulebook().hash, released_by="me")


def test_a_release_repeated_writes_no_second_content_and_the_same_switches(pipeline: Settings) -> None:
    first, second = release(pipeline), release(pipeline)

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "is released already, by me" in second.stdout
    assert len(written(pipeline, RULEBOOKS.name)) == 1
    ids = [event.id for _, event in written(pipeline, INBOX.name)]
    assert len(ids) == 2 * PARTITIONS
    assert len(set(ids)) == PARTITIONS


def test_a_second_release_tells_what_it_changes_and_the_way_back_is_a_release(
    pipeline: Settings, tmp_path: Path
) -> None:
    (tmp_path / "site.yaml").write_text("settings:\n  hang_in_a_row: 7\n", encoding="utf-8")
    release(pipeline)

    there, back = release(pipeline, tmp_path), release(pipeline)

    assert there.stdout.splitlines()[0] == "~ setting hang_in_a_row: 3 -> 7"
    assert back.stdout.splitlines()[0] == "~ setting hang_in_a_row: 7 -> 3"
    switched = [
        event.data.rulebook
        for _, event in written(pipeline, INBOX.name)
        if isinstance(event.data, RulebookSwitch)
    ]
    assert switched[0] == switched[2] == default_rulebook().hash != switched[1]
    assert len({event.id for _, event in written(pipeline, INBOX.name)}) == 3 * PARTITIONS


def test_a_dry_run_tells_and_writes_nothing(pipeline: Settings) -> None:
    result = release(pipeline, "--dry-run")

    assert result.exit_code == 0
    assert "+ rule ha-off: High availability is off" in result.stdout
    assert written(pipeline, RULEBOOKS.name) == []
    assert written(pipeline, INBOX.name) == []


def test_releases_of_other_clusters_are_not_ours(pipeline: Settings) -> None:
    document = RulebookDocument.model_validate(default_content())
    other = Releases(pipeline, clients(pipeline), "c2", PATIENCE)
    ours = Releases(pipeline, clients(pipeline), CLUSTER, PATIENCE)
    published = other.publish(document, by="you", now=datetime.now(UTC))

    assert other.newest() == published
    assert ours.newest() is None


def test_nothing_is_switched_when_the_content_was_not_confirmed(pipeline: Settings) -> None:
    lost = pipeline.model_copy(update={"topics": pipeline.topics.model_copy(update={"prefix": "nowhere."})})
    releases = Releases(lost, clients(lost), CLUSTER, timedelta(seconds=3))

    with pytest.raises(BrokerError):
        releases.publish(RulebookDocument.model_validate(default_content()), by="me", now=datetime.now(UTC))

    assert written(pipeline, INBOX.name) == []


def test_topics_that_are_not_as_they_should_be_stop_a_release(kafka: KafkaBroker) -> None:
    settings = Settings(
        kafka=KafkaSettings(bootstrap=kafka.bootstrap),
        topics=TopicSettings(prefix=f"release-{uuid.uuid4().hex[:8]}.", partitions=PARTITIONS),
    )

    result = release(settings)

    assert result.exit_code == 1
    assert "relight topics create" in result.stderr


@pytest.mark.slow
def test_a_broker_that_does_not_answer_ends_with_a_sentence() -> None:
    settings = Settings(kafka=KafkaSettings(bootstrap="127.0.0.1:1"))

    result = release(settings, "--patience", "1")

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no broker answers at 127.0.0.1:1 within 1 s")
