"""Sends outside any transaction: one idempotent producer for the whole process, confirmed group by group.

Guarantees: for each partition what is sent arrives in the order it was given, without holes - the producer never gives a message up, so no
later one overtakes an earlier one (a mailbox that keeps the highest origin would drop the earlier as a duplicate). The caller waits as long
as it wants; what it stops waiting for may still arrive, with the same ids and origins, and is dropped as a repeat.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from runtime import logs
from runtime.errors import BrokerAway, Fenced
from runtime.kafka import explain
from streams.ports import Send

_FULL_QUEUE_WAIT: Final = 0.01
_POLL: Final = 0.1
_PURGE_PATIENCE: Final = 5.0

_log = logs.get(__name__)


class _Latch:
    """Counts confirmations down; called by the producer's thread."""

    __slots__ = ("_done", "_failed", "_left", "_loop")

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self._left = count
        self._loop = loop
        self._done: asyncio.Future[None] = loop.create_future()
        self._failed: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        del message
        if error is not None:
            self._failed = self._failed or error
        self._left -= 1
        if self._left == 0:
            self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        if self._done.done():  # nobody waits any more
            return
        if self._failed is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(explain(self._failed, "sending a group of messages"))

    async def wait(self) -> None:
        await self._done


class KafkaSender:
    """The shared producer."""

    def __init__(self, new_producer: Callable[[], Producer]) -> None:
        self._new_producer = new_producer
        self._producer = new_producer()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="sender", daemon=True)
        self._thread.start()

    async def send(self, sends: Sequence[Send]) -> None:
        """Return when the broker confirmed all of them; see `streams.ports.Sender`."""
        if not sends:
            return
        latch = _Latch(len(sends), asyncio.get_running_loop())
        producer = self._producer
        try:
            for send in sends:
                while not _produced(producer, send, latch):  # noqa: ASYNC110 - nobody is told that the queue has room
                    await asyncio.sleep(_FULL_QUEUE_WAIT)
            await latch.wait()
        except Fenced as error:
            # Fatal for this producer, and no matter of owners: it has no transactional id.
            await self._replace(producer)
            raise BrokerAway(f"the shared producer failed for good and was replaced: {error}") from None

    def close(self) -> None:
        """Stop at once; what was not confirmed is sent again by whoever handles it next."""
        self._stopping.set()
        self._thread.join()
        self._producer.purge()

    async def _replace(self, broken: Producer) -> None:
        """Go on with a new one, and let everybody who waits for the broken one know that nothing will come."""
        if self._producer is not broken:
            return
        _log.warning("replacing the shared producer")
        self._producer = self._new_producer()
        broken.purge()
        await asyncio.to_thread(broken.flush, _PURGE_PATIENCE)

    def _poll(self) -> None:
        while not self._stopping.is_set():
            try:
                self._producer.poll(_POLL)
            except KafkaException as error:
                _log.warning("polling the shared producer failed", error=str(error))


def _produced(producer: Producer, send: Send, latch: _Latch) -> bool:
    try:
        producer.produce(
            send.topic,
            value=send.value,
            key=send.key,
            partition=-1 if send.partition is None else send.partition,
            headers=list(send.headers),
            on_delivery=latch,
        )
    except BufferError:
        return False
    except KafkaException as error:
        raise explain(error, f"sending to {send.topic}") from error
    return True
