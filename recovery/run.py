"""The run's mailbox: facts, faults, ends, outcomes, answers, ticks and orders, each to where it is decided."""

from __future__ import annotations

from dataclasses import replace

from recovery.attempt import (
    due_came,
    outcome_came,
    pod_left,
    pod_reported,
    say_not_isolated,
    step_done,
)
from recovery.cells import (
    INCIDENT_CELL,
    PAUSE_CELL,
    RUN_CELL,
    WAITING_CELL,
    WAITING_KEPT,
    IncidentCell,
    PauseCell,
    PodCell,
    RunCell,
    WaitingCell,
    pod_name,
)
from recovery.counters import ha_of, note_step
from recovery.ends import (
    check_came,
    eviction_came,
    exit_came,
    hang_came,
    preemption_came,
    run_failed,
    window_over,
)
from recovery.faults import fault_came
from recovery.gap import run_lost_messages
from recovery.journal import decide
from recovery.occurrences import expire_fault
from recovery.orders import end_pause, end_safely, order_came
from recovery.pace import note_pace
from recovery.plan import close
from recovery.pods import fence_by_node, heard_of, pod_bound, pod_ended, time_is_over
from recovery.run_facts import run_seen, state_of_issue
from recovery.run_state import run_of
from recovery.safe_end import nodes_are_well_again
from recovery.stable import became_stable, stable_came
from recovery.steps import answered
from recovery.turn import Turn
from recovery.verdicts import incident_of
from schemas.commands import Outcome, StepName
from schemas.envelope import Payload, decode, encode
from schemas.facts import IssueState, PodBound, PodEnded, RunEnded, RunSeen
from schemas.mailbox import (
    CancelIncidentOrder,
    HoldAnswer,
    NodeNews,
    PartitionGap,
    PauseOrder,
    ResumeOrder,
    Tick,
)
from schemas.records import FaultDomain, IncidentResult, IncidentState
from schemas.signals import (
    ChipFault,
    Eviction,
    HangEvidence,
    Milestone,
    MilestoneName,
    PreCheckItem,
    PreemptionNotice,
    ProcessExit,
    ProcessState,
    ProcessStateName,
    Progress,
)

DEADLINE = "DeadlineExceeded"
"""How the Job controller begins to say that activeDeadlineSeconds passed."""
_NEEDS_RUN = (ChipFault, NodeNews, ProcessExit, HangEvidence, PreCheckItem, PreemptionNotice, Eviction)


def handle(turn: Turn) -> None:
    """Handle one message of a run's mailbox."""
    data = turn.data
    run = run_of(turn)
    if isinstance(data, _NEEDS_RUN):
        if run.ended:
            return
        if not run.known:
            _wait_for_facts(turn)
            return
        _observation(turn, data)
        return
    _other(turn, data, run)


def _observation(turn: Turn, data: Payload) -> None:
    match data:
        case ChipFault() | NodeNews():
            fault_came(turn)
            if isinstance(data, NodeNews) and fence_by_node(turn, data):
                _barrier_again(turn)
        case ProcessExit():
            exit_came(turn, data)
        case HangEvidence():
            hang_came(turn, data)
        case PreCheckItem():
            check_came(turn, data)
        case PreemptionNotice():
            preemption_came(turn, data)
        case Eviction():
            eviction_came(turn, data)


def _other(turn: Turn, data: Payload, run: RunCell) -> None:  # noqa: C901, PLR0912 - one line a kind of message
    match data:
        case Progress():
            _progress(turn, data, run)
        case ProcessState():
            _process_state(turn, data)
        case Milestone():
            _milestone(turn, data)
        case Outcome():
            _outcome(turn, data)
        case HoldAnswer():
            _hold_answered(turn, data)
        case Tick():
            _tick(turn, data)
        case RunSeen():
            _run_seen(turn, data, run)
        case RunEnded():
            _run_ended(turn, data, run)
        case PodBound():
            pod_bound(turn, data)
            _barrier_again(turn)
        case PodEnded():
            pod_ended(turn, data)
            _barrier_again(turn)
        case IssueState():
            state_of_issue(turn, data)
        case PauseOrder() | ResumeOrder() | CancelIncidentOrder():
            order_came(turn, data)
        case PartitionGap():
            run_lost_messages(turn, data)


