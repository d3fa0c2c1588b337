"""Events of one recovery in place, as the topics would have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event, Payload
from schemas.records import Decision, FaultDomain, Incident, IncidentResult, IncidentState
from schemas.signals import ChipFault, ChipRef, FaultState, Milestone, MilestoneName, NodeRef, Placement

NOON: Final = datetime(2026, 1, 2, 12, tzinfo=UTC)
RUN: Final = "run-1"
INCIDENT: Final = "incident-1"


def at(seconds: float) -> datetime:
    """Seconds after the fault."""
    return NOON + timedelta(seconds=seconds)


def event(name: str, seconds: float, data: Payload, *, subject: str = f"run/{RUN}") -> Event:
    """In its envelope."""
    return Event(
        id=name, source="/test", type=data.TYPE, subject=subject, time=at(seconds), cluster="test", data=data
    )


def fault(seconds: float = 0) -> Event:
    """What begins it."""
    data = ChipFault(
        node=NodeRef(uid="u", name="node-1"),
        chip=ChipRef(id="GPU-1"),
        namespace="xid",
        code="46",
        state=FaultState.ONCE,
    )
    return event("fault", seconds, data)


def decision(seconds: float, verdict: str = "in_place_recovery", **more: Any) -> Event:
    """What was decided."""
    data = Decision(
        verdict=verdict, rule="self-heal", row="6", reason="the fault heals", rulebook="r", trigger="fault", trigger_time=NOON,
        incident=INCIDENT, attempt=1, domain=FaultDomain.PROCESS, **more,
    )  # fmt: skip
    return event(f"decision-{verdict}-{seconds}", seconds, data)


def incident(
    seconds: float,
    state: IncidentState,
    *,
    result: IncidentResult | None = None,
    strategy: str = "in_place_recovery",
) -> Event:
    """How the incident stands."""
    data = Incident(
        incident=INCIDENT, state=state, result=result, opened_at=at(0.5), fault_time=NOON, updated_at=at(seconds), attempt=1,
        strategy=strategy, trigger="fault", domain=FaultDomain.PROCESS, epoch=1, rulebook="r",
    )  # fmt: skip
    return event(f"incident-{seconds}", seconds, data)


def command(seconds: float, step: StepName, action: Any = "begin") -> Event:
    """A step begins."""
    data = Command(
        command=f"c-{step.value}", incident=INCIDENT, attempt=1, step=step, index=0, action=action, subject=f"run/{RUN}", epoch=1,
        deadline=at(600), not_after=at(600), reason="r", rulebook="r", trigger="fault",
    )  # fmt: skip
    return event(f"command-{step.value}-{action}-{seconds}", seconds, data)


def outcome(seconds: float, step: StepName, result: OutcomeResult = OutcomeResult.DONE, **more: Any) -> Event:
    """What became of it."""
    data = Outcome(command=f"c-{step.value}", incident=INCIDENT, attempt=1, step=step, result=result, **more)
    return event(f"outcome-{step.value}-{seconds}", seconds, data)


def milestone(seconds: float, name: MilestoneName, rank: int) -> Event:
    """A rank is there."""
    data = Milestone(placement=Placement(run=RUN, rank=rank, epoch=1), name=name, attempt=1)
    return event(f"{name.value}-{rank}", seconds, data)


def story() -> list[Event]:
    """Two ranks, from the fault to stable throughput."""
    return [
        fault(),
        decision(0.5),
        incident(0.5, IncidentState.ACTING),
        command(0.5, StepName.STOP_PROCESSES),
        outcome(1.5, StepName.STOP_PROCESSES, told=2),
        command(1.6, StepName.HEAL_CHIPS),
        outcome(2.0, StepName.HEAL_CHIPS, OutcomeResult.PENDING, cause="repairing"),
        outcome(3.0, StepName.HEAL_CHIPS),
        command(3.5, StepName.START_PROCESSES),
        outcome(3.6, StepName.START_PROCESSES, told=2),
        incident(3.7, IncidentState.STABILISING),
        *(milestone(4.0 + rank / 2, MilestoneName.COMMUNICATION_READY, rank) for rank in (0, 1)),
        *(milestone(4.6 + rank / 10, MilestoneName.CHECKPOINT_LOADED, rank) for rank in (0, 1)),
        incident(6.0, IncidentState.CLOSED, result=IncidentResult.RECOVERED),
    ]
