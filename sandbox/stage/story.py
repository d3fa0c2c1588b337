"""What happened on a stage, in one text: for whoever reads a failed test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from runtime.kubernetes import Object
from sandbox.stage.program import Program
from sandbox.stage.records import Records
from sandbox.stage.training_job import TrainingJob
from schemas import topics
from schemas.commands import Command, Outcome
from schemas.envelope import Event
from schemas.records import Decision, Incident
from schemas.signals import ProcessExit, ProcessState

LOG_LINES = 12
LONGEST_LINE = 400
SIGNALS_LEFT_OUT = frozenset({"heartbeat", "metric", "milestone", "pre_check", "progress"})


def tell(
    records: Records,
    programs: Iterable[Program],
    jobs: Iterable[TrainingJob],
    pods: Sequence[Object],
    *,
    since: datetime,
    notes: Iterable[tuple[datetime, str]] = (),
) -> str:
    """All of it from some time on, oldest first; `notes` are what somebody did to it, and when."""
    lines = [(event.time, _line(event)) for event in _events(records) if event.time >= since]
    lines += [(at, f"{_clock(at)} *** {text}") for at, text in notes]
    parts = ["", "--- what was seen, decided and done"]
    parts += [line for _, line in sorted(lines, key=lambda each: each[0])]
    parts += [f"dead letter: {reason}: {value[:200]!r}" for reason, value in records.dead_letters]
    for job in jobs:
        parts.append(f"--- {job.name}: checkpoints {job.saved_steps()}")
        parts += [str(line) for line in (*job.said("started"), *job.said("failed"), *job.said("finished"))]
    parts.append("--- pods")
    parts += [_pod(pod) for pod in pods]
    for program in programs:
        parts.append(f"--- {program.name} ({'runs' if program.is_running else 'does not run'})")
        parts += [line[:LONGEST_LINE] for line in program.said().splitlines()[-LOG_LINES:]]
    return "\n".join(parts)


def _events(records: Records) -> list[Event]:
    read = (topics.SIGNALS, topics.DECISIONS, topics.COMMANDS, topics.INCIDENTS, topics.INBOX)
    found = [
        event
        for topic in read
        for event in records.events(topic)
        if _kind(event) not in SIGNALS_LEFT_OUT and (topic is not topics.INBOX or _kind(event) == "outcome")
    ]
    return sorted(found, key=lambda event: event.time)


def _kind(event: Event) -> str:
    return str(getattr(event.data, "kind", ""))


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S.%f}"[:-3]


def _line(event: Event) -> str:
    told = _clock(event.time)
    data = event.data
    match data:
        case Decision():
            said = f"{data.verdict} by {data.rule} (row {data.row}): {data.reason} {list(data.flags)}"
        case Command():
            said = (
                f"{data.action} {data.step.value} (attempt {data.attempt}, look {data.look}) {data.arguments}"
            )
        case Outcome():
            said = f"{data.step.value} {data.result.value} {data.cause or ''} told={data.told} {data.detail or ''}"
        case Incident():
            said = f"{data.state.value} {data.strategy}/{data.step} {data.result or ''} {data.result_cause or ''}"
        case ProcessState():
            said = f"{data.placement.pod} {data.state.value} epoch {data.epoch} attempt {data.attempt}"
        case ProcessExit():
            said = f"{data.placement.pod} code {data.exit_code} signal {data.signal} ordered {data.ordered_attempt}"
        case _:
            said = data.model_dump_json(exclude_none=True)
    return f"{told} {_kind(event)} {event.subject}: {said}"[:LONGEST_LINE]


def _pod(pod: Object) -> str:
    status = pod.get("status") or {}
    containers = [
        f"{each['name']} restarts={each.get('restartCount')} {each.get('state')}"
        for each in (*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or []))
    ]
    metadata = pod["metadata"]
    desired = (metadata.get("annotations") or {}).get("relight.dev/desired")
    where = (pod.get("spec") or {}).get("nodeName")
    return f"{metadata['name']} on {where}: {status.get('phase')} {status.get('reason', '')} {containers} desired={desired}"
