"""From the spool to `signals.v1`.

Guarantees: everything the spool holds is sent, in its order, until the broker confirmed it. All signals of a node carry one key, its
mailbox's, and so lie in one partition in this order, whichever run they are about: the origin numbers all of them, and a mailbox drops what
is not above the highest it has had, so one that another overtook would be lost. (The router gives each its mailbox's key and keeps the order.)

The watermark moves over what is confirmed without a hole before it. A restart, or a producer that failed for good, sends what is not confirmed
again, with the same origins: repeats, not new events. Where the broker refused one and took a later one, the one gets a new number. While the
broker is away it waits; it holds at most `in_flight` events in memory, the rest stays on disk. Only what is larger than any message may be is
given up, and told.

One thread, which alone takes from the spool and polls the producer, so that nothing here needs a lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from producers.clock_offset import ClockOffset
from producers.settings import PublisherSettings
from producers.spool import Entry
from runtime import logs
from runtime.kafka import explain
from schemas.envelope import CONTENT_TYPE, MAX_EVENT_BYTES

_POLL: Final = 0.05
_TAKE: Final = 200
_PURGE_PATIENCE: Final = 1.0
_HEADERS: Final[list[tuple[str, str | bytes | None]]] = [("content-type", CONTENT_TYPE)]
_log = logs.get(__name__)


class Outgoing(Protocol):
    """What waits to be sent: the spool of a node agent, or a watcher's outbox. `producers.spool.Spool` says what each of these means."""

    @property
    def acked(self) -> int: ...  # noqa: D102 - as there

    @property
    def next_sequence(self) -> int: ...  # noqa: D102 - as there

    def take(self, most: int) -> list[Entry]: ...  # noqa: D102 - as there

    def rewind(self) -> None: ...  # noqa: D102 - as there

    def acknowledge(self, below: int) -> None: ...  # noqa: D102 - as there

    def renumber(self, entry: Entry) -> None: ...  # noqa: D102 - as there

    def give_up(self, entry: Entry, reason: str) -> None: ...  # noqa: D102 - as there


@dataclass(slots=True)
class _Sent:
    """One event on its way; `tries` is the round of sending it belongs to."""

    entry: Entry
    tries: int
    sent: float = 0.0
    done: bool = False


@dataclass(slots=True)
class Published:
    """What the publisher counted; read by other threads."""

    sent: int = 0
    given_up: int = 0
    restarts: int = 0
    oldest: float | None = None
    """When the oldest event that is not confirmed was spooled, Unix seconds."""
    trouble: str | None = None
    """What the broker last refused, while it does."""
    in_flight: int = field(default=0)


class Publisher:
    """Runs until `stop`. ``start()``, later ``stop(grace)``."""

    def __init__(
        self,
        spool: Outgoing,
        topic: str,
        new_producer: Callable[[], Producer],
        offset: ClockOffset,
        settings: PublisherSettings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` is the node's, Unix seconds."""
        self._spool = spool
        self._topic = topic
        self._new_producer = new_producer
        self._offset = offset
        self._settings = settings
        self._clock = clock
        self._producer = new_producer()
        self._pending: deque[_Sent] = deque()
        self._waiting: deque[Entry] = deque()
        self._round = 0
        self._broken: KafkaError | None = None
        self._stopping = threading.Event()
        self._grace = 0.0
        self.counted = Published()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    @property
    def lives(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, grace: timedelta) -> None:
        """Send what is spooled for at most `grace`, then end; the rest stays on disk."""
        self._grace = grace.total_seconds()
        self._stopping.set()
        self._thread.join()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        self._spool.rewind()
        while not self._stopping.is_set():
            self._turn()
        ends = time.monotonic() + self._grace
        began = self.counted.restarts
        while time.monotonic() < ends and not self._is_done() and self.counted.restarts == began:
            self._turn()
        self._producer.purge()

    def _is_done(self) -> bool:
        return not self._pending and not self._waiting and self._spool.acked >= self._spool.next_sequence

    def _turn(self) -> None:
        sent = self._send_some()
        self._producer.poll(0 if sent else _POLL)
        self._confirm()
        if self._broken is not None:
            self._start_over(self._broken)

    def _send_some(self) -> int:
        sent = 0
        while self._broken is None and len(self._pending) < self._settings.in_flight:
            if not self._waiting:
                self._waiting.extend(self._spool.take(_TAKE))
            if not self._waiting or not self._send(self._waiting[0]):
                break
            self._waiting.popleft()
            sent += 1
            if sent >= _TAKE:  # confirmations are read as well
                break
        oldest = self._pending[0].entry if self._pending else self._waiting[0] if self._waiting else None
        self.counted.oldest = None if oldest is None else oldest.at
        self.counted.in_flight = len(self._pending)
        return sent

    def _send(self, entry: Entry) -> bool:
        """Hand one event to the producer; False when it must wait."""
        sent = _Sent(entry, self._round, self._clock())

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(sent, error, message)

        try:
            self._producer.produce(
                self._topic, key=entry.key, value=entry.value, headers=_HEADERS, on_delivery=delivered
            )
        except BufferError:
            return False
        except KafkaException as error:
            self._refused(sent, error.args[0])
            if self._broken is not None:
                return False
        self._pending.append(sent)
        return True

    def _delivered(self, sent: _Sent, error: KafkaError | None, message: Message) -> None:
        if sent.tries != self._round:
            return  # of a producer that was replaced; sent again by the new one
        if error is not None:
            self._refused(sent, error)
            return
        sent.done = True
        self.counted.sent += 1
        self.counted.trouble = None
        kind, milliseconds = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self._offset.measured(sent=sent.sent, confirmed=self._clock(), appended=milliseconds / 1000)

    def _refused(self, sent: _Sent, error: KafkaError) -> None:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and len(sent.entry.value) > MAX_EVENT_BYTES:
            sent.done = True
            self.counted.given_up += 1
            reason = f"the broker takes no event of {len(sent.entry.value):,} bytes"
            self._spool.give_up(sent.entry, reason)
            _log.error("event given up", sequence=sent.entry.sequence, reason=reason)
            return
        self._broken = self._broken or error

    def _confirm(self) -> None:
        below = None
        while self._pending and self._pending[0].done:
            below = self._pending.popleft().entry.sequence + 1
        if below is not None:
            self._spool.acknowledge(below)

    def _start_over(self, error: KafkaError) -> None:
        """A hole would let later events overtake: forget what is on its way and send all of it again, in order."""
        self.counted.trouble = str(explain(error, f"sending to {self._topic}"))
        self.counted.restarts += 1
        _log.warning("sending again from the watermark", error=self.counted.trouble)
        self._round += 1
        self._producer.purge()
        self._producer.flush(_PURGE_PATIENCE)
        self._stopping.wait(self._settings.again_after.total_seconds())
        self._producer = self._new_producer()
        self._renumber_overtaken()
        self._pending.clear()
        self._waiting.clear()
        self._broken = None
        self._spool.rewind()

    def _renumber_overtaken(self) -> None:
        """What was not taken while a later one was needs a number above it, or its mailbox would drop it as a repeat."""
        highest = max((sent.entry.sequence for sent in self._pending if sent.done), default=-1)
        for sent in self._pending:
            if not sent.done and sent.entry.sequence < highest:
                self._spool.renumber(sent.entry)
        self._spool.acknowledge(highest + 1)
