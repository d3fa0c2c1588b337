"""What the watchers before this one told, read from their partition of `signals.v1`.

A watcher without it would not know which pods and runs it must say the end of. Only the last `memory` is read, since every state is told again
within half of that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiokafka.partitioner import murmur2
from confluent_kafka import Consumer, KafkaException, TopicPartition

from producers.cluster.book import Book
from producers.cluster.outbox import STAGE
from runtime.errors import BrokerAway
from runtime.kafka import KafkaClients, explain
from schemas.envelope import decode
from schemas.errors import CatalogueError, DecodeError

_POSITIVE: Final = 0x7FFFFFFF
_CALL_SECONDS: Final = 10.0
_STILL_SECONDS: Final = 30.0
_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class ToldBefore:
    """The book as it stood, and the highest number that was used."""

    book: Book
    highest: int | None
    read: int


def read_told(clients: KafkaClients, topic: str, key: bytes, since: datetime) -> ToldBefore:
    """Fold everything told since then. Raises BrokerAway when the broker does not answer, CatalogueError without the topic."""
    consumer = clients.reader()
    try:
        return _read(consumer, topic, key, since)
    except KafkaException as error:
        raise explain(error, f"reading {topic}") from error
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, key: bytes, since: datetime) -> ToldBefore:
    known = consumer.list_topics(topic, timeout=_CALL_SECONDS).topics[topic].partitions
    if not known:
        raise CatalogueError(
            f"topic {topic!r} does not exist; `relight topics create` makes those of the catalogue"
        )
    partition = (murmur2(key) & _POSITIVE) % len(known)
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_CALL_SECONDS)
    asked = TopicPartition(topic, partition, int(since.timestamp() * 1000))
    begin = consumer.offsets_for_times([asked], timeout=_CALL_SECONDS)[0].offset
    begin = high if begin < 0 else max(low, begin)
    book, highest, read = Book(), None, 0
    place = TopicPartition(topic, partition, begin)
    consumer.assign([place])
    at, heard = begin, time.monotonic()
    while at < high:
        if time.monotonic() - heard > _STILL_SECONDS:
            raise BrokerAway(
                f"reading {topic}/{partition}: nothing came for {_STILL_SECONDS:.0f} s at {at} of {high}"
            )
        for message in consumer.consume(_BATCH, 0.2):
            error = message.error()
            if error is not None:
                raise explain(error, f"reading {topic}/{partition}")
            heard, at = time.monotonic(), (message.offset() or 0) + 1
            if message.key() != key or at > high:
                continue
            number = _fold(book, message.value() or b"")
            if number is not None:
                read, highest = read + 1, max(number, highest or 0)
    return ToldBefore(book, highest, read)


def _fold(book: Book, value: bytes) -> int | None:
    """Note one event; None when it is none of ours, or of a release whose facts this one cannot read."""
    try:
        event = decode(value)
    except DecodeError:
        return None
    origin = event.origin_parts
    if origin is None or origin.stage != STAGE:
        return None
    book.fold(event.data)
    return origin.offset
