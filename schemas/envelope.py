"""The envelope: CloudEvents 1.0, structured mode, JSON.

An `Event` is one message. Its `type` names the payload class (`dev.relight.signal.chip_fault.v1`), `subject` the mailbox, `time` the
event time on the clock of the source. relight's extension attributes are `cluster`, `origin`, `trust` and `timequality`.

`Origin` says which message of which stage made this one: (stage, source partition, source offset, index). A restarted stage sends some
emits again at new offsets, with the same origin, and the receiving mailbox drops what it has already had (design 5, finding Q1).
A producer with a spool is a stage as well: its partition is 0 and its offset the spool's sequence number, so its repeats are dropped too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    field_validator,
)

from schemas.errors import DecodeError, OversizedError, UnknownTypeError

MAX_EVENT_BYTES: Final = 900_000
"""Largest message relight accepts, below Kafka's default limit of 1 MB a batch."""

CONTENT_TYPE: Final = "application/cloudevents+json; charset=UTF-8"
"""Header `content-type` of a Kafka message, by which other readers know structured mode (CloudEvents' Kafka binding)."""

TYPE_PREFIX: Final = "dev.relight."


class Trust(StrEnum):
    """Trust is a property of the topic a message came in by, never of the message (design 6, finding R47)."""

    INTERNAL = "internal"
    EXTERNAL = "external"


class TimeQuality(StrEnum):
    """What is known of the clock behind `time`."""

    SYNCED = "synced"
    """The node's offset is measured and within bounds."""
    UNKNOWN = "unknown"
    CLAMPED = "clamped"
    """Implausible: replaced by the arrival time; such an event is never counted in a window."""


class Origin(NamedTuple):
    """Which message of which stage made this one; ordered within one (stage, partition) by (offset, index)."""

    stage: str
    partition: int
    offset: int
    index: int  # type: ignore[assignment] # the word of the design; a tuple's method of that name is not used

    def __str__(self) -> str:
        """Wire form, `stage/partition/offset/index`."""
        return f"{self.stage}/{self.partition}/{self.offset}/{self.index}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the wire form; ValueError when it is none."""
        stage, partition, offset, index = text.rsplit("/", 3)
        if not stage:
            raise ValueError(f"origin {text!r} names no stage; right would be stage/partition/offset/index")
        return cls(stage, int(partition), int(offset), int(index))


class Payload(BaseModel):
    """Base of everything that can be the `data` of an event. Immutable; unknown fields of newer releases are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_timedelta="float", use_enum_values=False)
    TYPE: ClassVar[str] = ""
    """CloudEvents type, set by each class that may stand in an envelope."""


class Event(BaseModel):
    """One message: a CloudEvents 1.0 event whose `data` is one of relight's payloads."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_timedelta="float")

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[str, Field(min_length=1, max_length=200)]
    source: Annotated[str, Field(min_length=1, max_length=300)]
    """URI reference of the sender: `/clusters/<cluster>/<component>/<instance>`."""
    type: str
    subject: Annotated[str, Field(min_length=1, max_length=300)]
    time: Annotated[AwareDatetime, Field(strict=True)]
    """Text as in RFC 3339; a bare number is refused."""
    datacontenttype: Literal["application/json"] = "application/json"
    cluster: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
    origin: Annotated[str | None, Field(max_length=400)] = None
    trust: Trust = Trust.INTERNAL
    timequality: TimeQuality = TimeQuality.UNKNOWN
    data: Payload

    @field_validator("origin")
    @classmethod
    def _origin_is_wellformed(cls, value: str | None) -> str | None:
        if value is not None:
            Origin.parse(value)
        return value

    @property
    def origin_parts(self) -> Origin | None:
        """The origin, parsed; None for a message that carries none."""
        return None if self.origin is None else Origin.parse(self.origin)


_event_models: dict[str, type[Event]] = {}
_adapter: TypeAdapter[Event] | None = None


def register(*payloads: type[Payload]) -> None:
    """Make payload classes known to `decode`; called once by `schemas.catalogue`, again is harmless."""
    global _adapter  # noqa: PLW0603 - one adapter for the whole process, built from the registry
    for payload in payloads:
        if not payload.TYPE.startswith(TYPE_PREFIX):
            raise ValueError(
                f"{payload.__name__}.TYPE is {payload.TYPE!r}; it must begin with {TYPE_PREFIX!r}"
            )
        _event_models[payload.TYPE] = create_model(
            f"{payload.__name__}Event",
            __base__=Event,
            type=(Literal[payload.TYPE], payload.TYPE),  # type: ignore[arg-type] # made at run time from the registry
            data=(payload, ...),
        )
    _adapter = None


def registered_models() -> dict[str, type[Event]]:
    """Event model by CloudEvents type, for exporters of schemas."""
    _loaded_adapter()
    return dict(_event_models)


def _loaded_adapter() -> TypeAdapter[Event]:
    global _adapter  # noqa: PLW0603 - see register
    if _adapter is None:
        if not _event_models:
            import schemas.catalogue  # noqa: F401, PLC0415 - registers all payloads; imported late, it imports this module
        union = Annotated[_union(_event_models.values()), Field(discriminator="type")]  # type: ignore[valid-type]
        _adapter = TypeAdapter(union)  # type: ignore[arg-type] # made at run time from the registry
    return _adapter


def _union(models: Iterable[type[Event]]) -> Any:  # noqa: ANN401 - a union made at run time has no type
    joined: Any = None
    for model in models:
        joined = model if joined is None else joined | model
    return joined


def make_event(
    data: Payload,
    *,
    id: str,  # noqa: A002 - the CloudEvents attribute's own name
    source: str,
    subject: str,
    time: datetime,
    cluster: str,
    origin: Origin | None = None,
    trust: Trust = Trust.INTERNAL,
    timequality: TimeQuality = TimeQuality.UNKNOWN,
) -> Event:
    """Build a validated event around a payload."""
    _loaded_adapter()
    model = _event_models[data.TYPE]
    return model(  # type: ignore[call-arg] # each registered model fixes its own type
        id=id,
        source=source,
        subject=subject,
        time=time,
        cluster=cluster,
        origin=None if origin is None else str(origin),
        trust=trust,
        timequality=timequality,
        data=data,
    )


def encode(event: Event) -> bytes:
    """Structured CloudEvents JSON in UTF-8; None and absent attributes are left out."""
    return event.__pydantic_serializer__.to_json(event, exclude_none=True)


def decode(raw: bytes) -> Event:
    """Validate bytes into an event.

    Raises OversizedError, UnknownTypeError, or DecodeError with the place of the first fault; never anything else.
    """
    if len(raw) > MAX_EVENT_BYTES:
        raise OversizedError(f"message has {len(raw):,} bytes; at most {MAX_EVENT_BYTES:,} are accepted")
    try:
        return _loaded_adapter().validate_json(raw)
    except ValidationError as error:
        raise _explain(error) from None
    except RecursionError:
        raise DecodeError("nested too deeply to be read") from None


def _explain(error: ValidationError) -> DecodeError:
    first = error.errors(include_url=False, include_context=True)[0]
    if first["type"] == "union_tag_invalid":
        tag = first.get("ctx", {}).get("tag", "")
        return UnknownTypeError(f"type {str(tag)[:120]!r} is unknown to this release", "type")
    if first["type"] == "union_tag_not_found":
        return UnknownTypeError("no CloudEvents type given", "type")
    place = ".".join(str(part) for part in first["loc"][1:] or first["loc"])
    shown = repr(first.get("input"))[:120]
    return DecodeError(f"{first['msg']} (got {shown})", place)