def _run_seen(turn: Turn, data: RunSeen, before: RunCell) -> None:
    run_seen(turn, data)
    if not before.known:
        _release_waiting(turn, WAITING_CELL)
    incident = incident_of(turn)
    if incident is not None and before.known and not ha_of(turn, run_of(turn)).on and ha_of(turn, before).on:
        end_safely(turn, incident, "high availability was switched off")


def _wait_for_facts(turn: Turn) -> None:
    """The run's first fact has not come yet: the message waits up to 5 s (design 2, the route)."""
    cell = turn.get(WAITING_CELL, WaitingCell) or WaitingCell(
        due=turn.after(turn.rulebook.settings.unplaced_wait)
    )
    if len(cell.events) < WAITING_KEPT:
        turn.put(WAITING_CELL, replace(cell, events=(*cell.events, encode(turn.event).decode())))


def _release_waiting(turn: Turn, name: str, *, companion: bool = False) -> None:
    """Handle what waits in the cell, in order; a run still unknown is taken as one without high availability."""
    cell = turn.get(name, WaitingCell)
    if cell is None:
        return
    turn.drop(name)
    own, was = turn.event, run_of(turn)
    if not was.known:
        turn.put(RUN_CELL, replace(was, known=True))
    for raw in cell.events:
        turn.event = decode(raw.encode())
        if companion and isinstance(turn.event.data, ChipFault | NodeNews):
            fault_came(turn, companion_waited=True)
        else:
            handle(turn)
    turn.event = own
    if not was.known:
        turn.put(RUN_CELL, replace(run_of(turn), known=False))


def _progress(turn: Turn, data: Progress, run: RunCell) -> None:
    if data.step is None:
        return
    if not note_step(turn, data.step, attempt=data.attempt):
        return
    incident = incident_of(turn)
    if note_pace(turn, data, incident) and incident is not None:
        became_stable(turn, incident)
    stale = run.progress_at is None or turn.event.time - run.progress_at >= turn.rulebook.settings.node_grace
    if run.known and (stale or not run.reports_progress):
        turn.put(
            RUN_CELL,
            replace(
                run,
                reports_progress=True,
                progress_step=max(run.progress_step, data.step),
                progress_at=turn.event.time,
            ),
        )


def _process_state(turn: Turn, data: ProcessState) -> None:
    uid = data.placement.pod_uid
    pod = heard_of(turn, data)
    if uid is None or pod is None:
        return
    incident = incident_of(turn)
    step = incident.step.step if incident and incident.step and incident.begun else None
    ours = incident is not None and data.attempt == incident.attempt
    if data.state is ProcessStateName.STOPPED and data.attempt > pod.stopped_attempt:
        turn.put(pod_name(uid), replace(pod, stopped_attempt=data.attempt))
        if pod.unfenced and ours:  # what was waited for
            turn.drop(pod_name(uid))
        if incident is not None and ours and step is StepName.STOP_PROCESSES:
            pod_reported(turn, incident)
    elif data.state is ProcessStateName.RUNNING and ours and step is not StepName.START_PROCESSES:
        # Its stop ended by itself: it is stopped no more, and has not answered the start that may come.
        start = max(data.start, pod.running_start)
        turn.put(pod_name(uid), replace(pod, stopped_attempt=-1, running_start=start))
    elif data.state is ProcessStateName.RUNNING and data.attempt > pod.running_attempt:
        turn.put(pod_name(uid), replace(pod, running_attempt=data.attempt, running_start=data.start))
        if incident is not None and ours and step is StepName.START_PROCESSES:
            pod_reported(turn, incident)


def _barrier_again(turn: Turn) -> None:
    incident = incident_of(turn)
    if incident is not None:
        pod_left(turn, incident)


def _milestone(turn: Turn, data: Milestone) -> None:
    incident = incident_of(turn)
    if data.name is MilestoneName.STABLE and incident is not None:
        stable_came(turn, incident, data)


def _outcome(turn: Turn, data: Outcome) -> None:
    incident = incident_of(turn)
    if incident is not None and data.incident == incident.id:
        outcome_came(turn, incident, data)


