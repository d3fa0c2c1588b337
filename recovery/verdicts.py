"""From the ladder's answer to what happens to the run: record, merge, wait, or begin an attempt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from recovery import steps
from recovery.attempt import ATTRIBUTION_COVERS, without_end
from recovery.cells import INCIDENT_CELL, ChipTarget, HoldTarget, IncidentCell
from recovery.classification import Fault
from recovery.counters import counters_of, ha_of, job_budget_left, pod_budget_left, rest
from recovery.journal import decide_by, notify
from recovery.ladder import VERBS, Answer, Question, ask
from recovery.plan import (
    FAIL_JOB,
    RELEASE_JOB,
    Wish,
    as_last_resort,
    begin_attempt,
    choose,
    close,
    exclude,
    merge_chips,
    merge_holds,
    note_in_place,
    open_incident,
    past_merging,
    replace_attempt,
)
from recovery.run_state import all_pods, nodes_ready, run_of
from recovery.turn import Turn
from rules.model import LadderClass, Rule, Verb
from rules.symbols import ChainSymbols, IncidentSymbols, RunSymbols, Symbols
from schemas.mailbox import HoldCause
from schemas.records import FaultDomain, IncidentResult, IncidentState
from schemas.signals import NodeRef

SOFTWARE_FILTERED = "software_filtered"
MERGES_TOLD = 16
"""A thousand ranks end together: so many merges are written out, the rest are counted."""


@dataclass(frozen=True, slots=True)
class Case:
    """An event of the run that reached the ladder, with what a plan may need of it."""

    question: Question
    domain: FaultDomain
    fault_time: datetime
    fault: Fault | None = None
    node: NodeRef | None = None
    chips: tuple[ChipTarget, ...] = ()
    holds: tuple[HoldTarget, ...] = ()
    user: bool = False
    heals: bool = False
    flags: tuple[str, ...] = ()
    count: int | None = None
    exit_code: int | None = None
    exit_signal: int = 0
    oom: bool = False
    evicted: bool = False
    preempted: bool = False
    hang: bool = False
    """Processes stand still, of a pod that will be heard of when they move again."""


def incident_of(turn: Turn) -> IncidentCell | None:
    """The open incident of the run, if any."""
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    return incident if incident is not None and incident.open else None


def run_symbols(turn: Turn) -> Symbols:
    """Groups that every rule of a run may name."""
    run = run_of(turn)
    counters, ha = rest(turn, run), ha_of(turn, run)
    incident = incident_of(turn)
    state = incident.state if incident else None
    return Symbols(
        run=RunSymbols(
            known=run.known,
            ha=ha.on,
            unconditional=ha.unconditional,
            hang_retry=ha.hang_retry,
            budget_left=job_budget_left(counters, ha),
            pod_budget_left=pod_budget_left(counters, ha),
            supervised=run.supervised,
            supported=run.supported,
            all_pods=all_pods(run),
            nodes_ready=nodes_ready(turn),
            in_place_since_progress=counters.in_place_since_progress,
            same_step_resumes=counters.same_step_resumes,
        ),
        chain=ChainSymbols(unconditional=counters.unconditional_chain, hang=counters.hang_chain),
        incident=IncidentSymbols(
            open=incident is not None,
            attributing=state is IncidentState.ATTRIBUTING,
            acting=state is IncidentState.ACTING,
            stabilising=state is IncidentState.STABILISING,
        ),
        limits=turn.rulebook.limits,
    )


def hold_of(fault: Fault) -> HoldTarget:
    """The hold that isolates a fault's node for this cause."""
    return HoldTarget(
        node=fault.node,
        cause=HoldCause(
            namespace=fault.namespace,
            code=fault.code,
            chip=fault.chip,
            evidence=fault.evidence,
            ladder_class=(fault.ladder_class or LadderClass.RECORD).value,
            seen_at=fault.event.time,
        ),
    )


def judge(turn: Turn, case: Case) -> None:
    """Ask the ladder and do what it says."""
    answer = ask(turn.rulebook, case.question)
    _tell_shadows(turn, case, answer)
    rule = answer.rule
    if rule is None:
        return
    if rule.then[0] == Verb.MERGE.value:
        merge(turn, case, rule)
        return
    follow(turn, case, rule, answer)


def _tell_shadows(turn: Turn, case: Case, answer: Answer) -> None:
    for rule in answer.shadows:
        hit = case.question.hits.get(rule.id)
        decide_by(
            turn,
            rule,
            rule.then[0],
            case.domain,
            mode="shadow",
            fault=case.fault,
            count=hit.count if hit else None,
        )


