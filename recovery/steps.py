"""Steps of a plan on the wire: begin, look, count answers, finish, and the deadline of each.

No step is waited for longer than its timeout, and no command runs in an actuator: `pending` says when to look again (finding R29).
What a step's failure leads to is decided in `recovery.attempt`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from recovery.cells import (
    GAP_CELL,
    INCIDENT_CELL,
    PAUSE_CELL,
    GapCell,
    HoldTarget,
    IncidentCell,
    PauseCell,
)
from recovery.counters import snapshot
from recovery.run_state import run_of
from recovery.turn import Turn
from rules.model import Step
from schemas import topics
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.ids import derive_id, node_subject, subject_name
from schemas.mailbox import HoldRequest
from schemas.records import IncidentState

_ANSWERED: Final = frozenset(
    {
        StepName.HEAL_CHIPS,
        StepName.START_PROCESSES,
        StepName.DELETE_PODS,
        StepName.SUSPEND_JOB,
        StepName.RESUME_JOB,
    }
)
"""Steps whose actuators answer every look, and whose failure isolates a node, fails the job or makes it anew."""
STARTING: Final = frozenset({StepName.START_PROCESSES, StepName.RESUME_JOB})
"""Steps that start the run's processes."""


def command_id(turn: Turn, incident: IncidentCell) -> str:
    """(incident, attempt, step): the rulebook and the trigger are attributes, never part of it (finding R4)."""
    return derive_id(turn.cluster, incident.id, incident.attempt, incident.index)


def begin(turn: Turn, incident: IncidentCell) -> IncidentCell:
    """Begin the step the incident stands at, unless the subject is paused."""
    step = incident.step
    if step is None:
        raise ValueError(f"incident {incident.id} has no step {incident.index}")
    ready = replace(
        incident,
        begun=False,
        answered=False,
        look=0,
        look_at=None,
        deadline=None,
        held_since=None,
        unreachable=False,
        heard_at=None,
        started_at=None,
        stable_at=None,
        acted=False,
        told=-1,
        reported=0,
        due=None,
    )
    if turn.get(PAUSE_CELL, PauseCell) is not None:
        turn.put(INCIDENT_CELL, ready)
        return ready
    deadline = turn.after(step.timeout)
    resumed = incident.epoch + 1 if step.step is StepName.RESUME_JOB else incident.resumed
    started_at = turn.now if step.step in STARTING else None
    begun = replace(
        ready, begun=True, resumed=resumed, started_at=started_at, deadline=deadline, due=deadline
    )
    if step.step is StepName.ISOLATE_NODE:
        begun = ask_holds(turn, begun)
    else:
        send(turn, begun, step, "begin")
        begun = schedule_look(turn, begun, step.look_every)
    turn.put(INCIDENT_CELL, begun)
    return begun


def schedule_look(turn: Turn, incident: IncidentCell, after: timedelta) -> IncidentCell:
    """Arm the next look, never past the deadline."""
    look_at = min(turn.after(after), incident.deadline or turn.now)
    return replace(incident, look_at=look_at, due=look_at)


def abandon(turn: Turn, incident: IncidentCell) -> None:
    """Take back the step under way, if it is not over: what is not done yet must not be done any more.

    An isolation is not taken back: a hold outlives the incident, and only its node's mailbox ends it.
    """
    step = incident.step
    if incident.state is not IncidentState.ACTING or step is None or not incident.begun or incident.answered:
        return
    if step.step is not StepName.ISOLATE_NODE:
        send(turn, replace(incident, deadline=turn.after(step.timeout)), step, "cancel")


def send(turn: Turn, incident: IncidentCell, step: Step, action: str) -> None:
    """Send the step's command: begin, look or cancel."""
    deadline = incident.deadline or turn.after(step.timeout)
    command = Command(
        command=command_id(turn, incident),
        incident=incident.id,
        attempt=incident.attempt,
        step=step.step,
        index=incident.index,
        action=action,  # type: ignore[arg-type]
        look=incident.look,
        subject=turn.subject,
        epoch=incident.epoch,
        deadline=deadline,
        not_after=deadline + turn.rulebook.settings.command_patience,
        reason=incident.reason,
        rulebook=incident.rulebook,
        trigger=incident.trigger,
        arguments=arguments(turn, incident, step, deadline),
    )
    name = derive_id(command.command, action, incident.look)
    turn.emit(topics.COMMANDS, turn.subject, command, name=name)


def rests_on_lost(turn: Turn, incident: IncidentCell) -> bool:
    """Messages of the run's mailbox were lost since the incident opened: its outcomes and reports may be among them."""
    gap = turn.get(GAP_CELL, GapCell)
    return gap is not None and incident.opened_at <= gap.since


