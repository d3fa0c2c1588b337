"""For other systems: build an event, check it, and send it to `external-signals.v1`, confirmed.

    with EventPublisher.connect("broker:9092", cluster="lab", source="/clusters/lab/bmc/rack-7") as publisher:
        publisher.publish(chip_fault, id="bmc-4711")

Guarantees: nothing invalid is sent, misspelt optional fields included, and what is wrong is told with its place;
`publish` returns only when the broker has confirmed the event.
The same id again is the same event: mailboxes count it once, so a publisher that does not know whether its event arrived sends it again.

What comes in by this topic is believed less than relight's own eyes: it may notify and add evidence, and isolates only where a rule says so
(design 6).
"""

from __future__ import annotations

import difflib
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, get_args

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pydantic import BaseModel, ValidationError

from producers.errors import DeliveryFailed, EventRefused
from producers.identity import subject_of
from runtime.kafka import KafkaClients, explain
from runtime.settings import KafkaSettings
from schemas import topics
from schemas.envelope import (
    CONTENT_TYPE,
    MAX_EVENT_BYTES,
    TYPE_PREFIX,
    Event,
    decode,
    encode,
    registered_models,
)
from schemas.errors import DecodeError
from schemas.facts import Fact
from schemas.ids import mailbox_key
from schemas.signals import OTHERS_MAY_TELL, SIGNALS, Signal

_HEADERS: Final[list[tuple[str, str | bytes | None]]] = [("content-type", CONTENT_TYPE)]

KINDS: Final[Mapping[str, type[Signal]]] = {
    str(payload.model_fields["kind"].default): payload for payload in SIGNALS
}
"""Signals by the short name of their kind, such as `chip_fault`."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Where the broker put an event."""

    event: Event
    topic: str
    partition: int
    offset: int


def build_event(
    signal: Signal,
    *,
    cluster: str,
    source: str,
    id: str | None = None,  # noqa: A002 - the CloudEvents attribute's own name
    time: datetime | None = None,
    subject: str | None = None,
) -> Event:
    """Put a signal into a valid envelope.

    Args:
        signal: what was seen.
        cluster: id of the cluster it was seen in.
        source: who says so, a URI reference such as `/clusters/lab/bmc/rack-7`; rate caps are per source.
        id: identity of the event within the source; the same again is the same event. None: a random one.
        time: when it happened, aware. None: now.
        subject: mailbox it is about. None: the run it is placed in, else its node.

    Raises EventRefused.
    """
    fields = {
        "id": id,
        "source": source,
        "type": signal.TYPE,
        "subject": subject,
        "time": None if time is None else time.isoformat(),
        "cluster": cluster,
        "data": signal.model_dump(mode="json", exclude_none=True),
    }
    return read_event(fields)


def read_event(
    content: Mapping[str, Any], *, cluster: str | None = None, source: str | None = None, facts: bool = False
) -> Event:
    """Make an event of JSON content, filling in what can be: id, time, subject, and cluster and source where they are given.

    `facts` is for relight's own topic: it admits every signal, and facts about runs and nodes, as a watcher tells them. `type` may be a
    full CloudEvents type or the short name of a signal's kind. Raises EventRefused with the place of the first fault.
    """
    filled = {name: value for name, value in content.items() if value is not None}
    if "type" in filled:
        filled["type"] = _full_type(filled["type"])
    filled.setdefault("specversion", "1.0")
    filled.setdefault("id", uuid.uuid4().hex)
    filled.setdefault("time", datetime.now(UTC).isoformat())
    if cluster is not None:
        filled.setdefault("cluster", cluster)
    if source is not None:
        filled.setdefault("source", source)
    filled.setdefault("subject", "unknown")
    event = _decoded(filled)
    _admit(event, facts=facts)
    _refuse_unknown_fields(event.data, filled["data"], "data")
    if filled["subject"] != "unknown":
        return event
    subject = subject_of(event.data) if isinstance(event.data, Signal) else None
    if subject is None:
        raise EventRefused(
            f"{event.type} names neither a node nor a run; right would be data.node or data.placement", "data"
        )
    return event.model_copy(update={"subject": subject})


