"""The state log of one partition on Kafka: a transactional producer that fences, and a reader that ends exactly at its claim.

`open`: `init_transactions` shuts out whoever had this transactional id; then one transaction writes a claim record, and its offset is the end of
what has to be read: a number, not a guess at the end of the log. After the fence nobody older can write, so what was read up to there is exact.
`write`: one transaction. A client call blocks, so each runs in a pool; a lock for each log keeps two of them apart.

Without a fence (stand-ins) the same claim is written by a plain producer and proves nothing: a stale owner's late write then wins for good.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from datetime import UTC, datetime
from typing import Final, TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from runtime.errors import BrokerAway, BrokerError, Fenced, OutcomeUnknown
from runtime.kafka import KafkaClients, explain
from schemas.wording import counted
from streams.ports import Place, StateRecord
from streams.settings import Fence, RecoverySettings
from streams.state_records import OWNER_KEY, Owner

_READ_AT_ONCE: Final = 5_000
_READ_WAIT: Final = 0.05
"""Seconds; the client waits it out whenever fewer records come than asked for."""
_ABORT_PATIENCE: Final = 5.0
_COMMIT_TRIES: Final = 3

T = TypeVar("T")


class KafkaStateLog:
    """State of one partition; see `streams.ports.StateLog`."""

    def __init__(
        self,
        clients: KafkaClients,
        place: Place,
        *,
        transactional_id: str,
        worker: str,
        settings: RecoverySettings,
        pool: Executor,
    ) -> None:
        self._clients = clients
        self._place = place
        self._transactional_id = transactional_id
        self._worker = worker
        self._timeout = settings.transaction_timeout
        self._fenced = settings.fence is Fence.TRANSACTIONS
        self._pool = pool
        self._lock = threading.Lock()
        self._producer: Producer | None = None

    async def open(self) -> Iterable[StateRecord]:
        """Fence, claim, read; see `streams.ports.StateLog`."""
        return await self._in_pool(self._open)

    async def write(self, records: Sequence[StateRecord]) -> None:
        """One transaction; see `streams.ports.StateLog`."""
        await self._in_pool(lambda: self._write(records))

    async def close(self) -> None:
        """Let go, without waiting for a call that still runs."""
        self._pool.submit(self._close)

    async def _in_pool(self, call: Callable[[], T]) -> T:
        def locked() -> T:
            with self._lock:
                return call()

        return await asyncio.get_running_loop().run_in_executor(self._pool, locked)

    # ------------------------------------------------------------------ in the pool

    def _open(self) -> list[StateRecord]:
        end = self._claim()
        consumer = self._clients.reader()
        try:
            return self._read(consumer, end)
        except KafkaException as error:
            raise explain(error, f"reading {self._place}") from error
        finally:
            consumer.close()

    def _claim(self) -> int:
        """Shut out older owners, write the claim, return its offset."""
        doing = f"claiming {self._place}"
        owner = Owner(worker=self._worker, claimed_at=datetime.now(UTC)).encode()
        try:
            if self._fenced:
                self._producer = self._clients.transactional_producer(self._transactional_id, self._timeout)
                self._producer.init_transactions(self._timeout.total_seconds())
            else:
                self._producer = self._clients.bounded_producer(self._timeout)
            offsets = self._write([(OWNER_KEY, owner)])
        except KafkaException as error:
            raise explain(error, doing) from error
        return offsets[-1]

    def _write(self, records: Sequence[StateRecord]) -> list[int]:
        producer = self._producer
        if producer is None:
            raise BrokerAway(f"{self._place} was closed")
        doing = f"writing state to {self._place}"
        try:
            if self._fenced:
                producer.begin_transaction()
            delivered = self._produce(producer, records)
            if self._fenced:
                self._commit(producer)
            else:
                producer.flush(self._timeout.total_seconds())
        except KafkaException as error:
            raise self._abort(producer, explain(error, doing)) from error
        if delivered.failed is not None:
            raise self._abort(producer, explain(delivered.failed, doing))
        if len(delivered.offsets) < len(records):
            missing = len(records) - len(delivered.offsets)
            raise BrokerAway(f"{doing}: not confirmed in time: {counted(missing, 'record')}")
        return delivered.offsets

    def _produce(self, producer: Producer, records: Sequence[StateRecord]) -> _Delivered:
        delivered = _Delivered()
        for key, value in records:
            producer.produce(
                self._place.topic,
                key=key,
                value=value,
                partition=self._place.partition,
                on_delivery=delivered,
            )
        return delivered

    def _commit(self, producer: Producer) -> None:
        """Commit, asking again while the outcome is open: a commit under way can be neither aborted nor left alone."""
        for _ in range(_COMMIT_TRIES):
            try:
                producer.commit_transaction(self._timeout.total_seconds())
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return
        raise OutcomeUnknown(f"the commit at {self._place} was not answered {_COMMIT_TRIES} times")

    def _abort(self, producer: Producer, error: BrokerError) -> BrokerError:
        """Make the producer fit for the next try; if that fails, only a new one can find out what became of the transaction."""
        if isinstance(error, Fenced) or not self._fenced:
            return error
        try:
            producer.abort_transaction(_ABORT_PATIENCE)
        except KafkaException as second:
            if second.args[0].code() == KafkaError._STATE:  # noqa: SLF001 - librdkafka's name: there was nothing to abort
                return error
            found = explain(second, f"aborting at {self._place}")
            return found if isinstance(found, Fenced) else OutcomeUnknown(f"{error}; {found}")
        return error

    def _read(self, consumer: Consumer, end: int) -> list[StateRecord]:
        """Committed records below `end`, oldest first."""
        seconds = self._timeout.total_seconds()
        first, _ = consumer.get_watermark_offsets(TopicPartition(*self._place), timeout=seconds)
        # Assigned to a number, the client reads at once; told to look for the beginning itself, it waits half a second (measured).
        consumer.assign([TopicPartition(*self._place, first)])
        found: list[StateRecord] = []
        silent = 0.0
        while silent < seconds:
            messages = consumer.consume(_READ_AT_ONCE, _READ_WAIT)
            silent = 0.0 if messages else silent + _READ_WAIT
            for message in messages:
                error = message.error()
                if error is not None:
                    raise explain(error, f"reading {self._place}")
                offset, key = message.offset(), message.key()
                if offset is not None and offset >= end:
                    return found
                if key is not None:
                    found.append((key, message.value()))
        raise BrokerAway(
            f"reading {self._place}: nothing came for {silent:.0f} s, {counted(len(found), 'record')} read"
        )

    def _close(self) -> None:
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
        del producer  # its destruction joins threads: here, not in the event loop


class _Delivered:
    """Gathers delivery reports of one write."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.failed: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None or offset is None:
            self.failed = self.failed or error
            return
        self.offsets.append(offset)
