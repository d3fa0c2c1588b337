"""From the spool to `signals.v1`, confirmed signal by signal, in order.

Guarantees: a signal leaves the spool only when the broker has confirmed it (acks from all in-sync replicas). All signals of a node have one key, its
mailbox's, and so one partition: the origin numbers them all, and a mailbox drops what is not above the highest it has seen, so one that another
overtook would be lost. Runs read the node's signals too, through the router, which keeps the order of a partition.

The client never gives a record up by itself (`runtime.kafka`), so the order holds while the broker is away. When a record fails nevertheless (rights
taken away, the topic gone, a fatal error of the client), all that are under way are called off. Those that no later one has overtaken are sent
again as they are; one that was overtaken gets a new number, with the id it had; one that can never be accepted is counted as lost and told.

Back-pressure: at most `window` are under way; the rest waits on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from producers.clock_offset import ClockOffset
from producers.spool import Record, Spool
from runtime import logs

HOPELESS: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD}
)
"""The broker will never take this record, whoever sends it."""

BACK_OFF: Final = 2.0
"""Seconds before the next try after a failure that is not the record's own."""

CALL_OFF: Final = 5.0
"""Seconds the client may take to report on what was called off."""

_log = logs.get(__name__)


@dataclass(eq=False)
class _Flight:
    """Records given to one client, in order, and what became of them."""

    under_way: deque[Record] = field(default_factory=deque)
    delivered: set[int] = field(default_factory=set)
    failed: dict[int, KafkaError] = field(default_factory=dict)

    @property
    def unreported(self) -> int:
        return len(self.under_way) - len(self.delivered) - len(self.failed)


class Publisher:
    """Sends what the spool hands out. Not for several threads: everything happens in `pump`."""

    def __init__(
        self,
        spool: Spool,
        new_producer: Callable[[], Producer],
        *,
        topic: str,
        window: int,
        offset: ClockOffset,
        now: Callable[[], datetime],
        clock: Callable[[], float],
    ) -> None:
        """Make a publisher.

        Args:
            spool: where signals come from.
            new_producer: makes a client; asked again after a failure.
            topic: name of the topic in the broker.
            window: signals under way at most.
            offset: told of each delivery, to measure the clock.
            now: the node's clock.
            clock: seconds that never go back.
        """
        self._spool = spool
        self._new_producer = new_producer
        self._topic = topic
        self._window = window
        self._offset = offset
        self._now = now
        self._clock = clock
        self._producer: Producer | None = None
        self._flight = _Flight()
        self._ready: deque[Record] = deque()
        self._retry_at = clock()
        self._called_off_at: float | None = None
        self.delivered = 0
        """Signals confirmed since the start."""
        self.failures = 0
        """Times all that was under way was called off."""

    @property
    def under_way(self) -> int:
        """Signals given to the client and not reported on."""
        return len(self._flight.under_way)

    @property
    def is_idle(self) -> bool:
        """Nothing under way, nothing waiting."""
        return not (self._flight.under_way or self._ready or self._spool.has_waiting)

    def pump(self) -> None:
        """Take in confirmations and send what may be sent; returns at once. Call it often while something is under way."""
        if self._producer is not None:
            self._poll(self._producer)
        if self._flight.failed and self._called_off_at is None:
            self._call_off()
        if self._called_off_at is not None:
            self._settle(self._called_off_at)
            return
        self._confirm()
        if self._clock() >= self._retry_at:
            self._send()

    def close(self) -> None:
        """Let go of the client; what is not confirmed stays in the spool."""
        if self._producer is not None:
            self._flight = _Flight()  # late reports change nothing
            self._producer.purge()
            self._producer = None

    def _poll(self, producer: Producer) -> None:
        try:
            producer.poll(0)
        except KafkaException as error:
            _log.warning("polling the client failed", error=str(error))

    def _send(self) -> None:
        while len(self._flight.under_way) < self._window:
            if not self._ready:
                self._ready.extend(self._spool.hand_out(self._window - len(self._flight.under_way)))
            if not self._ready or not self._give(self._ready[0]):
                return
            self._flight.under_way.append(self._ready.popleft())

    def _give(self, record: Record) -> bool:
        producer = self._client()
        try:
            producer.produce(
                self._topic,
                key=record.key,
                value=record.value,
                on_delivery=partial(self._report, self._flight, record.sequence, self._now()),
            )
        except BufferError:
            return False
        except KafkaException as error:
            self._flight.under_way.append(self._ready.popleft())
            self._flight.failed[record.sequence] = error.args[0]
            return False
        return True

    def _client(self) -> Producer:
        if self._producer is None:
            self._producer = self._new_producer()
        return self._producer

    def _report(
        self, flight: _Flight, number: int, sent_at: datetime, error: KafkaError | None, message: Message
    ) -> None:
        if error is not None:
            flight.failed[number] = error
            return
        flight.delivered.add(number)
        self.delivered += flight is self._flight
        self._measure(sent_at, message)

    def _measure(self, sent_at: datetime, message: Message) -> None:
        kind, stamp = message.timestamp()
        latency = message.latency()
        if kind == TIMESTAMP_LOG_APPEND_TIME and latency is not None:
            appended_at = datetime.fromtimestamp(stamp / 1000, UTC)
            self._offset.sample(sent_at, timedelta(seconds=latency), appended_at)

    def _confirm(self) -> None:
        """Confirm to the spool what stands at the front; a later one waits for those before it."""
        confirmed = None
        flight = self._flight
        while flight.under_way and flight.under_way[0].sequence in flight.delivered:
            confirmed = flight.under_way.popleft().sequence
            flight.delivered.discard(confirmed)
        if confirmed is not None:
            self._spool.ack(confirmed)

    # ------------------------------------------------------------ failures

    def _call_off(self) -> None:
        number, error = min(self._flight.failed.items())
        self.failures += 1
        _log.warning(
            "a signal was not delivered; all under way are called off", number=number, error=str(error)
        )
        self._called_off_at = self._clock()
        if self._producer is not None:
            self._producer.purge(in_flight=True, in_queue=True, blocking=False)
            self._poll(self._producer)

    def _settle(self, called_off_at: float) -> None:
        """Once it is known of each what became of it, or nothing more will be known, put the rest back."""
        flight = self._flight
        if flight.unreported and self._clock() - called_off_at < CALL_OFF:
            return
        highest = max(flight.delivered, default=-1)
        settled = self._spool.acked
        for record in flight.under_way:
            error = flight.failed.get(record.sequence)
            if record.sequence not in flight.delivered and error is not None and error.code() in HOPELESS:
                self._spool.lose(record.kind)
            elif record.sequence not in flight.delivered and record.sequence < highest:
                self._spool.renumber(record)
            elif record.sequence > highest:
                break
            settled = record.sequence
        self._spool.ack(settled)
        self._spool.rewind()
        self._ready.clear()
        self._flight = _Flight()
        self._producer = None
        self._called_off_at = None
        self._retry_at = self._clock() + BACK_OFF
