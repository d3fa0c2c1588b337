"""What is told to people and other systems: decisions, incident states, notifications."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from recovery.cells import (
    GAP_CELL,
    INCIDENT_CELL,
    NODE_CELL,
    PAUSE_CELL,
    RUN_CELL,
    GapCell,
    IncidentCell,
    NodeCell,
    NoticeCell,
    PauseCell,
    RunCell,
)
from recovery.classification import Fault
from recovery.counters import counters_of, snapshot
from recovery.turn import Turn
from rules.model import Rule
from schemas import topics
from schemas.commands import Command, StepName
from schemas.ids import derive_id
from schemas.records import Considered, Decision, FaultDomain, Incident

NOTICE_LIFE: Final = timedelta(hours=1)


def decide(  # noqa: PLR0913 - a decision record has many sides, all by keyword
    turn: Turn,
    *,
    verdict: str,
    rule: str,
    row: str,
    reason: str,
    domain: FaultDomain,
    mode: str = "enforce",
    fault: Fault | None = None,
    count: int | None = None,
    flags: tuple[str, ...] = (),
    considered: tuple[Considered, ...] = (),
    incident: IncidentCell | None = None,
) -> None:
    """Record a decision; its id is derived from the message that caused it, the rule and the verdict."""
    run = turn.get(RUN_CELL, RunCell)
    clamped = ("clamped",) if fault is not None and fault.clamped else ()
    lost = ("gap",) if turn.get(GAP_CELL, GapCell) is not None and "gap" not in flags else ()
    decision = Decision(
        verdict=verdict,
        rule=rule,
        row=row,
        mode="shadow" if mode == "shadow" else "enforce",
        reason=reason,
        rulebook=turn.rulebook.hash,
        trigger=fault.evidence if fault else turn.event.id,
        trigger_time=turn.event.time,
        incident=incident.id if incident else None,
        attempt=incident.attempt if incident else None,
        domain=domain,
        code=f"{fault.namespace}/{fault.code}" if fault else None,
        node=fault.node.name if fault else None,
        chip=fault.chip.id if fault and fault.chip else None,
        count=count,
        flags=(*flags, *clamped, *lost),
        counters=snapshot(turn, run) if run else None,
        considered=considered,
    )
    key = turn.derive("decision", rule, verdict, mode, decision.attempt or 0)
    turn.emit(topics.DECISIONS, turn.subject, decision, name=key)


def decide_by(
    turn: Turn, rule: Rule, verdict: str, domain: FaultDomain, *, reason: str = "", **details: object
) -> None:
    """Record a decision of a rule in its own words, or with what was added to them."""
    told = reason or rule.reason
    decide(turn, verdict=verdict, rule=rule.id, row=rule.row, reason=told, domain=domain, **details)  # type: ignore[arg-type]


def tell_incident(turn: Turn, incident: IncidentCell) -> None:
    """Publish the incident as it stands, for consumers of the compacted topic."""
    step = incident.step
    record = Incident(
        incident=incident.id,
        state=incident.state,
        result=incident.result,
        result_cause=incident.cause or None,
        opened_at=incident.opened_at,
        fault_time=incident.fault_time,
        updated_at=turn.now,
        attempt=incident.attempt,
        strategy=incident.strategy or None,
        step=step.step.value if step and incident.open else None,
        trigger=incident.trigger,
        domain=incident.domain,
        nodes=tuple(dict.fromkeys(hold.node.name for hold in incident.holds)),
        chips=tuple(dict.fromkeys(target.chip.id for target in incident.chips)),
        epoch=counters_of(turn).schedule_count,
        paused=turn.get(PAUSE_CELL, PauseCell) is not None,
        rulebook=incident.rulebook,
    )
    turn.emit(topics.INCIDENTS, incident.id, record, name=turn.derive("incident", incident.id))


def tell_changed_incident(turn: Turn, before: IncidentCell | None) -> None:
    """At the end of a turn: publish the incident once, if people would see a change."""
    after = turn.get(INCIDENT_CELL, IncidentCell)
    if after is not None and (before is None or _visible(before) != _visible(after)):
        tell_incident(turn, after)


def _visible(incident: IncidentCell) -> tuple[object, ...]:
    return (incident.id, incident.state, incident.result, incident.attempt, incident.strategy, incident.index)


def notify(
    turn: Turn, reason: str, *, about: str, once_for: str = "", details: dict[str, str] | None = None
) -> None:
    """Ask for people to be told: an Event on the object, and whatever the operator's settings add.

    Once an incident, or once an hour outside of one, for the same cause: a thousand ranks that stall are one notice.
    """
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    name = incident.id if incident and incident.open else derive_id(turn.cluster, turn.subject, "notice")
    cell = f"notice/{about}/{once_for}"
    told = turn.get(cell, NoticeCell)
    if told is not None and told.name == name:
        return
    turn.put(cell, NoticeCell(name, due=turn.after(NOTICE_LIFE)))
    deadline: datetime = turn.now + NOTICE_LIFE
    command = Command(
        command=turn.derive("notify", about),
        incident=name,
        attempt=incident.attempt if incident else 0,
        step=StepName.NOTIFY,
        index=0,
        subject=turn.subject,
        epoch=0,
        deadline=deadline,
        not_after=deadline,
        reason=reason,
        rulebook=turn.rulebook.hash,
        trigger=turn.event.id,
        arguments={"about": about, **_where(turn), **(details or {})},
    )
    turn.emit(topics.COMMANDS, turn.subject, command, name=command.command)


def _where(turn: Turn) -> dict[str, str]:
    """Names by which the subject's object is found; it is believed by its identity only."""
    run, node = turn.get(RUN_CELL, RunCell), turn.get(NODE_CELL, NodeCell)
    if run is not None and run.name:
        return {"namespace": run.namespace, "name": run.name}
    return {"name": node.node.name} if node is not None else {}
