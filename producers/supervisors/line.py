"""The words on the line between a supervisor and the node agent: JSON lines on a Unix stream socket (docs/supervisor.md).

Everything that comes from a pod is hostile. Two grades of wrong: what is no line of this version ends the line (`LineBroken`); a report whose
fields say nothing that can be told is `Unreadable`, counted and acknowledged, since a word of the training process that came through would
otherwise be offered again for ever and keep an exit behind it from being heard.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from producers.errors import LineBroken
from schemas.cluster import Desired
from schemas.signals import CheckpointContent, CheckpointTier, LongPhase, MilestoneName

VERSION: Final = 1
LONGEST_LINE: Final = 65_536
"""Bytes, as the supervisor has it."""
LARGEST_NUMBER: Final = 2**53

Count = Annotated[int, Field(ge=0, lt=LARGEST_NUMBER)]
Text = Annotated[str, Field(max_length=2000)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Phases = Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(strict=False, max_length=16)]
"""Phases that began and did not end, once for each process in one, and `save` for a checkpoint."""


class Said(BaseModel):
    """What every line of a supervisor carries; fields of a newer one are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    pod: Text = ""
    epoch: Count = 0
    attempt: Count = 0
    starts: Count = 0
    """MA_PROC_START_CNT, which a `reset` sets back."""
    launch: Count = 0
    """Starts in this pod, never set back: what tells one process of a pod from another."""
    at: Annotated[float, Field(ge=0, lt=1e11, allow_inf_nan=False)] = 0.0
    """Unix seconds on this node's clock."""
    seq: Annotated[int, Field(ge=1, lt=LARGEST_NUMBER)] | None = None
    """Number in the supervisor's own spool: it keeps the report until this number is acknowledged."""


class Standing(BaseModel):
    """How far the process that runs now has come."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    step: Count | None = None
    """Newest it told; None: none yet."""
    open: Phases = ()
    silent: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Seconds since its last word."""
    reported: Count = 0
    """Number of the newest report when this was said: that one and all below are older, and told by this already."""


class Hello(Said):
    """First line: which spool the numbers are of, and where the supervisor stands."""

    type: Literal["hello"]
    spool: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    state: Text = ""
    lost: Count = 0
    """Reports that had no room on the pod's volume."""
    ha: bool = False
    hang_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = 0.0
    """MA_HANG_DETECT_TIME; None: the run does not say. 0 is off, and what a supervisor of an older release leaves out."""
    progress: Standing = Standing()

    @field_validator("hang_minutes", "progress", mode="wrap")
    @classmethod
    def _costs_no_line(
        cls, value: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        """The training process chose these words: if they are no good nobody looks whether it hangs, and its exit is still heard."""
        try:
            return read(value)
        except ValidationError:
            return cls.model_fields[str(info.field_name)].default


class Exit(Said):
    """The command ended."""

    type: Literal["exit"]
    code: Annotated[int, Field(ge=0, le=255)]
    signal: Annotated[int, Field(ge=0, le=64)] = 0
    oom: bool | None = None
    ordered: bool = False


class State(Said):
    """Answer to an order, or a hold that began."""

    type: Literal["state"]
    state: Text
    code: int | None = None


class Started(Said):
    """The command runs."""

    type: Literal["started"]


class PreCheck(Said):
    """One item of the pre-check."""

    type: Literal["precheck"]
    item: Annotated[str, Field(min_length=1, max_length=200)]
    result: Literal["passed", "failed", "skipped"]
    reason: str = ""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    granted: Count | None = None
    found: Count | None = None


class Refused(Said):
    """An order was not taken."""

    type: Literal["refused"]
    reason: str = ""


class Step(Said):
    """The newest training step."""

    type: Literal["progress"]
    step: Count
    step_seconds: Seconds | None = None
    open: Phases | None = None
    """What is open now, whatever became of the edges; None: a supervisor of an older release."""

    @field_validator("open", mode="wrap")
    @classmethod
    def _costs_no_step(cls, value: object, read: ValidatorFunctionWrapHandler) -> object:
        """Of an older supervisor it is a word the training process chose."""
        try:
            return read(value)
        except ValidationError:
            return None


class Boundary(Said):
    """The training process reached a boundary after a restart."""

    type: Literal["milestone"]
    name: Annotated[MilestoneName, Field(strict=False)]
    step: Count | None = None


class Phase(Said):
    """A phase that is long by nature begins or ends."""

    type: Literal["phase"]
    name: Annotated[LongPhase, Field(strict=False)]
    edge: Literal["begin", "end"]
    step: Count | None = None


class Saved(Said):
    """A checkpoint; without tier and path it says only that the run came as far as this step."""

    type: Literal["checkpoint"]
    step: Count
    edge: Literal["begin", "end", "verified", "restored", "broken"] = "end"
    tier: Annotated[CheckpointTier, Field(strict=False)] | None = None
    path: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    manifest_digest: Annotated[str, Field(max_length=200)] | None = None
    contents: Annotated[
        frozenset[Annotated[CheckpointContent, Field(strict=False)]], Field(strict=False, max_length=16)
    ] = frozenset()


Report = Exit | State | Started | PreCheck | Boundary | Phase | Saved
Loose = Step | Refused
"""Said once, to whoever listens now: a number in it is none of the spool's."""
_LOOSE: Final = ("progress", "refused")
_Any = Annotated[Hello | Report | Loose, Field(discriminator="type")]
_adapter: TypeAdapter[Hello | Report | Loose] = TypeAdapter(_Any)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line of this version that tells nothing we know; `why` is for the log."""

    seq: int | None
    why: str


Message = Hello | Report | Loose | Unreadable


def parse(raw: bytes) -> Message:
    """One line without its end. Raises LineBroken."""
    if len(raw) > LONGEST_LINE:
        raise LineBroken(f"a line of {len(raw):,} bytes; at most {LONGEST_LINE:,} are read")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise LineBroken(f"no JSON: {error!s:.100}") from None
    if not isinstance(found, dict) or found.get("v") != VERSION or not isinstance(found.get("type"), str):
        raise LineBroken(f"no line of version {VERSION}: {raw[:60]!r}")
    try:
        return _adapter.validate_python(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        seq = None if found["type"] in _LOOSE else _number(found.get("seq"))
        return Unreadable(seq, f"{found['type']!r:.40}: {place}: {first['msg']}")


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 < value < LARGEST_NUMBER else None


def ack(seq: int) -> bytes:
    """This report and all below are on the agent's disk."""
    return _line({"type": "ack", "seq": seq})


def desired(pod_uid: str, order: Desired) -> bytes:
    """What the pod's processes should do."""
    said: dict[str, Any] = {
        "type": "desired",
        "pod": pod_uid,
        "epoch": order.epoch,
        "attempt": order.attempt,
        "state": order.state.value,
        "otherwise": order.otherwise,
        "grace": order.grace,
        "counter": order.counter,
    }
    if order.until is not None:
        said["until"] = order.until.timestamp()
    return _line(said)


def extend(pod_uid: str, until: float) -> bytes:
    """An answer will come: hold on until then (Unix seconds)."""
    return _line({"type": "extend", "pod": pod_uid, "until": until})


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"v": VERSION, **message}, separators=(",", ":")).encode() + b"\n"
