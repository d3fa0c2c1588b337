"""Released rulebooks by hash: the compacted topic, kept in memory, read on when a hash is missing.

There are few and they are small; a partition that needs one which is not there yet waits, and says so (finding Q25).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from runtime import logs
from runtime.kafka import KafkaClients, explain
from schemas.records import RulebookRelease
from streams.reading import Unreadable, read

_WAIT: Final = 0.05
_AT_ONCE: Final = 100
_PATIENCE: Final = 10.0

_log = logs.get(__name__)


class RulebookCache:
    """Reads all partitions of `rulebooks.v1` and remembers where it stopped."""

    def __init__(self, clients: KafkaClients, topic: str, partitions: int, pool: Executor) -> None:
        self._clients = clients
        self._topic = topic
        self._next = dict.fromkeys(range(partitions), 0)
        self._pool = pool
        self._content: dict[str, Mapping[str, Any]] = {}
        self._reading = asyncio.Lock()

    def known(self, digest: str) -> Mapping[str, Any] | None:
        """Content, or None when it was not seen yet."""
        return self._content.get(digest)

    async def refresh(self) -> None:
        """Read what was released since the last time."""
        async with self._reading:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._read_on)

    def _read_on(self) -> None:
        consumer = self._clients.reader()
        try:
            ends: dict[int, int] = {}
            for number, stands in self._next.items():
                first, ends[number] = consumer.get_watermark_offsets(
                    TopicPartition(self._topic, number), timeout=_PATIENCE
                )
                self._next[number] = max(first, stands)
            for raw in self._values(consumer, ends):
                self._keep(raw)
        except KafkaException as error:
            raise explain(error, f"reading {self._topic}") from error
        finally:
            consumer.close()

    def _values(self, consumer: Consumer, ends: Mapping[int, int]) -> Iterator[bytes]:
        open_ends = {number: end for number, end in ends.items() if self._next[number] < end}
        if not open_ends:
            return
        consumer.assign([TopicPartition(self._topic, number, self._next[number]) for number in open_ends])
        while open_ends:
            for message in consumer.consume(_AT_ONCE, _WAIT):
                error, number, offset, value = (
                    message.error(),
                    message.partition(),
                    message.offset(),
                    message.value(),
                )
                if error is not None:
                    raise explain(error, f"reading {self._topic}")
                if number is None or offset is None:
                    continue
                self._next[number] = offset + 1
                if value is not None:
                    yield value
            for place in consumer.position([TopicPartition(self._topic, number) for number in open_ends]):
                if place.offset >= open_ends[place.partition]:
                    del open_ends[place.partition]
                    self._next[place.partition] = place.offset

    def _keep(self, raw: bytes) -> None:
        event = read(raw)
        if isinstance(event, Unreadable) or not isinstance(event.data, RulebookRelease):
            _log.warning(
                "a record that is no rulebook", topic=self._topic, detail=getattr(event, "detail", "")
            )
            return
        self._content[event.data.rulebook] = event.data.content