def follow(turn: Turn, case: Case, rule: Rule, answer: Answer) -> None:
    """Do what a rule says for a run with no recovery under way, or one that is stabilising."""
    if run_of(turn).suspended_by_others and rule.then[0] not in VERBS:
        _leave_suspended(turn, case, rule, answer)
        return
    verb = rule.then[0]
    if verb == Verb.ATTRIBUTE.value:
        _attribute(turn, case, rule, answer)
    elif verb in VERBS:
        _say(turn, case, rule, verb, answer, incident_of(turn))
    else:
        _plan(turn, case, rule, answer)
    _tell_people(turn, case, rule)


def _tell_people(turn: Turn, case: Case, rule: Rule) -> None:
    """Last of all: what is to be done does not wait for it."""
    if rule.notify:
        notify(turn, rule.reason, about=rule.id, once_for=_subject_of(case))


def _leave_suspended(turn: Turn, case: Case, rule: Rule, answer: Answer) -> None:
    """Somebody else suspended the job: its processes ended by that, and to make it anew would undo it."""
    incident = incident_of(turn)
    if incident is not None:
        close(turn, incident, IncidentResult.RELEASED, "suspended by somebody else")
    case = replace(case, flags=(*case.flags, "suspended_by_others"))
    _say(turn, case, rule, Verb.RECORD.value, answer, incident)


def _subject_of(case: Case) -> str:
    """What people are told of once: the code, or the rule alone."""
    return f"{case.fault.namespace}/{case.fault.code}" if case.fault else ""


def _say(
    turn: Turn,
    case: Case,
    rule: Rule,
    verdict: str,
    answer: Answer,
    incident: IncidentCell | None,
    *,
    reason: str = "",
) -> None:
    hit = case.question.hits.get(rule.id)
    decide_by(
        turn,
        rule,
        verdict,
        case.domain,
        fault=case.fault,
        count=hit.count if hit else case.count,
        flags=case.flags,
        considered=answer.considered,
        incident=incident,
        reason=reason,
    )


def _attribute(turn: Turn, case: Case, rule: Rule, answer: Answer) -> None:
    incident = incident_of(turn) or open_incident(
        turn, state=IncidentState.ATTRIBUTING, domain=case.domain, fault_time=case.fault_time
    )
    if incident.state is not IncidentState.ATTRIBUTING:
        incident = without_end(incident)
    due = turn.after(turn.rulebook.settings.attribution_window)
    waiting = replace(
        _with_end(incident, case),
        state=IncidentState.ATTRIBUTING,
        covers=ATTRIBUTION_COVERS,
        merge_before="",
        steps=(),
        index=0,
        begun=False,
        rule=rule.id,
        reason=rule.reason,
        look_at=None,
        deadline=due,
        due=due,
    )
    turn.put(INCIDENT_CELL, waiting)
    _say(turn, case, rule, Verb.ATTRIBUTE.value, answer, waiting)


def _with_end(incident: IncidentCell, case: Case) -> IncidentCell:
    """Note how the run ended; the first exit code stays, circumstances add up."""
    first = incident.exit_code == 0 and incident.exit_signal == 0
    return replace(
        incident,
        exit_code=case.exit_code if first and case.exit_code else incident.exit_code,
        exit_signal=case.exit_signal if first else incident.exit_signal,
        oom=incident.oom or case.oom,
        evicted=incident.evicted or case.evicted,
        preempted=incident.preempted or case.preempted,
    )


def wish_of(case: Case, rule: Rule) -> Wish:
    """What a rule's decision about this case wants."""
    return Wish(
        then=rule.then,
        rule=rule.id,
        reason=rule.reason,
        chips=case.chips,
        holds=case.holds if rule.isolate else (),
        keep_off=(case.node,) if rule.keep_off and case.node else (),
        chain=rule.unconditional_chain,
        cause=rule.cause,
        user=case.user,
        heals=case.heals and rule.isolate,
    )


def _plan(turn: Turn, case: Case, rule: Rule, answer: Answer) -> None:
    wish = wish_of(case, rule)
    run = run_of(turn)
    strategy, obstacles = choose(turn, run, wish.then, wish.holds)
    verdict = "" if strategy is None else strategy.id
    if strategy is None:
        last = RELEASE_JOB if not run.supported and rule.otherwise == FAIL_JOB else rule.otherwise
        if last in VERBS:
            _say(turn, case, rule, last, answer, incident_of(turn))
            return
        strategy = turn.rulebook.strategies.get(last)
        wish = as_last_resort(wish, obstacles)
        verdict = last
    if strategy is None:
        _say(turn, case, rule, Verb.RECORD.value, answer, incident_of(turn))
        return
    before = incident_of(turn)
    nothing_under_way = before is None or before.state is IncidentState.STABILISING
    incident = before or open_incident(
        turn, state=IncidentState.ACTING, domain=case.domain, fault_time=case.fault_time
    )
    planned = begin_attempt(turn, _with_end(incident, case), strategy, wish)
    if nothing_under_way and case.hang and not planned.holds:
        planned = replace(planned, hang=True)
        turn.put(INCIDENT_CELL, planned)
    _say(turn, case, rule, verdict, answer, planned, reason=planned.reason)


