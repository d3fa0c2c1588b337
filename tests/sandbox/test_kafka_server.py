"""The real broker keeps its promises: it serves when started, keeps data, compacts when told to."""

import uuid
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sandbox import kafka_server, ports
from sandbox.errors import NotRunning, StartFailed
from sandbox.kafka_server import EAGER_COMPACTION, KafkaBroker
from tests.real.kafka import NewKafka

SECONDS = 20.0


def create(broker: KafkaBroker, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1, config=config)])
    made[topic].result(SECONDS)


def produce(broker: KafkaBroker, topic: str, *values: bytes, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value=value, key=key)
    assert producer.flush(SECONDS) == 0


def read(broker: KafkaBroker, topic: str) -> list[bytes | None]:
    """Everything that is in partition 0 now."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        values: list[bytes | None] = []
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None, f"no answer within {SECONDS} s"
            if (error := message.error()) is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
    finally:
        consumer.close()


def test_what_was_produced_is_read_in_order(kafka: KafkaBroker, topic_name: str) -> None:
    create(kafka, topic_name)
    produce(kafka, topic_name, b"first", b"second")

    assert read(kafka, topic_name) == [b"first", b"second"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_that_comes_back_has_its_data_and_its_port(
    new_kafka: NewKafka, topic_name: str, end: str
) -> None:
    broker = new_kafka()
    address = broker.bootstrap
    create(broker, topic_name)
    produce(broker, topic_name, b"before")

    getattr(broker, end)()
    assert not broker.is_running
    broker.start()

    assert broker.bootstrap == address
    assert read(broker, topic_name) == [b"before"]


def test_a_topic_nobody_created_is_an_error_and_no_new_topic(kafka: KafkaBroker, topic_name: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.timeout.ms": 3000})
    refused: list[bool] = []
    producer.produce(topic_name, b"lost", on_delivery=lambda error, _: refused.append(error is not None))
    producer.flush(SECONDS)

    assert refused == [True]
    assert (
        topic_name
        not in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=SECONDS).topics
    )


def test_compaction_can_be_forced(new_kafka: NewKafka, topic_name: str) -> None:
    broker = new_kafka(EAGER_COMPACTION)
    create(broker, topic_name, **{"cleanup.policy": "compact"})
    produce(broker, topic_name, *(b"%d" % number for number in range(1000)), key=b"one key")

    seen = 1000
    while seen > 3:  # each round closes the segment before it; the timeout of the test is the limit
        produce(broker, topic_name, b"last", key=b"one key")
        seen = len(read(broker, topic_name))

    assert read(broker, topic_name)[-1] == b"last"


@pytest.mark.slow
def test_a_broker_that_cannot_start_says_why_and_leaves_no_process(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "kafka", properties={"num.partitions": "none"})

    with pytest.raises(StartFailed, match=r"num\.partitions"):
        broker.start()

    assert not broker.is_running


def test_a_broker_never_started_has_no_address(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        _ = KafkaBroker(tmp_path).bootstrap


def test_free_ports_differ_and_lie_below_those_of_outgoing_connections() -> None:
    chosen = ports.free_ports(20)

    assert len(set(chosen)) == 20
    first_outgoing = int(ports.EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    assert all(ports.LOWEST <= port < max(first_outgoing, ports.LOWEST + 1000) for port in chosen)


def test_no_cluster_id_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter([uuid.UUID(bytes=bytes([0xF8]) + bytes(15)), uuid.UUID(bytes=bytes(16))])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(made))

    assert kafka_server._cluster_id() == "A" * 22
