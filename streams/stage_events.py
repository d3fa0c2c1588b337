"""Messages the stage itself writes: ticks, gaps, and what it says when it halts a subject.

Ids are derived from what they stand for, so that a repeat has the same one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from schemas.commands import Command, StepName
from schemas.envelope import Event, TimeQuality, make_event
from schemas.ids import RUN, derive_id, partition_subject, subject_kind
from schemas.mailbox import PartitionGap, Tick
from schemas.records import Decision, FaultDomain
from schemas.wording import agreeing, counted
from streams.due_times import Due
from streams.state_records import SubjectKey

HALT_DEADLINE: Final = timedelta(minutes=10)
"""How long an actuator may take to let a halted run's supervisors go: far beyond their own patience of two minutes."""

GAP_NOTICE_LIFE: Final = timedelta(hours=1)

_LOG_TEXT: Final = 2000


def tick(partition: int, entry: Due) -> Event:
    """The due time of a cell has come."""
    cluster, subject = entry.subject
    return make_event(
        Tick(cell=entry.cell, due=entry.due),
        id=derive_id("tick", cluster, subject, entry.cell, entry.due.isoformat()),
        source=_source(cluster, partition),
        subject=subject,
        time=entry.due,
        cluster=cluster,
        timequality=TimeQuality.SYNCED,
    )


def gap(partition: int, cluster: str, *, first_lost: int, first_kept: int, now: datetime) -> Event:
    """The position fell below the start of the log."""
    return make_event(
        PartitionGap(first_lost=first_lost, first_kept=first_kept),
        id=derive_id("gap", cluster, partition, first_lost, first_kept),
        source=_source(cluster, partition),
        subject=partition_subject(partition),
        time=now,
        cluster=cluster,
        timequality=TimeQuality.SYNCED,
    )


def gap_decision(partition: int, event: Event, found: PartitionGap, *, rulebook: str, now: datetime) -> Event:
    """For the record: messages of this partition are lost."""
    lost = found.first_kept - found.first_lost
    return _decision(
        partition,
        event,
        verdict="partition_gap",
        reason=f"{counted(lost, 'message')} of inbox partition {partition} {agreeing(lost, 'was', 'were')} deleted unread "
        f"(offsets {found.first_lost} to {found.first_kept - 1}); its subjects may have missed something",
        rulebook=rulebook,
        now=now,
        domain=FaultDomain.CLUSTER,
    )


def gap_notice(partition: int, event: Event, found: PartitionGap, *, rulebook: str, now: datetime) -> Event:
    """For people, once a partition: something was lost, and a resync of the facts would help."""
    command = derive_id("gap-notice", event.id)
    lost = found.first_kept - found.first_lost
    return make_event(
        Command(
            command=command,
            incident=event.id,
            attempt=0,
            step=StepName.NOTIFY,
            index=0,
            subject=event.subject,
            deadline=now + GAP_NOTICE_LIFE,
            not_after=now + GAP_NOTICE_LIFE,
            reason=f"{counted(lost, 'message')} of inbox partition {partition} {agreeing(lost, 'was', 'were')} deleted unread; "
            "its subjects ask again what they wait for, counts of the last day may be too low",
            rulebook=rulebook,
            trigger=event.id,
            arguments={"about": "partition_gap"},
        ),
        id=command,
        source=_source(event.cluster, partition),
        subject=event.subject,
        time=now,
        cluster=event.cluster,
        timequality=TimeQuality.SYNCED,
    )


def gap_of_subject(partition: int, event: Event, subject: SubjectKey, found: PartitionGap) -> Event:
    """The gap as one subject of the partition is told of it."""
    cluster, name = subject
    return make_event(
        found,
        id=derive_id(event.id, cluster, name),
        source=_source(cluster, partition),
        subject=name,
        time=event.time,
        cluster=cluster,
        timequality=TimeQuality.SYNCED,
    )


def halt_decision(partition: int, event: Event, error: str, *, rulebook: str, now: datetime) -> Event:
    """For the record: the subject is halted and why."""
    return _decision(
        partition,
        event,
        verdict="halted",
        reason=error,
        rulebook=rulebook,
        now=now,
        domain=FaultDomain.PROCESS,
    )


def halt_release(partition: int, event: Event, error: str, *, rulebook: str, now: datetime) -> Event | None:
    """Let the supervisors of a halted run go: they exit with the original code, Kubernetes' own policy decides. None for nodes."""
    if subject_kind(event.subject) != RUN:
        return None
    incident = derive_id("halt", event.cluster, event.subject, event.id)
    command = derive_id(incident, 0, StepName.RELEASE_JOB.value)
    return make_event(
        Command(
            command=command,
            incident=incident,
            attempt=0,
            step=StepName.RELEASE_JOB,
            index=0,
            subject=event.subject,
            deadline=now + HALT_DEADLINE,
            not_after=now + HALT_DEADLINE,
            reason=error[:_LOG_TEXT],
            rulebook=rulebook,
            trigger=event.id,
        ),
        id=command,
        source=_source(event.cluster, partition),
        subject=event.subject,
        time=now,
        cluster=event.cluster,
        timequality=TimeQuality.SYNCED,
    )


def _decision(
    partition: int,
    event: Event,
    *,
    verdict: str,
    reason: str,
    rulebook: str,
    now: datetime,
    domain: FaultDomain,
) -> Event:
    return make_event(
        Decision(
            verdict=verdict,
            rule=f"stage.{verdict}",
            row="stage",
            reason=reason[:_LOG_TEXT],
            rulebook=rulebook,
            trigger=event.id,
            trigger_time=event.time,
            domain=domain,
        ),
        id=derive_id(verdict, event.cluster, event.subject, event.id),
        source=_source(event.cluster, partition),
        subject=event.subject,
        time=now,
        cluster=event.cluster,
        timequality=TimeQuality.SYNCED,
    )


def _source(cluster: str, partition: int) -> str:
    return f"/clusters/{cluster}/recovery/{partition}"
