"""Publishing a rulebook: first its content, then, when that is confirmed, a switch to each inbox partition.

Guarantees: a partition is told to switch only after the content is in `rulebooks.v1`, so it never waits for what
nobody wrote; each partition is written to by number and confirmed by itself (finding Q25); repeating a release
writes no second content and sends the same switches again, which partitions that already decide by it ignore. A
rulebook is known by the hash of its content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from rules.compiled import content_of, hash_of
from rules.model import RulebookDocument
from runtime.errors import BrokerAway, BrokerRefused
from runtime.kafka import KafkaClients, explain
from runtime.settings import Settings
from schemas.envelope import MAX_EVENT_BYTES, Event, decode, encode, make_event
from schemas.errors import DecodeError
from schemas.ids import derive_id, mailbox_key, partition_subject
from schemas.mailbox import RulebookSwitch
from schemas.records import RulebookRelease
from schemas.topics import INBOX, RULEBOOKS

_SOURCE: Final = "/clusters/{cluster}/cli/rules"
_AT_ONCE: Final = 100
_WAIT_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Switched:
    """Which partitions confirmed the switch, and why others did not."""

    confirmed: tuple[int, ...]
    missing: dict[int, str] = field(default_factory=dict)


class Releases:
    """Releases of one cluster on one broker."""

    def __init__(self, settings: Settings, clients: KafkaClients, cluster: str, patience: timedelta) -> None:
        """`patience` bounds each exchange with the broker."""
        self._settings = settings
        self._clients = clients
        self._cluster = cluster
        self._patience = patience

    def newest(self) -> RulebookRelease | None:
        """What was released last; None when nothing was."""
        consumer = self._clients.reader()
        try:
            releases = self._read_all(consumer, self._settings.topic(RULEBOOKS.name))
        except KafkaException as error:
            raise explain(error, f"reading {RULEBOOKS.name}") from error
        finally:
            consumer.close()
        return max(releases, key=lambda release: release.released_at, default=None)

    def publish(self, document: RulebookDocument, *, by: str, now: datetime) -> RulebookRelease:
        """Write the content and wait for its confirmation. Raises BrokerError; nothing was switched then."""
        content = content_of(document)
        release = RulebookRelease(
            rulebook=hash_of(content), released_by=by, released_at=now, title=document.title, content=content
        )
        event = make_event(
            release,
            id=derive_id("rulebook", self._cluster, release.rulebook, now.isoformat()),
            source=_SOURCE.format(cluster=self._cluster),
            subject=f"rulebook/{release.rulebook}",
            time=now,
            cluster=self._cluster,
        )
        raw = encode(event)
        if len(raw) > MAX_EVENT_BYTES:
            message = f"the rulebook has {len(raw):,} bytes; at most {MAX_EVENT_BYTES:,} can be published"
            raise BrokerRefused(message)
        topic = self._settings.topic(RULEBOOKS.name)
        producer = self._clients.bounded_producer(self._patience)
        failed: list[KafkaError] = []
        key = release.rulebook.encode()
        producer.produce(
            topic, key=key, value=raw, on_delivery=lambda error, _: failed.append(error) if error else None
        )
        left = producer.flush(self._patience.total_seconds())
        if failed:
            raise explain(failed[0], f"writing the rulebook to {topic}")
        if left:
            raise BrokerAway(f"writing the rulebook to {topic}: not confirmed in {self._patience}")
        return release

    def switch(self, release: RulebookRelease, *, by: str, now: datetime) -> Switched:
        """Tell each inbox partition to decide by the release, and wait for every confirmation."""
        topic = self._settings.topic(INBOX.name)
        producer = self._clients.bounded_producer(self._patience)
        partitions = self._partitions(topic)
        confirmed: list[int] = []
        missing = dict.fromkeys(partitions, "not confirmed in time")
        for number in partitions:
            subject = partition_subject(number)
            producer.produce(
                topic,
                key=mailbox_key(self._cluster, subject),
                value=encode(self._switch_event(release, number, by=by, now=now)),
                partition=number,
                on_delivery=_note(number, confirmed, missing),
            )
        producer.flush(self._patience.total_seconds())
        return Switched(tuple(sorted(confirmed)), missing)

    def _switch_event(self, release: RulebookRelease, number: int, *, by: str, now: datetime) -> Event:
        told = (self._cluster, release.rulebook, release.released_at.isoformat(), number)
        return make_event(
            RulebookSwitch(rulebook=release.rulebook, released_by=by),
            id=derive_id("rulebook_switch", *told),
            source=_SOURCE.format(cluster=self._cluster),
            subject=partition_subject(number),
            time=now,
            cluster=self._cluster,
        )

    def _partitions(self, topic: str) -> list[int]:
        consumer = self._clients.reader()
        try:
            return self._known_partitions(consumer, topic)
        except KafkaException as error:
            raise explain(error, f"describing {topic}") from error
        finally:
            consumer.close()

    def _known_partitions(self, consumer: Consumer, topic: str) -> list[int]:
        known = consumer.list_topics(topic, timeout=self._patience.total_seconds()).topics[topic]
        if known.error is not None:
            raise KafkaException(known.error)
        return sorted(known.partitions)

    def _read_all(self, consumer: Consumer, topic: str) -> list[RulebookRelease]:
        patience = self._patience.total_seconds()
        ends, places = {}, []
        for number in self._known_partitions(consumer, topic):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=patience)
            if low < high:
                ends[number] = high
                places.append(TopicPartition(topic, number, low))
        releases: list[RulebookRelease] = []
        consumer.assign(places)
        silent = 0.0
        while ends:
            messages = consumer.consume(_AT_ONCE, _WAIT_SECONDS)
            silent = 0.0 if messages else silent + _WAIT_SECONDS
            if silent >= patience:
                raise BrokerAway(
                    f"reading {topic}: nothing came for {patience:.0f} s, and it is not read to its end"
                )
            releases += [
                release for message in messages if (release := self._release_in(message)) is not None
            ]
            for place in consumer.position([TopicPartition(topic, number) for number in ends]):
                if place.offset >= ends[place.partition]:
                    del ends[place.partition]
        return releases

    def _release_in(self, message: Message) -> RulebookRelease | None:
        error, raw = message.error(), message.value()
        if error is not None:
            raise KafkaException(error)
        try:
            event = decode(raw or b"")
        except DecodeError:
            return None
        mine = event.cluster == self._cluster
        return event.data if mine and isinstance(event.data, RulebookRelease) else None


def _note(
    number: int, confirmed: list[int], missing: dict[int, str]
) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        del message
        if error is None:
            confirmed.append(number)
            del missing[number]
        else:
            missing[number] = error.str()

    return delivered
