"""What stands in the topics, read when asked and kept: decisions, commands, outcomes, incidents, dead letters, in the order of their times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from runtime.kafka import KafkaClients
from runtime.settings import Settings
from schemas import topics
from schemas.commands import Command, Outcome
from schemas.envelope import Event, Payload, decode
from schemas.errors import SchemaError
from schemas.ids import run_subject
from schemas.records import Decision, Incident

P = TypeVar("P", bound=Payload)

READ: Final = (
    topics.SIGNALS, topics.INBOX, topics.COMMANDS, topics.DECISIONS, topics.INCIDENTS, topics.DEADLETTERS
)  # fmt: skip
AT_ONCE: Final = 1000
SECONDS: Final = 0.1


class Records:
    """Reads only: joins no group, commits nothing. Not safe for several threads."""

    def __init__(self, settings: Settings) -> None:
        """Topics must exist; everything in them from the beginning is read."""
        self._names = {settings.topic(topic.name): topic.name for topic in READ}
        self._consumer: Consumer = KafkaClients(settings.kafka, "relight-stage").reader()
        partitions = range(settings.topics.partitions)
        self._consumer.assign([
            TopicPartition(name, partition, OFFSET_BEGINNING) for name in self._names for partition in partitions
        ])  # fmt: skip
        self._events: dict[str, list[Event]] = {topic.name: [] for topic in READ}
        self.arrived: dict[str, datetime] = {}
        """When the broker had each event first, by its id."""
        self.dead_letters: list[tuple[str, bytes]] = []
        """Reason and original bytes."""

    def refresh(self) -> None:
        """Take in what has come since."""
        while messages := self._consumer.consume(AT_ONCE, SECONDS):
            for message in messages:
                self._take(message)

    def events(self, topic: topics.Topic) -> list[Event]:
        """All events of a topic, by their time."""
        return sorted(self._events[topic.name], key=lambda event: event.time)

    def of(self, kind: type[P], topic: topics.Topic) -> list[P]:
        """All payloads of one kind in a topic, by time."""
        return [event.data for event in self.events(topic) if isinstance(event.data, kind)]

    def decisions(self, run: str) -> list[Decision]:
        """What was decided in a run's mailbox, oldest first."""
        told = self.events(topics.DECISIONS)
        return [
            each.data for each in told if each.subject == run_subject(run) and isinstance(each.data, Decision)
        ]

    def incidents(self, run: str) -> list[Incident]:
        """The present state of each incident of a run, oldest first."""
        names = dict.fromkeys(decision.incident for decision in self.decisions(run) if decision.incident)
        return [states[-1] for name in names if (states := self.states(name))]

    def states(self, incident: str) -> list[Incident]:
        """All states an incident went through."""
        return [each for each in self.of(Incident, topics.INCIDENTS) if each.incident == incident]

    def commands(self, run: str) -> list[Command]:
        """What was commanded for a run."""
        return [each for each in self.of(Command, topics.COMMANDS) if each.subject == run_subject(run)]

    def outcomes(self, run: str) -> list[Outcome]:
        """What became of it, as told to the run's mailbox."""
        told = self.events(topics.INBOX)
        return [
            each.data for each in told if each.subject == run_subject(run) and isinstance(each.data, Outcome)
        ]

    def close(self) -> None:
        """End the connection."""
        self._consumer.close()

    def _take(self, message: Message) -> None:
        if message.error() is not None:
            return  # the broker is away: told again when it is back
        topic, value = self._names[message.topic() or ""], message.value()
        if value is None:
            return  # a tombstone
        if topic == topics.DEADLETTERS.name:
            reason = next((raw for name, raw in _headers(message) if name == "reason"), b"")
            self.dead_letters.append((reason.decode("utf-8", "replace"), value))
            return
        try:
            event = decode(value)
            self._events[topic].append(event)
            self.arrived.setdefault(event.id, datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC))
        except SchemaError as error:
            self.dead_letters.append((f"unreadable in {topic}: {error}", value))


def _headers(message: Message) -> list[tuple[str, bytes]]:
    told = [each for each in message.headers() or [] if isinstance(each, tuple)]
    return [(str(name), raw) for name, raw in told if isinstance(raw, bytes)]
