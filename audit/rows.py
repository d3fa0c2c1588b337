"""Which table a message goes to, and its row there. Pure.

Each class of payload has one table. Copies that the router made in `inbox.v1` of what stands in the signals' topics are left out, ticks as well.
What cannot be decoded here is a dead letter of the audit itself, with its bytes: some topics nobody else reads, and a gap must be seen.
Numbers and times are brought into their columns' range: what others may send must not stop the writer, nor whoever reads it afterwards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import singledispatch
from typing import Any, Final

from schemas.commands import Command, Outcome
from schemas.envelope import Event, Payload, Trust, decode
from schemas.errors import DecodeError
from schemas.facts import Fact
from schemas.ids import RUN, subject_kind, subject_name
from schemas.mailbox import MAILBOX, Tick
from schemas.records import Decision, Incident, RulebookRelease
from schemas.signals import Signal
from schemas.topics import DEADLETTERS, EXTERNAL_SIGNALS, INBOX

Row = dict[str, Any]
NOT_TOLD: Final = -1
NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2299, 12, 31, tzinfo=UTC)
"""Times of a DateTime64 column; outside of them the store keeps what no client can read."""
KEPT_OF_UNREADABLE: Final = 64 * 1024
"""Bytes of a message that only the audit could not read; its length stands beside it."""
_INT32: Final = (-(2**31), 2**31 - 1)
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("attempt", "rank", "exit_code", "count", "told"), _INT32),
    **dict.fromkeys(("epoch", "start", "size", "missing", "look", "schedule_count"), (0, 2**32 - 1)),
    **dict.fromkeys(
        (
            "step_index",
            "job_retries_used",
            "job_retry_num",
            "pod_retries_used",
            "pod_retry_num",
            "unconditional_chain",
            "hang_chain",
            "from_partition",
        ),
        (0, 2**16 - 1),
    ),
    **dict.fromkeys(("from_offset", "bytes"), (0, 2**64 - 1)),
    "step": (-(2**63), 2**63 - 1),
}
"""Ranges of number columns whose values come from others."""
_MAILBOX: Final = tuple(kind for kind in MAILBOX if kind is not Tick)


@dataclass(frozen=True, slots=True)
class Record:
    """A message of a topic, as the consumer got it; `topic` is the catalogue's name, without a prefix."""

    topic: str
    partition: int
    offset: int
    arrived: datetime
    value: bytes | None
    headers: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Placed:
    """A row and its table."""

    table: str
    row: Row


def place(record: Record) -> Placed | None:
    """Table and row of a message; None for what is not kept. Raises DecodeError for what cannot be read."""
    if record.topic == DEADLETTERS.name:
        return Placed("dead_letters", _fitting(_dead_letter(record)) | _position(record))
    if record.value is None:  # a tombstone of a compacted topic
        return None
    try:
        event = decode(record.value)
    except RecursionError as error:
        raise DecodeError("nested too deeply to be read") from error
    if record.topic == INBOX.name and isinstance(event.data, (Signal, Fact)):
        return None
    if record.topic == EXTERNAL_SIGNALS.name and not isinstance(event.data, Signal):
        # Trust belongs to the topic, whatever the message says (finding R47): what we decide and do, only our own topics tell.
        raise DecodeError(f"{event.type} is no signal; other systems may only tell what they see")
    table = _table(event.data)
    if table is None:
        return None
    row = _row(event.data, event)
    if record.topic == EXTERNAL_SIGNALS.name:
        row["trust"] = Trust.EXTERNAL.value
    if "payload" in row:
        row["payload"] = record.value.decode("utf-8", "replace")
    return Placed(table, _fitting(row) | _position(record))


def unreadable(record: Record, why: str) -> Placed:
    """The row of a message this release cannot read: a dead letter whose place is the message's own."""
    original = record.value or b""
    row = {
        "stage": "audit",
        "reason": "unreadable",
        "detail": why[:2000],
        "from_topic": record.topic,
        "from_partition": record.partition,
        "from_offset": record.offset,
        "bytes": len(original),
        "original": original[:KEPT_OF_UNREADABLE].decode("utf-8", "backslashreplace"),
    }
    return Placed("dead_letters", row | _position(record))


def _fitting(row: Row) -> Row:
    for column, (least, most) in _RANGES.items():
        value = row.get(column)
        if isinstance(value, int) and not least <= value <= most:
            row[column] = min(max(value, least), most)
    for column, value in row.items():
        if isinstance(value, datetime):
            row[column] = min(max(value, EARLIEST), LATEST)
    return row


def _position(record: Record) -> Row:
    return {
        "arrived": record.arrived,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
    }


def _table(payload: Payload) -> str | None:  # noqa: PLR0911 - one table a class
    if isinstance(payload, Signal):
        return "signals"
    if isinstance(payload, Fact):
        return "facts"
    if isinstance(payload, Decision):
        return "decisions"
    if isinstance(payload, Incident):
        return "incident_states"
    if isinstance(payload, Command):
        return "commands"
    if isinstance(payload, Outcome):
        return "outcomes"
    if isinstance(payload, RulebookRelease):
        return "rulebooks"
    return "mailbox" if isinstance(payload, _MAILBOX) else None


