"""How runs end abnormally: exits, failures, evictions, preemptions, hangs and failed checks reach the ladder from here."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from recovery.attempt import attribute_again, issue_started, step_failed, without_end
from recovery.cells import COUNTERS_CELL, CheckCell, EvidenceItem, HoldTarget, IncidentCell, PodCell, pod_name
from recovery.counters import counters_of
from recovery.journal import decide
from recovery.ladder import Question
from recovery.pods import is_first_exit
from recovery.run_state import explaining, found
from recovery.standstill import note_standstill
from recovery.turn import Turn
from recovery.verdicts import Case, chain_is_about_another_problem, incident_of, judge, judge_end, run_symbols
from rules.model import Verb
from rules.symbols import CheckSymbols, EvictionSymbols, ExitSymbols, HangSymbols, RuleKind, Symbols
from schemas.commands import StepName
from schemas.envelope import TimeQuality
from schemas.facts import RunEnded
from schemas.mailbox import HoldCause
from schemas.records import FaultDomain, IncidentState
from schemas.signals import (
    Eviction,
    EvictionReason,
    HangEvidence,
    NodeRef,
    Placement,
    PreCheckItem,
    PreemptionNotice,
    ProcessExit,
)

HANG_TOO_OLD = "hang-too-old"
"""Stands in a decision where a rule's name would: no rulebook may act on such evidence."""
_PREEMPTIONS = frozenset({EvictionReason.SCHEDULER, EvictionReason.QUEUE})


def _question(turn: Turn, kind: RuleKind, symbols: Symbols) -> Question:
    return Question("run", kind, symbols, trust=turn.event.trust)


def exit_came(turn: Turn, data: ProcessExit) -> None:
    """A process ended. The second reporter of one exit changes nothing."""
    uid = data.placement.pod_uid
    if is_old_news(turn, data.placement, data.start) or (uid and not is_first_exit(turn, uid, data.start)):
        return
    if _is_own_kill(turn, data) or (data.exit_code == 0 and data.signal is None):
        return
    incident = incident_of(turn)
    if incident is not None and _new_issue_ended(incident, data):
        issue_started(turn, data.placement.epoch or 0)
        attribute_again(turn, replace(_ended_by(incident, data), answered=True), "ended_again")
        return
    if incident is not None and _ended_again(turn, incident, data):
        step_failed(turn, _ended_by(incident, data), "ended_again")
        return
    symbols = replace(
        run_symbols(turn), exit=ExitSymbols(code=data.exit_code, signal=data.signal or 0, oom=data.oom)
    )
    case = Case(
        question=_question(turn, RuleKind.PROCESS_EXIT, symbols),
        domain=FaultDomain.PROCESS,
        fault_time=turn.event.time,
        exit_code=data.exit_code,
        exit_signal=data.signal or 0,
        oom=data.oom,
    )
    judge(turn, case)


def is_old_news(turn: Turn, placement: Placement, start: int) -> bool:
    """It speaks of an issue or a process that was replaced since: nothing follows for the present one."""
    if placement.epoch is not None and placement.epoch < counters_of(turn).schedule_count:
        return True
    pod = turn.get(pod_name(placement.pod_uid), PodCell) if placement.pod_uid else None
    return pod is not None and 0 < start < pod.running_start


def _new_issue_ended(incident: IncidentCell, data: ProcessExit) -> bool:
    """A process of the new pods ended before it was heard that the job runs again."""
    step, epoch = incident.step, data.placement.epoch
    resuming = incident.begun and step is not None and step.step is StepName.RESUME_JOB
    return resuming and epoch is not None and epoch > incident.epoch


def _ended_by(incident: IncidentCell, data: ProcessExit) -> IncidentCell:
    return replace(
        without_end(incident), exit_code=data.exit_code, exit_signal=data.signal or 0, oom=data.oom
    )


def _ended_again(turn: Turn, incident: IncidentCell, data: ProcessExit) -> bool:
    """During the start step a process that was already started anew ended: the start failed."""
    step = incident.step
    if step is None or step.step is not StepName.START_PROCESSES or not incident.begun:
        return False
    uid = data.placement.pod_uid
    pod = turn.get(pod_name(uid), PodCell) if uid else None
    return pod is not None and pod.running_attempt == incident.attempt and data.ordered_attempt is None


def _is_own_kill(turn: Turn, data: ProcessExit) -> bool:
    """Ended by our own order, whenever it is heard of."""
    return data.ordered_attempt is not None and data.ordered_attempt <= counters_of(turn).attempts


def run_failed(turn: Turn, data: RunEnded) -> None:
    """The workload object became Failed by itself."""
    symbols = run_symbols(turn)
    case = Case(
        question=_question(turn, RuleKind.RUN_FAILED, symbols),
        domain=FaultDomain.PROCESS,
        fault_time=turn.event.time,
    )
    del data
    judge(turn, case)