def arguments(turn: Turn, incident: IncidentCell, step: Step, deadline: datetime) -> dict[str, Any]:
    """What the actuator needs to know, by step."""
    run = run_of(turn)
    known: dict[str, Any] = {
        **step.arguments,
        "namespace": run.namespace,
        "name": run.name,
        "workload": run.workload,
        "counters": snapshot(turn, run).model_dump(),
    }
    if step.step is StepName.STOP_PROCESSES:
        rest = sum((later.timeout for later in incident.steps[incident.index :]), timedelta(0))
        known |= {
            "grace_seconds": step.grace.total_seconds() if step.grace else 0,
            "until": _text(turn.now + rest + turn.rulebook.settings.stop_margin),
            "otherwise": "exit" if incident.new_issue else "rerun",
        }
    elif step.step is StepName.HEAL_CHIPS:
        # From the deadline, which a hold moves on: told again with each look, so that no stop ends in the middle of a repair.
        rest = sum((later.timeout for later in incident.steps[incident.index + 1 :]), timedelta(0))
        known["until"] = _text(deadline + rest + turn.rulebook.settings.stop_margin)
        known["chips"] = [
            {
                "node": target.node.uid,
                "node_name": target.node.name,
                "chip": target.chip.id,
                "unit": target.chip.unit or target.chip.id,
                "code": f"{target.namespace}/{target.code}",
                "heal": target.heal,
            }
            for target in incident.chips
        ]
    elif step.step in {StepName.RESUME_JOB, StepName.FIND_SPARE, StepName.DELETE_PODS}:
        known["keep_off"] = [{"uid": node.uid, "name": node.name} for node in incident.excluded]
        known["epoch"] = incident.epoch + 1
    elif step.step is StepName.START_PROCESSES and incident.new_issue:
        known["counter"] = turn.rulebook.settings.retained_pod_counter
    elif step.step in {StepName.FAIL_JOB, StepName.RELEASE_JOB}:
        known["cause"] = incident.cause
    return known


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def ask_holds(turn: Turn, incident: IncidentCell) -> IncidentCell:
    """Ask the nodes' mailboxes for the holds that were not asked for yet (finding Q4)."""
    holds: list[HoldTarget] = []
    for hold in incident.holds:
        if hold.state != "wanted":
            holds.append(hold)
            continue
        request = HoldRequest(
            node=hold.node,
            run=subject_name(turn.subject),
            incident=incident.id,
            attempt=incident.attempt,
            cause=hold.cause,
            reason=hold.reason or incident.reason,
            rule=hold.rule or incident.rule,
        )
        turn.tell(node_subject(hold.node.uid), request)
        holds.append(replace(hold, state="asked"))
    return replace(incident, holds=tuple(holds))


def answered(incident: IncidentCell) -> bool:
    """Every node has answered."""
    return all(hold.state not in {"wanted", "asked"} for hold in incident.holds)


def is_current(turn: Turn, incident: IncidentCell, outcome: Outcome) -> bool:
    """The outcome speaks of the step under way; anything else is old news."""
    step = incident.step
    return (
        incident.open
        and incident.begun
        and step is not None
        and outcome.step is step.step
        and outcome.command == command_id(turn, incident)
    )


def note_pending(turn: Turn, incident: IncidentCell, outcome: Outcome) -> IncidentCell:
    """The step goes on, or the API is silent: look again later. What was told is remembered."""
    step = incident.step
    if step is None:
        return incident
    wait = timedelta(seconds=outcome.look_again_seconds) if outcome.look_again_seconds else step.look_every
    silent = outcome.result is OutcomeResult.UNREACHABLE
    told = incident.told if outcome.told is None else outcome.told
    waiting = replace(incident, unreachable=silent, acted=True, told=told)
    waiting = schedule_look(turn, waiting, wait)
    turn.put(INCIDENT_CELL, waiting)
    return waiting


def nobody_answers(turn: Turn, incident: IncidentCell) -> bool:
    """No actuator has said a word of the step lately: it is they who are silent, not chips, pods or the scheduler."""
    step = incident.step
    if step is None or step.step not in _ANSWERED:
        return False
    patience = min(turn.rulebook.settings.command_patience, step.timeout / 2)
    return incident.heard_at is None or turn.now - incident.heard_at > patience


def is_unheard(incident: IncidentCell) -> bool:
    """Nobody has said yet what came of its step, however often it was asked for."""
    return incident.begun and incident.heard_at is None and not incident.acted


def is_out_of_patience(turn: Turn, incident: IncidentCell, patience: timedelta) -> bool:
    """It has been held up for as long as that."""
    return turn.now - (incident.held_since or turn.now) >= patience


def with_new_time(turn: Turn, incident: IncidentCell, step: Step, patience: timedelta) -> IncidentCell:
    """The step gets its time again, but none beyond the patience, which runs from when it was first held up."""
    since = incident.held_since or turn.now
    return replace(incident, held_since=since, deadline=min(turn.after(step.timeout), since + patience))


def look_was_missed(incident: IncidentCell) -> bool:
    """A look was due before the deadline and nobody asked: relight itself was away. Nothing may be concluded from that silence."""
    return (
        incident.deadline is not None
        and incident.look_at is not None
        and incident.look_at < incident.deadline
    )


def given_back(turn: Turn, incident: IncidentCell) -> IncidentCell:
    """The step gets the time back that was left when the look was missed, and one look's time at least."""
    if incident.step is None or incident.deadline is None or incident.look_at is None:
        return incident
    left = max(incident.deadline - incident.look_at, incident.step.look_every)
    return replace(incident, deadline=turn.after(left))


def look(turn: Turn, incident: IncidentCell) -> None:
    """Ask the actuator how the step stands."""
    step = incident.step
    if step is None:
        return
    looking = replace(incident, look=incident.look + 1)
    send(turn, looking, step, "look")
    turn.put(INCIDENT_CELL, schedule_look(turn, looking, step.look_every))