def _run_of(subject: str) -> str:
    return subject_name(subject) if subject_kind(subject) == RUN else ""


def _common(event: Event) -> Row:
    return {"cluster": event.cluster, "event_id": event.id, "event_time": event.time, "payload": ""}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _number(value: int | None) -> int:
    return NOT_TOLD if value is None else value


@singledispatch
def _row(payload: Payload, event: Event) -> Row:
    """Row of a message between mailboxes or an operator's order: the fields they have in common."""
    node, chip = getattr(payload, "node", None), getattr(payload, "chip", None)
    cause = getattr(payload, "cause", None)
    placement = getattr(payload, "placement", None)
    code = getattr(payload, "code", None) or getattr(cause, "code", None)
    table = getattr(payload, "namespace", None) or getattr(cause, "namespace", None)
    chip = chip or getattr(cause, "chip", None)
    return {
        **_common(event),
        "kind": _text(getattr(payload, "kind", "")),
        "subject": event.subject,
        "source": event.source,
        "node_uid": _text(getattr(node, "uid", None)),
        "node": _text(getattr(node, "name", None)),
        "run": _text(getattr(payload, "run", None) or getattr(placement, "run", None))
        or _run_of(event.subject),
        "incident": _text(getattr(payload, "incident", None)),
        "attempt": _number(getattr(payload, "attempt", None)),
        "code": f"{table}/{code}" if code else "",
        "chip": _text(getattr(chip, "id", None)),
        "answer": _text(getattr(payload, "answer", None)),
        "cause": cause if isinstance(cause, str) else "",
        "ordered_by": _text(getattr(payload, "by", None) or getattr(payload, "released_by", None)),
        "reason": _text(getattr(payload, "reason", None)),
        "until": getattr(payload, "until", None) or NEVER,
    }


@_row.register
def _(payload: Signal, event: Event) -> Row:
    node, where, chip = payload.node, payload.placement, getattr(payload, "chip", None)
    code = getattr(payload, "code", None)
    said = _text(code) and f"{getattr(payload, 'namespace', '')}/{code}"
    offset = payload.clock_offset_seconds
    return {
        **_common(event),
        "timequality": event.timequality.value,
        "source": event.source,
        "subject": event.subject,
        "trust": event.trust.value,
        "kind": _text(getattr(payload, "kind", "")),
        "run": where.run if where else "",
        "node_uid": node.uid if node else "",
        "node": node.name if node else "",
        "pod_uid": _text(where.pod_uid if where else None),
        "pod": _text(where.pod if where else None),
        "namespace": _text(where.namespace if where else None),
        "rank": _number(where.rank if where else None),
        "epoch": (where.epoch if where else None) or 0,
        "chip": _text(getattr(chip, "id", None)),
        "code": said or _text(getattr(payload, "condition", None)),
        "state": _text(getattr(payload, "state", None) or getattr(payload, "result", None)),
        "severity": _text(getattr(payload, "severity", None)),
        "detail": _text(getattr(payload, "detail", None)),
        "start": getattr(payload, "start", 0),
        "exit_code": _number(getattr(payload, "exit_code", None)),
        "exit_signal": getattr(payload, "signal", None) or 0,
        "oom": bool(getattr(payload, "oom", False)),
        "attempt": _number(
            _first(getattr(payload, "attempt", None), getattr(payload, "ordered_attempt", None))
        ),
        "step": _number(getattr(payload, "step", None)),
        "step_seconds": getattr(payload, "step_seconds", None) or 0.0,
        "name": _text(
            _first(*(getattr(payload, name, None) for name in ("name", "item", "phase", "method", "reason")))
        ),
        "edge": _text(_first(getattr(payload, "edge", None), getattr(payload, "phase_edge", None))),
        "tier": _text(getattr(payload, "tier", None)),
        "seconds": getattr(payload, "duration_seconds", 0.0),
        "clock_offset": math.nan if offset is None else offset,
        "unit": _text(getattr(chip, "unit", None) or getattr(payload, "unit", None)),
        "incident": _text(getattr(payload, "incident", None)),
    }


def _first(*values: Any) -> Any:  # noqa: ANN401 - of whatever kind
    return next((value for value in values if value is not None), None)


@_row.register
def _(payload: Fact, event: Event) -> Row:
    node, where = getattr(payload, "node", None), getattr(payload, "placement", None)
    return {
        **_common(event),
        "kind": _text(getattr(payload, "kind", "")),
        "run": _text(getattr(payload, "run", None) or getattr(where, "run", None)),
        "node_uid": _text(getattr(node, "uid", None)),
        "node": _text(getattr(node, "name", None)),
        "pod_uid": _text(getattr(where, "pod_uid", None)),
        "pod": _text(getattr(where, "pod", None)),
        "namespace": _text(getattr(payload, "namespace", None) or getattr(where, "namespace", None)),
        "name": _text(getattr(payload, "name", None)),
        "workload": _text(getattr(payload, "workload", None)),
        "epoch": getattr(payload, "epoch", None) or getattr(where, "epoch", None) or 0,
        "size": getattr(payload, "size", 0),
        "state": _text(getattr(payload, "state", None) or getattr(payload, "how", None)),
        "missing": getattr(payload, "missing", 0),
        "supervised": bool(getattr(payload, "supervised", False)),
        "suspended": bool(getattr(payload, "suspended", False)),
        "ready": bool(getattr(payload, "ready", False)),
        "cordoned": bool(getattr(payload, "cordoned", False)),
        "our_taint": bool(getattr(payload, "our_taint", False)),
        "released_by": _text(getattr(payload, "released_by", None)),
        "chips": list(getattr(payload, "chips", ())),
        "annotations": dict(getattr(payload, "annotations", {})),
    }


