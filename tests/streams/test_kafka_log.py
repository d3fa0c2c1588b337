"""The state log on a real broker: the younger owner reads everything the older one left, and the older one writes nothing any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from runtime.errors import BrokerAway, Fenced
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings
from sandbox.kafka_server import KafkaBroker
from streams.kafka_log import KafkaStateLog
from streams.ports import Place, Send, StateRecord
from streams.sender import KafkaSender
from streams.settings import Fence, RecoverySettings
from streams.state_records import OWNER_KEY
from tests.real.kafka import NewKafka

NewLog = Callable[[], KafkaStateLog]
SHORT = RecoverySettings.model_validate({"transaction_timeout": "5s"})


def create(broker: KafkaBroker, topic: str) -> KafkaClients:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(20)
    # How long a topic may stay unknown before it counts as such.
    client: dict[str, str | int | float | bool] = {"topic.metadata.propagation.max.ms": 500}
    return KafkaClients(KafkaSettings(bootstrap=broker.bootstrap, client=client), "test")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def new_log(kafka: KafkaBroker, topic_name: str, pool: ThreadPoolExecutor) -> NewLog:
    return logs_on(kafka, topic_name, pool, SHORT)


def logs_on(broker: KafkaBroker, topic: str, pool: ThreadPoolExecutor, settings: RecoverySettings) -> NewLog:
    clients = create(broker, topic)
    return lambda: KafkaStateLog(
        clients, Place(topic, 0), transactional_id=f"{topic}-0", worker="test", settings=settings, pool=pool
    )


async def write_until_taken(log: KafkaStateLog, records: list[StateRecord]) -> None:
    """As the worker does."""
    while True:
        try:
            await log.write(records)
        except BrokerAway:
            continue
        return


def ours(records: Iterable[StateRecord]) -> list[StateRecord]:
    return [record for record in records if record[0] != OWNER_KEY]


def test_what_one_owner_wrote_the_next_one_reads(new_log: NewLog) -> None:
    async def main() -> None:
        first, second = new_log(), new_log()
        assert ours(await first.open()) == []
        await first.write([(b"a", b"1"), (b"b", b"2")])
        await first.write([(b"a", None)])

        assert ours(await second.open()) == [(b"a", b"1"), (b"b", b"2"), (b"a", None)]

    asyncio.run(main())


def test_an_older_owner_writes_nothing_once_a_younger_one_opened(new_log: NewLog) -> None:
    async def main() -> None:
        old, young, third = new_log(), new_log(), new_log()
        await old.open()
        await old.write([(b"a", b"old")])
        await young.open()
        await young.write([(b"a", b"young")])
        with pytest.raises(Fenced):
            await old.write([(b"a", b"stale"), (b"b", b"stale")])

        assert ours(await third.open()) == [(b"a", b"old"), (b"a", b"young")]

    asyncio.run(main())


def test_without_the_fence_the_older_owner_overwrites_the_younger(
    kafka: KafkaBroker, topic_name: str, pool: ThreadPoolExecutor
) -> None:
    async def main() -> None:
        unfenced = logs_on(kafka, topic_name, pool, SHORT.model_copy(update={"fence": Fence.OFF}))
        old, young, third = unfenced(), unfenced(), unfenced()
        await old.open()
        await young.open()
        await young.write([(b"a", b"young")])
        await old.write([(b"a", b"stale")])

        assert ours(await third.open())[-1] == (b"a", b"stale"), (
            "this is why the setting is for stand-ins only"
        )

    asyncio.run(main())


def test_what_was_never_committed_is_never_read(new_log: NewLog) -> None:
    async def main() -> None:
        dying, heir = new_log(), new_log()
        await dying.open()
        producer = dying._producer
        assert producer is not None
        producer.begin_transaction()
        producer.produce(dying._place.topic, key=b"a", value=b"half", partition=0)
        producer.flush(10)

        assert ours(await heir.open()) == []

    asyncio.run(main())


def test_a_write_fails_whole_and_the_same_can_be_tried_again(new_log: NewLog) -> None:
    async def main() -> None:
        log, reader = new_log(), new_log()
        await log.open()
        with pytest.raises(Exception, match="too large"):
            await log.write([(b"a", b"1"), (b"b", b"x" * 3_000_000)])
        await write_until_taken(log, [(b"a", b"2")])

        assert ours(await reader.open()) == [(b"a", b"2")]

    asyncio.run(main())


def test_a_closed_log_writes_nothing(new_log: NewLog, pool: ThreadPoolExecutor) -> None:
    async def main() -> None:
        log = new_log()
        await log.open()
        await log.close()
        await asyncio.get_running_loop().run_in_executor(pool, lambda: None)
        with pytest.raises(BrokerAway):
            await log.write([(b"a", b"1")])

    asyncio.run(main())


@pytest.mark.timeout(90)
def test_a_broker_that_comes_back_takes_the_same_write(
    new_kafka: NewKafka, topic_name: str, pool: ThreadPoolExecutor
) -> None:
    broker = new_kafka()
    log, reader = (make := logs_on(broker, topic_name, pool, SHORT))(), make()

    async def main() -> None:
        await log.open()
        broker.kill()
        writing = asyncio.create_task(write_until_taken(log, [(b"a", b"1")]))
        await asyncio.to_thread(broker.start)
        await writing

        assert (b"a", b"1") in ours(await reader.open())

    asyncio.run(main())


# ---------------------------------------------------------------- sends outside transactions


def test_a_group_is_confirmed_as_a_whole_and_in_order(kafka: KafkaBroker, topic_name: str) -> None:
    clients = create(kafka, topic_name)
    sender = KafkaSender(clients.producer)

    async def main() -> None:
        await asyncio.gather(
            *(
                sender.send([Send(topic_name, b"k%d" % group, b"%d" % number) for number in range(50)])
                for group in range(10)
            )
        )
        await sender.send([])

    asyncio.run(main())
    sender.close()
    consumer = clients.reader()
    consumer.assign([TopicPartition(topic_name, 0, OFFSET_BEGINNING)])
    found: dict[bytes, list[bytes]] = {}
    while sum(map(len, found.values())) < 500:
        for message in consumer.consume(500, 1.0):
            found.setdefault(message.key() or b"", []).append(message.value() or b"")
    consumer.close()

    assert all(values == [b"%d" % number for number in range(50)] for values in found.values())
    assert len(found) == 10


def test_a_topic_that_does_not_exist_is_refused_and_the_sender_goes_on(
    kafka: KafkaBroker, topic_name: str
) -> None:
    clients = create(kafka, topic_name)
    sender = KafkaSender(clients.producer)

    async def main() -> None:
        with pytest.raises(Exception, match=r"[Uu]nknown"):
            await asyncio.wait_for(sender.send([Send(f"{topic_name}-not", b"k", b"v")]), 30)
        await asyncio.wait_for(sender.send([Send(topic_name, b"k", b"v")]), 30)

    asyncio.run(main())
    sender.close()