def read_lines(
    lines: Iterable[str], *, cluster: str | None = None, source: str | None = None, facts: bool = False
) -> Iterator[tuple[int, Event | EventRefused]]:
    """Read JSON lines: the number of each line that is not blank, with its event or what is wrong with it."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, read_event(_object(line), cluster=cluster, source=source, facts=facts)
        except EventRefused as refused:
            yield number, refused


def _object(line: str) -> Mapping[str, Any]:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise EventRefused(f"no JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise EventRefused("nested too deeply to be read") from None
    if not isinstance(content, dict):
        raise EventRefused(f"a JSON object is wanted, this is {type(content).__name__}")
    return content


def _admit(event: Event, *, facts: bool) -> None:
    if isinstance(event.data, OTHERS_MAY_TELL) or (facts and isinstance(event.data, (Signal, Fact))):
        return
    if not isinstance(event.data, Signal):
        raise EventRefused(
            f"{event.type} is no signal; other systems tell what they saw and nothing else", "type"
        )
    admitted = ", ".join(str(kind.model_fields["kind"].default) for kind in OTHERS_MAY_TELL)
    raise EventRefused(
        f"{event.type} is told by relight's own eyes only; right would be one of {admitted}", "type"
    )


def _refuse_unknown_fields(known: BaseModel, content: Mapping[str, Any], place: str) -> None:
    """A reader passes over fields of newer releases; a writer who misspelt one must hear of it."""
    names = type(known).model_fields
    for name, value in content.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            right = f"{near[0]!r}" if near else f"one of {', '.join(names)}"
            raise EventRefused(f"no such field; right would be {right}", f"{place}.{name}")
        within = getattr(known, name)
        if isinstance(within, BaseModel) and isinstance(value, dict):
            _refuse_unknown_fields(within, value, f"{place}.{name}")


def _full_type(named: object) -> object:
    if isinstance(named, str) and not named.startswith(TYPE_PREFIX):
        if named not in KINDS:
            raise EventRefused(
                f"{named!r:.120} is no kind of signal; right would be one of {', '.join(sorted(KINDS))}",
                "type",
            )
        return KINDS[named].TYPE
    return named


def _decoded(content: Mapping[str, Any]) -> Event:
    try:
        return decode(json.dumps(content).encode())
    except DecodeError as error:
        raise EventRefused(_with_hint(error, content), error.place) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise EventRefused(f"cannot be written as JSON: {error}") from None


def _with_hint(error: DecodeError, content: Mapping[str, Any]) -> str:
    """The reason; where a field is missing, with the one beside it that was meant."""
    if not error.reason.startswith("Field required"):
        return error.reason
    *path, wanted = error.place.split(".")
    beside: object = content
    model: type[BaseModel] | None = registered_models().get(str(content.get("type")))
    for name in path:
        beside = beside.get(name) if isinstance(beside, Mapping) else None
        model = _model_of(model, name)
    known = model.model_fields if model is not None else {}
    given = [name for name in beside if name not in known] if isinstance(beside, Mapping) else []
    near = difflib.get_close_matches(wanted, given, n=1)
    return f"Field required; {near[0]!r} is no field, is it meant?" if near else "Field required"


def _model_of(model: type[BaseModel] | None, name: str) -> type[BaseModel] | None:
    """Model of a field, if it has one."""
    field = model.model_fields.get(name) if model is not None else None
    kinds = () if field is None else (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def build_signal(kind: str, fields: Mapping[str, Any]) -> Signal:
    """Make a signal of plain values. Raises EventRefused with the place of the first fault."""
    try:
        return KINDS[kind].model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise EventRefused(f"{fault['msg']} (got {fault['input']!r:.120})", place) from None


class EventPublisher:
    """Sends events and waits for their confirmation. Use it with `with`."""

    def __init__(
        self,
        producer: Producer,
        *,
        cluster: str,
        source: str,
        topic: str = topics.EXTERNAL_SIGNALS.name,
        patience: timedelta = timedelta(seconds=30),
    ) -> None:
        """Make a publisher on a producer of `runtime.kafka`.

        Args:
            producer: one that gives up by itself within `patience` (`KafkaClients.bounded_producer`).
            cluster: cluster of events that name none.
            source: who speaks.
            topic: name in the broker. The default is for other systems; relight's own topics are closed to them.
            patience: how long to wait for confirmations.
        """
        self._producer = producer
        self._cluster = cluster
        self._source = source
        self._topic = topic
        self._patience = patience

    @classmethod
    def connect(
        cls,
        bootstrap: str,
        *,
        cluster: str,
        source: str,
        client: Mapping[str, str | int | float | bool] | None = None,
        topic: str = topics.EXTERNAL_SIGNALS.name,
        patience: timedelta = timedelta(seconds=30),
    ) -> Self:
        """Make a publisher for a broker; `client` holds more settings of librdkafka (TLS, SASL)."""
        settings = KafkaSettings(bootstrap=bootstrap, client=dict(client or {}))
        producer = KafkaClients(settings, "relight-publish").bounded_producer(patience)
        return cls(producer, cluster=cluster, source=source, topic=topic, patience=patience)

    def publish(
        self,
        signal: Signal,
        *,
        id: str | None = None,  # noqa: A002 - the CloudEvents attribute's own name
        time: datetime | None = None,
    ) -> Confirmed:
        """Send one signal and wait until the broker has it; see `build_event`.

        Raises:
            EventRefused: it is no valid event; nothing was sent.
            DeliveryFailed: not confirmed; it may have arrived, so send it again with the same id.
        """
        event = build_event(signal, cluster=self._cluster, source=self._source, id=id, time=time)
        (result,) = self.send([event])
        if isinstance(result, DeliveryFailed):
            raise result
        return result

    def send(self, events: Iterable[Event]) -> list[Confirmed | DeliveryFailed]:
        """Send events and wait for all; what became of each, in their order. Raises EventRefused before anything is sent."""
        made = [(event, encode(event)) for event in events]
        for event, raw in made:
            if len(raw) > MAX_EVENT_BYTES:
                raise EventRefused(
                    f"event {event.id} has {len(raw):,} bytes; at most {MAX_EVENT_BYTES:,} are accepted"
                )
        results: list[Confirmed | DeliveryFailed] = [
            DeliveryFailed(f"event {event.id}: not confirmed within {self._patience.total_seconds():g} s")
            for event, _ in made
        ]
        deadline = time.monotonic() + self._patience.total_seconds()
        for place, (event, raw) in enumerate(made):
            self._give(event, raw, results, place, deadline)
        self._producer.flush(max(0.0, deadline - time.monotonic()))
        return results

    def _give(
        self,
        event: Event,
        raw: bytes,
        results: list[Confirmed | DeliveryFailed],
        place: int,
        deadline: float,
    ) -> None:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                results[place] = DeliveryFailed(str(explain(error, f"event {event.id}")))
                return
            partition, offset = message.partition(), message.offset()
            results[place] = Confirmed(
                event, self._topic, -1 if partition is None else partition, -1 if offset is None else offset
            )

        key = mailbox_key(event.cluster, event.subject)
        while True:
            try:
                self._producer.produce(self._topic, key=key, value=raw, headers=_HEADERS, on_delivery=report)
            except BufferError:  # the client's queue is full: let some be confirmed
                if time.monotonic() >= deadline:
                    return
                self._producer.poll(0.1)
            except KafkaException as error:
                results[place] = DeliveryFailed(str(explain(error, f"event {event.id}")))
                return
            else:
                self._producer.poll(0)
                return

    def close(self) -> None:
        """Let go of the broker; what was not confirmed was said so."""
        self._producer.purge()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
