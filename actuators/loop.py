"""From commands to outcomes: read, carry out, answer, and only then commit.

Guarantees: commands of one subject are carried out in order, those of different subjects at the same time; an offset is committed when the
broker has confirmed its outcome, so a command is carried out at least once and, steps being idempotent, has one effect. An outcome carries the
command's place as its origin: the mailbox takes it once, however often it is sent. When a partition is taken away, what has not begun is left
to the next owner; what has begun may end, and what it does later is harmless, since every write is conditional.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from actuators.lanes import Lanes
from actuators.metrics import ActuatorMetrics
from actuators.offsets import Unconfirmed
from actuators.settings import ActuatorSettings
from runtime import logs
from runtime.errors import BrokerAway, BrokerError
from runtime.kafka import explain
from schemas import topics
from schemas.commands import Command, Outcome
from schemas.envelope import CONTENT_TYPE, Event, Origin, TimeQuality, decode, encode, make_event
from schemas.errors import DecodeError
from schemas.ids import derive_id, mailbox_key

STAGE: Final = "actuators"
_POLL: Final = 0.1
_FULL: Final = 0.05
_FLUSH: Final = 5.0
_CLOSE: Final = 1.0

CarryOut = Callable[[Command], Outcome]

_log = logs.get(__name__)


class Beat(Protocol):
    """Hears that the loop turns."""

    def beat(self) -> None:
        """It turned."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """One command and where it was read."""

    event: Event
    command: Command
    partition: int
    offset: int
    unconfirmed: Unconfirmed
    """Of the partition as it was assigned then: a late confirmation moves nobody else's position."""


