"""The course of the latest recovery, out of the events: what was seen, decided and why, which steps were taken, how long each phase took. Pure.

Phases end where the record lets them end (`audit/views/02_recovery_time.sql`); the one that is under way lasts until now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sandbox.demo.acts import IN_PLACE
from sandbox.demo.happening import said_of
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event, Payload
from schemas.records import Decision, Incident, IncidentState
from schemas.signals import Milestone, MilestoneName

Wanted = Callable[[Payload], bool]

RESTARTS: Final = frozenset({StepName.START_PROCESSES, StepName.RESUME_JOB})
"""Steps with whose beginning everything old has ended."""


@dataclass(frozen=True)
class StepTaken:
    """A step: when it began, and what became of it."""

    name: str
    began: datetime
    ended: datetime | None
    result: str


@dataclass(frozen=True)
class Phase:
    """A phase: its length so far."""

    name: str
    seconds: float
    over: bool


@dataclass(frozen=True)
class Course:
    """One recovery."""

    evidence: str
    decision: Decision | None
    """Which chose its strategy."""
    state: str
    """`acting`, `stabilising`, ..., or how it ended."""
    over: bool
    steps: tuple[StepTaken, ...]
    phases: tuple[Phase, ...]


def latest(events: Sequence[Event], ranks: int, now: datetime) -> Course | None:
    """Of the incident that was opened last; None before the first."""
    states = [event.data for event in events if isinstance(event.data, Incident)]
    if not states:
        return None
    newest = max(states, key=lambda one: one.opened_at).incident
    incident = [state for state in states if state.incident == newest][-1]
    decision = _decision(events, incident)
    told = [event for event in events if event.id == incident.trigger]
    over = incident.state is IncidentState.CLOSED
    return Course(
        evidence=next(iter(filter(None, (said_of(event.data) for event in told))), ""),
        decision=decision,
        state=incident.result.value if over and incident.result else incident.state.value,
        over=over,
        steps=_steps(events, incident),
        phases=_phases(events, incident, ranks, now),
    )


def _decision(events: Sequence[Event], incident: Incident) -> Decision | None:
    made = [
        event.data
        for event in events
        if isinstance(event.data, Decision)
        and event.data.mode == "enforce"
        and event.data.incident == incident.incident
        and event.data.verdict == incident.strategy
    ]
    return made[-1] if made else None


def _steps(events: Sequence[Event], incident: Incident) -> tuple[StepTaken, ...]:
    begun = [
        (event.time, event.data)
        for event in events
        if isinstance(event.data, Command) and event.data.incident == incident.incident
        and event.data.action == "begin" and event.data.step is not StepName.NOTIFY
    ]  # fmt: skip
    ends = {
        event.data.command: event
        for event in events
        if isinstance(event.data, Outcome) and event.data.result is not OutcomeResult.PENDING
    }
    return tuple(_step(began, command, ends.get(command.command)) for began, command in begun)


def _step(began: datetime, command: Command, end: Event | None) -> StepTaken:
    result = end.data.result.value if end is not None and isinstance(end.data, Outcome) else ""
    return StepTaken(command.step.value, began, None if end is None else end.time, result)


def _phases(events: Sequence[Event], incident: Incident, ranks: int, now: datetime) -> tuple[Phase, ...]:
    found: list[Phase] = []
    began = incident.fault_time
    for name, ended in _ends(events, incident, ranks):
        until = ended or now
        found.append(Phase(name, max(0.0, (until - began).total_seconds()), ended is not None))
        if ended is None:
            break
        began = max(began, ended)
    return tuple(found)


def _ends(events: Sequence[Event], incident: Incident, ranks: int) -> list[tuple[str, datetime | None]]:
    """Phases of the strategy with the moments at which they ended, None for those that have not."""
    decided = _time_of(
        events,
        lambda data: (
            isinstance(data, Decision)
            and data.mode == "enforce"
            and data.incident == incident.incident
            and data.verdict == incident.strategy
        ),
    )
    if decided is None:
        return [("detection", None)]
    mine = [event for event in events if getattr(event.data, "incident", "") == incident.incident]
    terminated = _time_of(
        mine, lambda data: isinstance(data, Command) and data.action == "begin" and data.step in RESTARTS
    )
    scheduled = _time_of(
        mine,
        lambda data: (
            isinstance(data, Outcome)
            and data.step is StepName.RESUME_JOB
            and data.result is OutcomeResult.DONE
        ),
    )
    closed = incident.updated_at if incident.state is IncidentState.CLOSED else None

    def reached(name: MilestoneName) -> datetime | None:
        return _reached(events, name, ranks, since=decided)

    meeting = [
        ("communication", reached(MilestoneName.COMMUNICATION_READY)),
        ("checkpoint", reached(MilestoneName.CHECKPOINT_LOADED)),
    ]
    requeue = (
        []
        if incident.strategy == IN_PLACE
        else [("requeue", scheduled), ("warm up", reached(MilestoneName.COMMAND_STARTED))]
    )
    return [
        ("detection", decided),
        ("termination", terminated),
        *requeue,
        *meeting,
        ("stabilisation", closed),
    ]


def _time_of(events: Sequence[Event], wanted: Wanted) -> datetime | None:
    times = [event.time for event in events if wanted(event.data)]
    return times[-1] if times else None


def _reached(events: Sequence[Event], name: MilestoneName, ranks: int, *, since: datetime) -> datetime | None:
    """When the last rank was there."""
    told = {
        event.data.placement.rank: event.time
        for event in events
        if isinstance(event.data, Milestone) and event.data.name is name and event.time >= since
    }
    return max(told.values()) if len(told) >= ranks else None
