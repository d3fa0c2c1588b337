"""Reads what comes into a topic, for people who want to look: no group, nothing committed, nothing changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from runtime.kafka import KafkaClients, explain
from schemas.errors import CatalogueError

_POLL_SECONDS: Final = 0.2
_METADATA_SECONDS: Final = 10.0


def tail(
    clients: KafkaClients, name: str, *, from_start: bool, lasting: timedelta | None
) -> Iterator[Message]:
    """Messages of all partitions as they come; ends `lasting` after the last one, None: never.

    Raises CatalogueError when the topic does not exist, BrokerError when the broker says so.
    """
    consumer = clients.reader()
    try:
        consumer.assign(_places(consumer, name, OFFSET_BEGINNING if from_start else OFFSET_END))
        heard = time.monotonic()
        while lasting is None or time.monotonic() - heard < lasting.total_seconds():
            for message in consumer.consume(500, _POLL_SECONDS):
                error = message.error()
                if error is not None:
                    raise explain(error, f"reading {name}")
                heard = time.monotonic()
                yield message
    finally:
        consumer.close()


def _places(consumer: Consumer, name: str, offset: int) -> list[TopicPartition]:
    try:
        known = consumer.list_topics(name, timeout=_METADATA_SECONDS).topics[name].partitions
    except KafkaException as error:
        raise explain(error, f"asking for {name}") from error
    if not known:
        raise CatalogueError(
            f"topic {name!r} does not exist; `relight topics create` makes those of the catalogue"
        )
    return [TopicPartition(name, partition, offset) for partition in known]