class CommandLoop:
    """Runs in the thread that calls `run`; commands run in the executor's threads."""

    def __init__(
        self,
        settings: ActuatorSettings,
        consumer: Consumer,
        producer: Producer,
        carry_out: CarryOut,
        executor: Executor,
        metrics: ActuatorMetrics,
        pulse: Beat,
        *,
        instance: str,
    ) -> None:
        self._settings = settings
        self._consumer = consumer
        self._producer = producer
        self._carry_out = carry_out
        self._metrics = metrics
        self._pulse = pulse
        self._instance = instance
        self._inbox = settings.topic(topics.INBOX.name)
        self._commands = settings.topic(topics.COMMANDS.name)
        self._lanes: Lanes[Taken] = Lanes(executor, self._work, self._broke)
        self._ours: dict[int, Unconfirmed] = {}
        self._committed: dict[int, int] = {}
        self._commit_at = 0.0
        self._reading = True
        self._ending = False
        self._stop = threading.Event()
        self._fault: BaseException | None = None

    @property
    def in_flight(self) -> int:
        """Commands taken and not confirmed. From any thread."""
        return sum(one.count for one in list(self._ours.values()))

    def positions(self) -> dict[int, tuple[int, int]]:
        """For each partition of ours: position, and commands not confirmed. From any thread."""
        return {partition: (one.position or 0, one.count) for partition, one in list(self._ours.items())}

    def stop(self) -> None:
        """End `run` soon. From any thread, or a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Until `stop`. Raises BrokerError when the broker refuses for good, and what broke in a thread of ours."""
        self._consumer.subscribe(
            [self._commands], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        try:
            while not self._stop.is_set():
                self._turn()
        finally:
            self._end()

    def _turn(self) -> None:
        self._pulse.beat()
        message = self._consumer.poll(_POLL)
        if message is not None:
            self._take(message)
        self._producer.poll(0)
        if self._fault is not None:
            raise self._fault
        self._throttle()
        self._commit_when_due()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            fault = explain(error, f"reading {self._commands}")
            if not isinstance(fault, BrokerAway):
                raise fault
            _log.warning("the broker does not answer", error=str(fault))
            return
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None:
            raise BrokerError("a message without a place")
        unconfirmed = self._ours.setdefault(partition, Unconfirmed())
        unconfirmed.take(offset)
        event = self._read(message)
        if event is None or not isinstance(event.data, Command):
            self._metrics.unreadable.inc()
            unconfirmed.confirm(offset)
            return
        taken = Taken(event, event.data, partition, offset, unconfirmed)
        self._lanes.put((event.cluster, event.data.subject), taken)

    def _read(self, message: Message) -> Event | None:
        where = {"partition": message.partition(), "offset": message.offset()}
        try:
            event = decode(message.value() or b"")
        except DecodeError as error:
            _log.error("a message is no command", error=str(error), **where)
            return None
        if self._settings.cluster is not None and event.cluster != self._settings.cluster:
            _log.error("a command for another cluster", cluster=event.cluster, **where)
            return None
        return event

    def _work(self, taken: Taken) -> None:
        """In a thread of the executor: carry out and answer."""
        command = taken.command
        begun = time.monotonic()
        outcome = self._carry_out(command)
        seconds = time.monotonic() - begun
        self._metrics.count(command, outcome, seconds)
        _log.info(
            "command answered",
            step=command.step.value,
            action=command.action,
            subject=command.subject,
            command=command.command,
            result=outcome.result.value,
            cause=outcome.cause,
            told=outcome.told,
            seconds=round(seconds, 3),
        )
        self._answer(taken, outcome)

    def _answer(self, taken: Taken, outcome: Outcome) -> None:
        event = outcome_event(taken, outcome, instance=self._instance, now=datetime.now(UTC))

        def confirmed(error: KafkaError | None, message: Message) -> None:
            del message
            if error is not None:
                self._broke(explain(error, "sending an outcome"))
                return
            self._metrics.confirmed.inc()
            taken.unconfirmed.confirm(taken.offset)

        while True:
            try:
                self._producer.produce(
                    self._inbox,
                    value=encode(event),
                    key=mailbox_key(event.cluster, event.subject),
                    headers=[("content-type", CONTENT_TYPE.encode())],
                    on_delivery=confirmed,
                )
            except BufferError:
                if self._stop.wait(_FULL):  # it is carried out again by whoever is next
                    return
            except KafkaException as error:
                raise explain(error, "sending an outcome") from error
            else:
                return

    def _broke(self, error: BaseException) -> None:
        """Nothing can be said of what follows: end, and begin again from what is committed."""
        _log.error("the loop has to end", error=repr(error))
        self._fault = self._fault or error

    def _throttle(self) -> None:
        limit = self._settings.in_flight
        if self._reading and self.in_flight >= limit:
            self._consumer.pause(self._consumer.assignment())
            self._reading = False
        elif not self._reading and self.in_flight <= limit // 2:
            self._consumer.resume(self._consumer.assignment())
            self._reading = True

    def _commit_when_due(self) -> None:
        now = time.monotonic()
        if now >= self._commit_at:
            self._commit_at = now + self._settings.consumer.commit_interval.total_seconds()
            self._commit(wait=False)

    def _commit(self, *, wait: bool) -> None:
        moved = {
            partition: position
            for partition, one in self._ours.items()
            if (position := one.position) is not None and self._committed.get(partition) != position
        }
        if not moved:
            return
        places = [
            TopicPartition(self._commands, partition, position) for partition, position in moved.items()
        ]
        try:
            if wait:
                self._consumer.commit(offsets=places, asynchronous=False)
            else:
                self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            # Harmless: what is not committed is carried out again, and changes nothing.
            _log.warning("positions were not committed", error=str(error))
            return
        self._committed.update(moved)

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        del consumer
        for place in places:
            self._ours[place.partition] = Unconfirmed()
            self._committed.pop(place.partition, None)
        self._reading = True
        _log.info("partitions taken up", partitions=[place.partition for place in places])

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        del consumer
        if self._ending:
            return
        self._let_go(places, self._settings.consumer.revoke_grace.total_seconds())
        self._commit(wait=True)
        self._forget(places)

    def _lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        del consumer
        self._let_go(places, 0)
        self._forget(places)

    def _let_go(self, places: list[TopicPartition], patience: float) -> None:
        gone = {place.partition for place in places}
        self._metrics.dropped.inc(self._lanes.drop(lambda taken: taken.partition in gone))
        self._lanes.settle(patience)
        self._producer.flush(patience)

    def _forget(self, places: list[TopicPartition]) -> None:
        for place in places:
            self._ours.pop(place.partition, None)
            self._committed.pop(place.partition, None)

    def _end(self) -> None:
        """In good order within the grace, broker or no broker: nothing here waits for an answer of it."""
        self._ending = True
        ends = time.monotonic() + self._settings.consumer.stop_grace.total_seconds()
        self._metrics.dropped.inc(self._lanes.drop(_any))
        settled = self._lanes.settle(max(0.0, ends - time.monotonic()))
        self._producer.flush(max(0.0, min(_FLUSH, ends - time.monotonic())))
        _log.info("commands ended", settled=settled, unconfirmed=self.in_flight)
        self._commit(wait=False)
        self._close(max(_CLOSE, ends - time.monotonic()))

    def _close(self, patience: float) -> None:
        """Leave the group. Without a broker the client waits, up to a minute: it is left behind then; what is not committed is repeated."""
        closing = threading.Thread(target=self._consumer.close, name="closing", daemon=True)
        closing.start()
        closing.join(patience)
        if closing.is_alive():
            _log.warning("the broker does not answer: the group will miss us after its session timeout")


def _any(taken: Taken) -> bool:
    del taken
    return True


def outcome_event(taken: Taken, outcome: Outcome, *, instance: str, now: datetime) -> Event:
    """The outcome as a message: its id and origin are the command's place, the same at every repeat."""
    event = taken.event
    return make_event(
        outcome,
        id=derive_id("outcome", event.cluster, event.id),
        source=f"/clusters/{event.cluster}/{STAGE}/{instance}",
        subject=taken.command.subject,
        time=now,
        cluster=event.cluster,
        origin=Origin(STAGE, taken.partition, taken.offset, 0),
        timequality=TimeQuality.SYNCED,
    )