def merge(turn: Turn, case: Case, rule: Rule) -> None:
    """Add the event to the recovery under way; plan anew only if it needs more than the plan covers (row 1)."""
    incident = incident_of(turn)
    if incident is None:
        return
    if incident.hang and not case.hang:
        incident = replace(incident, hang=False)
        turn.put(INCIDENT_CELL, incident)
    alone = ask(turn.rulebook, case.question, without=frozenset({Verb.MERGE.value}))
    need = _need(turn, alone.rule, case)
    if need in VERBS or alone.rule is None or _covered(incident, case, need):
        _join(turn, incident, case, rule, alone.rule)
        return
    wish = wish_of(case, alone.rule)
    then = _heavier(incident, need, alone.rule.then)
    planned = replace_attempt(turn, incident, then, alone.rule.otherwise, wish)
    if planned is None:
        _join(turn, incident, case, rule, alone.rule)
    else:
        _say(turn, case, alone.rule, planned.strategy, alone, planned, reason=planned.reason)
    _tell_people(turn, case, alone.rule)


def _need(turn: Turn, rule: Rule | None, case: Case) -> str:
    """What the event alone would lead to."""
    if rule is None or rule.then[0] in VERBS:
        return Verb.RECORD.value if rule is None else rule.then[0]
    strategy, _ = choose(turn, run_of(turn), rule.then, case.holds)
    return strategy.id if strategy else rule.otherwise


def _covered(incident: IncidentCell, case: Case, need: str) -> bool:
    if need not in incident.covers:
        return False
    if case.fault is None or not case.fault.acts:
        return True
    return incident.state is IncidentState.ATTRIBUTING or not past_merging(incident)


def _heavier(incident: IncidentCell, need: str, then: tuple[str, ...]) -> tuple[str, ...]:
    """The strategy under way if it covers the need, else what the event's own rule asks for."""
    return (incident.strategy, *then) if need in incident.covers else then


def _join(turn: Turn, incident: IncidentCell, case: Case, merge_rule: Rule, own: Rule | None) -> None:
    joined = _with_end(incident, case) if incident.state is IncidentState.ATTRIBUTING else incident
    joined = replace(joined, merged=joined.merged + 1)
    if own is not None and own.then[0] != Verb.RECORD.value:
        joined = replace(
            joined, stable_at=None
        )  # what was said before this happened is no word on what runs now
    acting = incident.state is IncidentState.ACTING
    if acting and case.chips and own is not None and own.then[0] not in VERBS:
        strategy = turn.rulebook.strategies.get(incident.strategy)
        if strategy is not None and strategy.effects.in_place:
            known = {(t.node.uid, t.chip.id) for t in joined.chips}
            new = tuple(t for t in case.chips if (t.node.uid, t.chip.id) not in known)
            note_in_place(turn, new)
            joined = replace(
                joined, chips=merge_chips(joined.chips, case.chips), user=joined.user and case.user
            )
    if acting and own is not None and own.isolate and case.holds and not past_merging(incident):
        holds = merge_holds(joined.holds, wish_of(case, own).wanted_holds)
        nodes = (hold.node for hold in case.holds)
        joined = replace(joined, holds=holds, excluded=exclude(turn, *joined.excluded, *nodes))
        joined = steps.ask_holds(turn, joined)
    turn.put(INCIDENT_CELL, joined)
    if joined.merged <= MERGES_TOLD:
        decide_by(
            turn,
            merge_rule,
            Verb.MERGE.value,
            case.domain,
            fault=case.fault,
            flags=case.flags,
            incident=joined,
        )


def judge_end(turn: Turn, case: Case) -> None:
    """The attribution window is over: the ladder judges the end; an incident nobody wants is closed."""
    incident = incident_of(turn)
    if incident is None:
        return
    answer = ask(turn.rulebook, case.question)
    _tell_shadows(turn, case, answer)
    if answer.rule is None or answer.rule.then[0] in VERBS:
        close(turn, incident, IncidentResult.RELEASED, "no rule asks for anything")
        if answer.rule is not None:
            _say(turn, case, answer.rule, answer.rule.then[0], answer, incident)
        return
    follow(turn, case, answer.rule, answer)


def chain_is_about_another_problem(turn: Turn, exit_code: int) -> bool:
    """With `unconditional_same_problem_by: exit_code`, another exit code begins a new chain (research 2.10, A8)."""
    counters = counters_of(turn)
    by_code = turn.rulebook.settings.unconditional_same_problem_by == "exit_code"
    return by_code and counters.last_end_code not in {0, exit_code}