def _hold_answered(turn: Turn, data: HoldAnswer) -> None:
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    if incident is None or incident.id != data.incident:
        return
    holds = tuple(
        replace(hold, state=data.answer, answer=data.cause or "")
        if hold.node.uid == data.node.uid and hold.state == "asked"
        else hold
        for hold in incident.holds
    )
    told = replace(incident, holds=holds)
    turn.put(INCIDENT_CELL, told)
    step = told.step
    isolating = told.open and told.begun and step is not None and step.step is StepName.ISOLATE_NODE
    if not isolating or not answered(told) or nodes_are_well_again(turn, told):
        return
    if any(hold.state != "held" for hold in told.holds):
        say_not_isolated(turn, told)
    step_done(turn, told)


def _tick(turn: Turn, tick: Tick) -> None:
    """A due time came; a tick for a cell that has moved on changes nothing."""
    name = tick.cell
    cell = turn.get(name, object)
    if cell is None or getattr(cell, "due", None) != tick.due or turn.now < tick.due:
        return
    match name.partition("/")[0]:
        case "incident" if isinstance(cell, IncidentCell):
            _incident_due(turn, cell)
        case "run" if isinstance(cell, RunCell):
            _run_due(turn, cell)
        case "fault":
            expire_fault(turn, name)
        case "pod" if isinstance(cell, PodCell):
            time_is_over(turn, name, cell)
            _barrier_again(turn)
        case "waiting":
            _release_waiting(turn, name, companion=name != WAITING_CELL)
        case "pause":
            end_pause(turn)
        case _:
            turn.drop(name)


def _incident_due(turn: Turn, incident: IncidentCell) -> None:
    if incident.open and turn.get(PAUSE_CELL, PauseCell) is not None:
        turn.put(INCIDENT_CELL, replace(incident, due=None))
        return
    match incident.state:
        case IncidentState.ATTRIBUTING:
            window_over(turn, incident)
        case IncidentState.ACTING:
            due_came(turn, incident)
        case IncidentState.STABILISING:
            close(turn, incident, IncidentResult.INCOMPLETE)
        case IncidentState.CLOSED:
            turn.drop(INCIDENT_CELL)


def _run_due(turn: Turn, run: RunCell) -> None:
    """A Failed run that nobody rebuilt has ended; an ended run's cells go away after their time."""
    if run.ended:
        for name in tuple(turn.names()):
            turn.drop(name)
        return
    incident = incident_of(turn)
    if incident is not None and incident.state is IncidentState.ACTING:  # ends by its own deadlines
        turn.put(RUN_CELL, replace(run, due=turn.after(turn.rulebook.settings.failed_run_ends_after)))
        return
    _end(turn, run.ends_as)


def _run_ended(turn: Turn, data: RunEnded, run: RunCell) -> None:
    if run.ended or (run.object_uid and data.object_uid != run.object_uid):
        return
    incident = incident_of(turn)
    rebuilding = incident is not None and incident.state is IncidentState.ACTING and incident.new_issue
    failing = incident is not None and incident.strategy == "fail_job"
    if data.how == "failed" and (data.detail or "").startswith(DEADLINE) and not failing:
        _say_own_deadline(turn)
        _end(turn, data.how)
        return
    if data.how == "failed" and not run.let_go:
        due = turn.after(turn.rulebook.settings.failed_run_ends_after)
        turn.put(RUN_CELL, replace(run, failed_at=turn.now, ends_as=data.how, due=due))
        run_failed(turn, data)
        return
    if data.how == "deleted" and rebuilding:  # by us, most likely; else nobody makes it anew
        due = turn.after(turn.rulebook.settings.failed_run_ends_after)
        turn.put(RUN_CELL, replace(run, failed_at=turn.now, ends_as=data.how, due=due))
        return
    _end(turn, data.how)


def _say_own_deadline(turn: Turn) -> None:
    """Made anew it would run longer than its team allowed."""
    decide(
        turn,
        verdict="record",
        rule="own-deadline",
        row="12",
        reason="the job's own activeDeadlineSeconds passed: its team's word, which no recovery overrules",
        domain=FaultDomain.PROCESS,
    )


def _end(turn: Turn, how: str) -> None:
    incident = incident_of(turn)
    if incident is not None:
        failing = incident.strategy == "fail_job" and how == "failed"
        close(
            turn,
            incident,
            IncidentResult.FAILED if failing else IncidentResult.RUN_ENDED,
            how if not failing else "",
        )
    kept = turn.rulebook.settings.cells_kept_after_end
    turn.put(RUN_CELL, replace(run_of(turn), ended=how, ended_at=turn.now, due=turn.after(kept)))
