"""The run says that it is as fast as before, which ends the incident as recovered.

Guarantee: whether that word or the answer to the command that started the processes is heard first makes no difference. A word that comes
first is kept in the incident and counts when the answer has come, for only then it is known that all of the run was started; a start that fails
takes it along, and so does a process that ends or stands still meanwhile. Words of processes that were replaced count never.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from recovery.cells import COUNTERS_CELL, INCIDENT_CELL, IncidentCell
from recovery.counters import counters_of, known_attempt
from recovery.plan import close
from recovery.steps import STARTING
from recovery.turn import Turn
from schemas.records import IncidentResult, IncidentState
from schemas.signals import Milestone


def stable_came(turn: Turn, incident: IncidentCell, data: Milestone) -> None:
    """A process says that the run is stable."""
    if incident.state is IncidentState.STABILISING and _is_of_now(turn, incident, data):
        became_stable(turn, incident)
    elif _ends_by_starting(incident) and _is_of_now(turn, incident, data):
        # A clock that runs fast must not make the next recovery wait for hours: patience is a multiple of what it took.
        turn.put(INCIDENT_CELL, replace(incident, stable_at=min(turn.event.time, turn.now)))


def became_stable(turn: Turn, incident: IncidentCell) -> None:
    """Throughput is what it was: the incident is over."""
    counters = counters_of(turn)
    began, ended = counters.last_restart_at or turn.now, turn.now
    if incident.stable_at is not None:  # said before it was known that all had started
        began, ended = incident.started_at or incident.stable_at, incident.stable_at
    seconds = max(0.0, (ended - began).total_seconds())
    turn.put(COUNTERS_CELL, replace(counters, seconds_to_stable=seconds))
    close(turn, incident, IncidentResult.RECOVERED)


def _ends_by_starting(incident: IncidentCell) -> bool:
    """Under way is the last step of a plan, and it starts processes."""
    step = incident.step
    acting = incident.state is IncidentState.ACTING and incident.begun and step is not None
    return acting and step is not None and step.step in STARTING and incident.index + 1 == len(incident.steps)


def _is_of_now(turn: Turn, incident: IncidentCell, data: Milestone) -> bool:
    """By the attempt it says; where that says nothing, by when it was said: the old processes had ended before the new ones were started."""
    attempt = known_attempt(turn, data.attempt)
    if attempt is not None:
        return attempt == incident.attempt
    since: datetime | None = incident.started_at or counters_of(turn).last_restart_at
    return since is None or turn.event.time >= since
