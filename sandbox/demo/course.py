"""The course of the latest recovery, out of the events: what was seen, decided and why, which steps were taken, how long each phase took. Pure.

How long phases are is the record's definition (`sandbox.demo.phases`); the one that is under way lasts until now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sandbox.demo.happening import said_of
from sandbox.demo.phases import Phase, phases_of
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event
from schemas.records import Decision, Incident, IncidentState


@dataclass(frozen=True)
class StepTaken:
    """A step: when it began, and what became of it."""

    name: str
    began: datetime
    ended: datetime | None
    result: str


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


def latest(
    events: Sequence[Event], ranks: int, now: datetime, arrived: Mapping[str, datetime] | None = None
) -> Course | None:
    """Of the incident that was opened last; None before the first. `arrived`: when the broker had each event, by its id."""
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
        phases=phases_of(events, incident, ranks, now, arrived),
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