@_row.register
def _(payload: Decision, event: Event) -> Row:
    counters = payload.counters
    return {
        **_common(event),
        "subject": event.subject,
        "run": _run_of(event.subject),
        "verdict": payload.verdict,
        "rule": payload.rule,
        "ladder_row": payload.row,
        "mode": payload.mode,
        "reason": payload.reason,
        "rulebook": payload.rulebook,
        "trigger": payload.trigger,
        "trigger_time": payload.trigger_time,
        "incident": _text(payload.incident),
        "attempt": _number(payload.attempt),
        "domain": payload.domain.value,
        "code": _text(payload.code),
        "node": _text(payload.node),
        "chip": _text(payload.chip),
        "count": _number(payload.count),
        "flags": list(payload.flags),
        "job_retries_used": counters.job_retries_used if counters else 0,
        "job_retry_num": counters.job_retry_num if counters else 0,
        "pod_retries_used": counters.pod_retries_used if counters else 0,
        "pod_retry_num": counters.pod_retry_num if counters else 0,
        "unconditional_chain": counters.unconditional_chain if counters else 0,
        "hang_chain": counters.hang_chain if counters else 0,
        "schedule_count": counters.schedule_count if counters else 0,
        "considered": json.dumps([item.model_dump(mode="json") for item in payload.considered]),
    }


@_row.register
def _(payload: Incident, event: Event) -> Row:
    return {
        **_common(event),
        "incident": payload.incident,
        "subject": event.subject,
        "run": _run_of(event.subject),
        "state": payload.state.value,
        "result": payload.result.value if payload.result else "",
        "result_cause": _text(payload.result_cause),
        "opened_at": payload.opened_at,
        "fault_time": payload.fault_time,
        "updated_at": payload.updated_at,
        "attempt": payload.attempt,
        "strategy": _text(payload.strategy),
        "step": _text(payload.step),
        "trigger": payload.trigger,
        "domain": payload.domain.value,
        "nodes": list(payload.nodes),
        "chips": list(payload.chips),
        "epoch": payload.epoch,
        "paused": payload.paused,
        "rulebook": payload.rulebook,
    }


@_row.register
def _(payload: Command, event: Event) -> Row:
    return {
        **_common(event),
        "command": payload.command,
        "incident": payload.incident,
        "attempt": payload.attempt,
        "step": payload.step.value,
        "step_index": payload.index,
        "action": payload.action,
        "look": payload.look,
        "subject": payload.subject,
        "epoch": payload.epoch,
        "deadline": payload.deadline,
        "not_after": payload.not_after,
        "reason": payload.reason,
        "rulebook": payload.rulebook,
        "trigger": payload.trigger,
        "arguments": json.dumps(payload.arguments, sort_keys=True),
    }


@_row.register
def _(payload: Outcome, event: Event) -> Row:
    return {
        **_common(event),
        "command": payload.command,
        "incident": payload.incident,
        "attempt": payload.attempt,
        "step": payload.step.value,
        "look": payload.look,
        "subject": event.subject,
        "source": event.source,
        "result": payload.result.value,
        "cause": _text(payload.cause),
        "detail": _text(payload.detail),
        "told": _number(payload.told),
        "epoch": payload.epoch or 0,
        "effects": list(payload.effects),
    }


@_row.register
def _(payload: RulebookRelease, event: Event) -> Row:
    return {
        "cluster": event.cluster,
        "event_id": event.id,
        "rulebook": payload.rulebook,
        "released_by": payload.released_by,
        "released_at": payload.released_at,
        "title": payload.title,
        "content": json.dumps(payload.content, sort_keys=True),
    }


def _dead_letter(record: Record) -> Row:
    def said(name: str) -> str:
        return record.headers.get(f"relight.{name}", b"").decode("utf-8", "replace")

    def number(name: str) -> int:
        text = said(name)
        return int(text) if text.isascii() and text.isdigit() else 0

    original = record.value or b""
    return {
        "stage": said("stage"),
        "reason": said("reason"),
        "detail": said("detail"),
        "from_topic": said("topic"),
        "from_partition": number("partition"),
        "from_offset": number("offset"),
        "bytes": number("bytes") or len(original),
        "original": original.decode("utf-8", "backslashreplace"),
    }


def moment(milliseconds: int) -> datetime:
    """A broker's time stamp as a moment."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