def eviction_came(turn: Turn, data: Eviction) -> None:
    """A pod was moved off its node."""
    if is_old_news(turn, data.placement, 0):
        return
    symbols = replace(
        run_symbols(turn),
        eviction=EvictionSymbols(
            reason=data.reason.value, ours=data.ours, draining=data.draining, requeued=data.requeued
        ),
    )
    drained = data.draining and turn.rulebook.limits.drain_is_reschedule
    preempted = data.ours or drained or data.reason in _PREEMPTIONS
    case = Case(
        question=_question(turn, RuleKind.EVICTION, symbols),
        domain=FaultDomain.POD,
        fault_time=turn.event.time,
        node=data.node,
        holds=(_node_hold(turn, data.node, data.reason.value),),
        evicted=not preempted,
        preempted=preempted,
    )
    judge(turn, case)


def preemption_came(turn: Turn, data: PreemptionNotice) -> None:
    """A node or pod of the run will be taken away."""
    case = Case(
        question=_question(turn, RuleKind.PREEMPTION, run_symbols(turn)),
        domain=FaultDomain.POD,
        fault_time=turn.event.time,
        node=data.node,
        preempted=True,
    )
    judge(turn, case)


def hang_came(turn: Turn, data: HangEvidence) -> None:
    """A process stands still. Sources send edges: a second stall of the same process is a second event (recovery 6).

    What was long on its way to the broker says nothing of now: the processes may have gone on since, and a healthy run is not restarted.
    """
    if is_old_news(turn, data.placement, data.start or 0):
        return
    known = note_standstill(turn, data)
    if data.state != "stalled":
        return
    # Whose time was clamped is older than all that is counted, or its clock is wrong: when it was is not known.
    late = turn.now - turn.event.time > turn.rulebook.settings.attribution_lookback
    if late or turn.event.timequality is TimeQuality.CLAMPED:
        decide(
            turn,
            verdict=Verb.RECORD.value,
            rule=HANG_TOO_OLD,
            row="7",
            reason="the run stood still a while ago, and this was told too late to say that it still does",
            domain=FaultDomain.PROCESS,
        )
        return
    symbols = replace(run_symbols(turn), hang=HangSymbols(method=data.method), found=found(turn))
    case = Case(
        question=_question(turn, RuleKind.HANG, symbols),
        domain=FaultDomain.PROCESS,
        fault_time=data.last_progress,
        holds=_holds(explaining(turn)),
        hang=known,
    )
    judge(turn, case)


def check_came(turn: Turn, data: PreCheckItem) -> None:
    """Result of an environment check; only a failed one reaches the ladder."""
    if data.result != "failed" or is_old_news(turn, data.placement, 0):
        return
    name = f"check/{data.item}"
    before = turn.get(name, CheckCell)
    turn.put(name, CheckCell(node_uid=data.node.uid))
    granted, there = data.devices_granted, data.devices_found
    missing = granted is not None and there is not None and there < granted
    elsewhere = before is not None and before.node_uid != data.node.uid
    symbols = replace(
        run_symbols(turn),
        check=CheckSymbols(item=data.item, devices_missing=missing, failed_elsewhere=elsewhere),
        found=found(turn, node=data.node),
    )
    holds = _holds(explaining(turn, data.node)) or (_node_hold(turn, data.node, f"pre-check:{data.item}"),)
    case = Case(
        question=_question(turn, RuleKind.PRE_CHECK_FAILED, symbols),
        domain=FaultDomain.POD,
        fault_time=turn.event.time,
        node=data.node,
        holds=holds,
    )
    judge(turn, case)


def window_over(turn: Turn, incident: IncidentCell) -> None:
    """The attribution window of an abnormal end is over: judge it."""
    if incident.state is not IncidentState.ATTRIBUTING:
        return
    if chain_is_about_another_problem(turn, incident.exit_code):
        turn.put(COUNTERS_CELL, replace(counters_of(turn), unconditional_chain=0))
    counters = counters_of(turn)
    if incident.exit_code:
        turn.put(COUNTERS_CELL, replace(counters, last_end_code=incident.exit_code))
    symbols = replace(
        run_symbols(turn),
        exit=ExitSymbols(
            code=incident.exit_code,
            signal=incident.exit_signal,
            oom=incident.oom,
            evicted=incident.evicted,
            preempted=incident.preempted,
        ),
        found=found(turn),
    )
    evidence = explaining(turn)
    case = Case(
        question=_question(turn, RuleKind.ABNORMAL_END, symbols),
        domain=incident.domain,
        fault_time=incident.fault_time,
        holds=_holds(evidence),
        user=symbols.found.user,
        heals=not (symbols.found.isolate or symbols.found.deferred) and symbols.found.hardware,
    )
    judge_end(turn, case)


def _holds(items: tuple[EvidenceItem, ...]) -> tuple[HoldTarget, ...]:
    return tuple(
        HoldTarget(
            node=item.node,
            cause=HoldCause(
                namespace=item.namespace,
                code=item.code,
                chip=item.chip,
                evidence=item.event,
                ladder_class=item.ladder_class.value,
                seen_at=item.at,
            ),
        )
        for item in items
    )


def _node_hold(turn: Turn, node: NodeRef, code: str) -> HoldTarget:
    seen_at: datetime = turn.event.time
    cause = HoldCause(
        namespace="node",
        code=code.replace(" ", "-"),
        chip=None,
        evidence=turn.event.id,
        ladder_class="isolate",
        seen_at=seen_at,
    )
    return HoldTarget(node=node, cause=cause)
