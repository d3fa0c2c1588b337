"""Looks at a source partition from outside the group: where its log begins and ends, and what the group has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import timedelta
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from runtime.kafka import KafkaClients, explain
from streams.ports import Place

_PATIENCE: Final = timedelta(seconds=10)

T = TypeVar("T")


class KafkaLogBounds:
    """See `streams.ports.LogBounds`."""

    def __init__(self, clients: KafkaClients, group: str, pool: Executor) -> None:
        self._clients = clients
        self._group = group
        self._pool = pool

    async def bounds(self, place: Place) -> tuple[int, int]:
        """First offset kept, and the offset the next message will get. Raises BrokerAway."""
        topic_partition = TopicPartition(place.topic, place.partition)

        def ask(consumer: Consumer) -> tuple[int, int]:
            low, high = consumer.get_watermark_offsets(topic_partition, timeout=_PATIENCE.total_seconds())
            return low, high

        return await self._ask(ask, f"asking for the bounds of {place}")

    async def committed(self, place: Place) -> int | None:
        """What the group has committed; None when nothing. Raises BrokerAway."""
        topic_partition = TopicPartition(place.topic, place.partition)

        def ask(consumer: Consumer) -> int | None:
            offset = consumer.committed([topic_partition], timeout=_PATIENCE.total_seconds())[0].offset
            return offset if offset >= 0 else None

        return await self._ask(ask, f"asking what {self._group} committed of {place}")

    async def _ask(self, question: Callable[[Consumer], T], doing: str) -> T:
        def asked() -> T:
            consumer = self._clients.reader(self._group)
            try:
                return question(consumer)
            except KafkaException as error:
                raise explain(error, doing) from error
            finally:
                consumer.close()

        return await asyncio.get_running_loop().run_in_executor(self._pool, asked)
