"""Facts about a run: what the watcher says of the workload object and its issue, as edges."""

from __future__ import annotations

from dataclasses import replace

from recovery.annotations import mirrored_use
from recovery.cells import (
    COUNTERS_CELL,
    INCIDENT_CELL,
    RUN_CELL,
    CountersCell,
    IncidentCell,
)
from recovery.counters import counters_of, ha_of
from recovery.journal import decide, notify
from recovery.pods import forget_past_exits
from recovery.run_state import run_of
from recovery.turn import Turn
from schemas.cluster import POD_RETRIES_USED, RETRIES_USED
from schemas.commands import StepName
from schemas.facts import IssueState, RunSeen
from schemas.ids import derive_id
from schemas.records import FaultDomain, IncidentState

_SUSPENDING = frozenset({StepName.SUSPEND_JOB, StepName.RESUME_JOB})


def run_seen(turn: Turn, data: RunSeen) -> None:
    """The workload object as it stands."""
    before = run_of(turn)
    if before.ended:
        return
    rebuilt = before.failed_at is not None and data.object_uid != before.object_uid
    seen = replace(
        before,
        known=True,
        namespace=data.namespace,
        name=data.name,
        workload=data.workload.value,
        object_uid=data.object_uid,
        size=data.size,
        annotations=tuple(sorted(data.annotations.items())),
        supervised=data.supervised,
        supported=data.supported,
        suspended=data.suspended,
        suspended_by_others=data.suspended
        and (before.suspended_by_others if before.suspended else not _we_suspend(turn)),
        failed_at=None if rebuilt else before.failed_at,
        due=None if rebuilt else before.due,
    )
    if turn.get(COUNTERS_CELL, CountersCell) is None:
        _first_counters(turn, data)
    elif data.epoch > counters_of(turn).schedule_count:
        turn.put(COUNTERS_CELL, replace(counters_of(turn), schedule_count=data.epoch))
        forget_past_exits(turn)
    settings = ha_of(turn, seen)
    turn.put(RUN_CELL, replace(seen, problems=settings.problems))
    if settings.problems and settings.problems != before.problems:
        _say_bad_annotations(turn, settings.problems)


def _we_suspend(turn: Turn) -> bool:
    """A recovery is under way that has begun to suspend or to resume."""
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    if incident is None or incident.state is not IncidentState.ACTING:
        return False
    begun = incident.steps[: incident.index + (1 if incident.begun else 0)]
    return any(step.step in _SUSPENDING for step in begun)


def _first_counters(turn: Turn, data: RunSeen) -> None:
    """The mirror on the job counts only because our own cell is missing (finding Q35)."""
    cell = CountersCell(
        schedule_count=data.epoch,
        job_retries_used=mirrored_use(data.annotations, RETRIES_USED),
        pod_retries_used=mirrored_use(data.annotations, POD_RETRIES_USED),
    )
    turn.put(COUNTERS_CELL, cell)


def _say_bad_annotations(turn: Turn, problems: tuple[str, ...]) -> None:
    reason = "; ".join(problems)[:1900]
    decide(
        turn,
        verdict="record",
        rule="bad-annotation",
        row="0",
        reason=reason,
        domain=FaultDomain.DATA_OR_MODEL,
        flags=("bad_annotation",),
    )
    notify(turn, reason, about="bad_annotation", once_for=derive_id(*problems))


def state_of_issue(turn: Turn, data: IssueState) -> None:
    """The watcher counted the pods of the present issue."""
    run = run_of(turn)
    if data.epoch < counters_of(turn).schedule_count or not run.known:
        return
    turn.put(RUN_CELL, replace(run, incomplete=data.state == "incomplete"))
