"""An attempt from step to step: what a finished step leads to, and what a failed one does.

Failure belongs to the step (finding Q11): only a failed healing isolates; a barrier that is not met, a silent API and a guard never do.
From every state silence alone leads to an end.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from recovery import steps
from recovery.barriers import BARRIERS, bad_nodes, barrier_met, silent_pods
from recovery.cells import (
    COUNTERS_CELL,
    INCIDENT_CELL,
    RUN_CELL,
    Charge,
    HoldTarget,
    IncidentCell,
)
from recovery.counters import counters_of, ha_of, refund
from recovery.journal import decide, notify
from recovery.pace import restarted
from recovery.plan import (
    FAIL_JOB,
    RELEASE_JOB,
    Wish,
    begin_attempt,
    begun_steps,
    choose,
    close,
    in_place_use,
    is_touched,
    may_refund,
    next_attempt,
    restart_done,
    take_in_place_back,
)
from recovery.run_state import handle_evidence, run_of
from recovery.turn import Turn
from rules.model import LadderClass, Step, StepFailure
from schemas.commands import Outcome, OutcomeResult, StepName
from schemas.mailbox import HoldCause
from schemas.records import IncidentResult, IncidentState

IN_PLACE = "in_place_recovery"
TOO_LATE = "too_late"
"""Cause of an actuator that read a command after its time."""
OTHER_EPOCH = "other_epoch"
"""Cause of an actuator that found the job at another epoch than the command names."""
ATTRIBUTION_COVERS = ("record", "attribute", "release_job")
_NOT_OURS = frozenset({OutcomeResult.REFUSED, OutcomeResult.BLOCKED, OutcomeResult.UNSUPPORTED})
_AFTER_RESUME = frozenset({StepName.SUSPEND_JOB, StepName.FAIL_JOB, StepName.RELEASE_JOB})
"""Steps that a recovery may come to while it does not know whether its resume has reached the job."""
_ENDINGS = {StepName.STOP_PROCESSES: StepName.START_PROCESSES, StepName.SUSPEND_JOB: StepName.RESUME_JOB}


def step_done(turn: Turn, incident: IncidentCell, *, epoch: int | None = None) -> None:
    """The step under way is finished: take its effect down and go on."""
    step = incident.step
    if step is None:
        return
    incident = replace(incident, answered=True)
    if step.step is StepName.HEAL_CHIPS:
        healed = frozenset((t.node.uid, t.chip.id, t.namespace, t.code) for t in incident.chips)
        handle_evidence(turn, healed)
        incident = replace(incident, healed=True)
    if _starts_an_issue(incident, step):
        issue_started(turn, epoch or incident.epoch + 1)
    if incident.index + 1 < len(incident.steps):
        steps.begin(turn, replace(incident, index=incident.index + 1))
        return
    finish(turn, incident, step)


def _starts_an_issue(incident: IncidentCell, step: Step) -> bool:
    """The step after which the processes of a new set of pods run."""
    if step.step is StepName.RESUME_JOB:
        return True
    return step.step is StepName.START_PROCESSES and incident.new_issue


def issue_started(turn: Turn, epoch: int) -> None:
    """Processes of a new issue were started: MA_SCHEDULE_CNT grows, and a failed run was rebuilt."""
    counters, run = counters_of(turn), run_of(turn)
    turn.put(COUNTERS_CELL, replace(counters, schedule_count=max(epoch, counters.schedule_count)))
    if run.failed_at is not None:
        turn.put(RUN_CELL, replace(run, failed_at=None, due=None))


def finish(turn: Turn, incident: IncidentCell, last: Step) -> None:
    """The plan is through: the run is let go, failed, or has to become stable now."""
    run = run_of(turn)
    if last.step in {StepName.FAIL_JOB, StepName.RELEASE_JOB}:
        turn.put(RUN_CELL, replace(run, let_go=True))
        failed = last.step is StepName.FAIL_JOB
        close(turn, incident, IncidentResult.FAILED if failed else IncidentResult.RELEASED)
        return
    counters = restart_done(turn, run)
    restarted(turn)
    incident = without_end(incident)
    if not ha_of(turn, run).on:  # it was switched off meanwhile: from here on the job is left alone
        close(turn, incident, IncidentResult.CANCELLED)
        return
    wanted = turn.rulebook.settings.stabilising
    patience = max(wanted.at_least, timedelta(seconds=wanted.times_last * counters.seconds_to_stable))
    due = turn.after(patience)
    turn.put(
        INCIDENT_CELL,
        replace(
            incident,
            state=IncidentState.STABILISING,
            touched=False,
            index=len(incident.steps),
            begun=False,
            look_at=None,
            deadline=due,
            due=due,
        ),
    )


def outcome_came(turn: Turn, incident: IncidentCell, outcome: Outcome) -> None:
    """An actuator's word on the step under way."""
    step = incident.step
    if step is None or not steps.is_current(turn, incident, outcome):
        return
    incident = replace(incident, heard_at=turn.now)
    if outcome.result in {OutcomeResult.PENDING, OutcomeResult.UNREACHABLE}:
        waiting = steps.note_pending(turn, incident, outcome)
        if step.step in BARRIERS and barrier_met(turn, waiting):
            step_done(turn, waiting)
        return
    over = replace(incident, answered=True)
    if outcome.result in _NOT_OURS:
        not_ours(turn, over, outcome)
        return
    if outcome.result is OutcomeResult.FAILED:
        step_failed(turn, over, outcome.cause or "failed", failed_on=outcome.failed_on)
        return
    if step.step is StepName.FIND_SPARE and outcome.spare is False:
        step_failed(turn, over, "no_spare")
        return
    if step.step in BARRIERS and outcome.told is not None:
        told = replace(incident, told=outcome.told, unreachable=False)
        turn.put(INCIDENT_CELL, told)
        if not barrier_met(turn, told):
            return
        incident = told
    step_done(turn, incident, epoch=outcome.epoch)


def came_too_late(turn: Turn, incident: IncidentCell, outcome: Outcome) -> None:
    """The command lay unread past its time, and nothing was done: what is asked since may still be obeyed, else it is asked again.

    That it came late says nothing of the world (finding R23), so the step gets new time, within the patience for a silent API.
    """
    step = incident.step
    if step is None or outcome.look < incident.look:
        return
    since = incident.held_since or turn.now
    ends = since + turn.rulebook.settings.api_hold
    if turn.now >= ends:
        refused(turn, replace(incident, answered=True), outcome, f"{outcome.result.value}: {TOO_LATE}")
        return
    renewed = replace(incident, held_since=since, deadline=min(turn.after(step.timeout), ends))
    turn.put(INCIDENT_CELL, steps.schedule_look(turn, renewed, step.look_every))


def pod_left(turn: Turn, incident: IncidentCell) -> None:
    """A pod is gone: a stop that waited for it alone is complete."""
    step = incident.step
    stopping = step is not None and step.step is StepName.STOP_PROCESSES and incident.begun
    if incident.state is IncidentState.ACTING and stopping and barrier_met(turn, incident):
        step_done(turn, incident)


def pod_reported(turn: Turn, incident: IncidentCell) -> None:
    """One more pod reported what the barrier under way waits for."""
    counted = replace(incident, reported=incident.reported + 1)
    turn.put(INCIDENT_CELL, counted)
    if barrier_met(turn, counted):
        step_done(turn, counted)


def step_failed(turn: Turn, incident: IncidentCell, cause: str, *, failed_on: tuple[str, ...] = ()) -> None:
    """The step under way failed, or its deadline passed."""
    step = incident.step
    if step is None:
        return
    failure = step.on_cause.get(cause, step.on_failure)
    first = failure.then[0]
    if first == "continue":
        steps.abandon(turn, incident)
        if step.step is StepName.ISOLATE_NODE:
            say_not_isolated(turn, incident)
        step_done(turn, incident)
    elif first == "barrier":
        barrier_missed(turn, incident, step)
    elif first == "abnormal_end":
        attribute_again(turn, incident, cause)
    elif first == "stay":
        no_spare(turn, incident)
    else:
        fall(turn, incident, step, failure, cause, failed_on=failed_on)


def fall(
    turn: Turn,
    incident: IncidentCell,
    step: Step,
    failure: StepFailure,
    cause: str,
    *,
    failed_on: tuple[str, ...] = (),
) -> None:
    """Take the strategy that the failed step leads to; the job is failed when none is left."""
    isolates = failure.isolate and not (
        incident.user and turn.rulebook.settings.user_class_heal_failed == "unconditional"
    )
    then = failure.then if isolates or not failure.isolate else ("unconditional_job_reschedule",)
    said = failure.cause or cause
    reason = f"{step.step.value} of {incident.strategy} failed: {cause}"
    wish = Wish(
        then=then,
        rule=f"{incident.strategy}/{step.step.value}",
        reason=reason,
        holds=_holds_of_chips(turn, incident, failed_on) if isolates else (),
        chain=failure.unconditional_chain,
        cause=said,
        user=incident.user,
    )
    descend(turn, incident, wish, row="4" if isolates else "11")


def descend(turn: Turn, incident: IncidentCell, wish: Wish, *, row: str, flags: tuple[str, ...] = ()) -> None:
    """Begin the next attempt of an incident whose present one is over, and say so."""
    strategy, obstacles = choose(turn, run_of(turn), wish.then, (*incident.holds, *wish.holds))
    if strategy is None:
        exhausted = "budget_exhausted" in obstacles.values()
        ending = RELEASE_JOB if "unsupported" in obstacles.values() else FAIL_JOB
        strategy = turn.rulebook.strategies.get(ending)
        wish = replace(wish, cause="budget_exhausted" if exhausted else wish.cause or "nothing_left")
    if strategy is None or strategy.id == incident.strategy == RELEASE_JOB:
        close(turn, incident, IncidentResult.RELEASED, wish.cause)
        return
    planned = begin_attempt(turn, incident, strategy, wish)
    decide(
        turn,
        verdict=strategy.id,
        rule=wish.rule,
        row=row,
        reason=wish.reason,
        domain=incident.domain,
        incident=planned,
        flags=flags,
    )


def _holds_of_chips(turn: Turn, incident: IncidentCell, failed_on: tuple[str, ...]) -> tuple[HoldTarget, ...]:
    return tuple(
        HoldTarget(
            node=target.node,
            cause=HoldCause(
                namespace=target.namespace,
                code=target.code,
                chip=target.chip,
                evidence=incident.trigger,
                ladder_class=LadderClass.ISOLATE.value,
                seen_at=turn.now,
            ),
        )
        for target in incident.chips
        if not failed_on or target.node.uid in failed_on
    )


def say_not_isolated(turn: Turn, incident: IncidentCell) -> None:
    """The rebuild goes on and keeps off the node all the same; people are told why it is not isolated."""
    missing = [hold for hold in incident.holds if hold.state != "held"]
    if not missing:
        return
    why = ", ".join(f"{hold.node.name}: {hold.answer or 'no answer'}" for hold in missing)
    reason = f"not isolated: {why}; the run is kept off all the same"
    decide(
        turn,
        verdict="not_isolated",
        rule=incident.rule,
        row="4",
        reason=reason,
        domain=incident.domain,
        incident=incident,
        flags=("not_isolated",),
    )
    notify(turn, reason, about="not_isolated")


def no_spare(turn: Turn, incident: IncidentCell) -> None:
    """No spare node: what follows is the rulebook's choice by class (recovery 1, spare first)."""
    choice = turn.rulebook.settings.no_spare
    answer = choice.self_heal if incident.heals else choice.isolate
    if answer == "stay" and not _may_stay(turn, incident):
        answer = "wait"
    notify(turn, f"no spare node for {incident.strategy}: {answer}", about="no_spare")
    if answer == "fail":
        wish = Wish(
            then=(FAIL_JOB,), rule=incident.rule, reason="no spare node", cause="no_spare", user=incident.user
        )
        descend(turn, incident, wish, row="11", flags=("no_spare",))
        return
    if answer == "stay":
        _stay(turn, incident)
        return
    decide(
        turn,
        verdict="wait",
        rule=incident.rule,
        row="4",
        reason="no spare node; the rebuild waits for one",
        domain=incident.domain,
        incident=incident,
        flags=("no_spare",),
    )
    steps.abandon(turn, incident)
    step_done(turn, incident)


def _may_stay(turn: Turn, incident: IncidentCell) -> bool:
    limits = turn.rulebook.limits
    if counters_of(turn).in_place_since_progress >= limits.in_place_per_run or not incident.chips:
        return False
    if any(
        in_place_use(turn, f"{target.node.uid}/{target.chip.id}", user=target.user)[0]
        >= limits.in_place_per_chip
        for target in incident.chips
    ):
        return False
    return choose(turn, run_of(turn), (IN_PLACE,))[0] is not None


def _stay(turn: Turn, incident: IncidentCell) -> None:
    if may_refund(incident):
        refund(turn, incident)
    staying = replace(incident, holds=(), excluded=())
    wish = Wish(
        then=(IN_PLACE,),
        rule=incident.rule,
        reason="no spare node, so the processes are restarted in place inside their limits",
        user=incident.user,
        heals=incident.heals,
    )
    descend(turn, staying, wish, row="4", flags=("no_spare",))


def barrier_missed(turn: Turn, incident: IncidentCell, step: Step) -> None:
    """Pods stayed silent: few on nodes that are not Ready are a fault of those; else hold, isolate nobody (design 8)."""
    silent = silent_pods(turn, incident, step)
    bad = bad_nodes(turn)
    limit = turn.rulebook.settings.barrier.few_silent
    few = 0 < len(silent) <= limit and all(pod.node.uid in bad for pod in silent)
    heard = incident.told >= 0 and not incident.unreachable and not steps.rests_on_lost(turn, incident)
    if few and heard:
        nodes = {pod.node.uid: pod.node for pod in silent}
        wish = Wish(
            then=("pod_reschedule", "isolated_job_reschedule"),
            rule=f"{incident.strategy}/{step.step.value}",
            reason=f"{len(silent)} pods stayed silent and their nodes are not Ready",
            holds=tuple(HoldTarget(node=node, cause=bad[uid]) for uid, node in nodes.items()),
            user=False,
        )
        descend(turn, incident, wish, row="4")
        return
    hold_on(turn, incident, turn.rulebook.settings.barrier.hold, f"{len(silent)} pods are silent")


def hold_on(turn: Turn, incident: IncidentCell, patience: timedelta, why: str) -> None:
    """Nothing can be concluded: ask again, and after the patience end by the shortest safe end."""
    since: datetime = incident.held_since or turn.now
    step = incident.step
    if step is None or turn.now - since >= patience:
        safe_end(turn, incident, f"held for {patience}: {why}")
        return
    if incident.held_since is None:
        decide(
            turn,
            verdict="hold",
            rule=incident.rule,
            row="1",
            reason=f"{why}; held, nobody is isolated",
            domain=incident.domain,
            incident=incident,
            flags=("held",),
        )
    deadline = min(turn.after(step.timeout), since + patience)
    waiting = replace(incident, held_since=since, deadline=deadline, look=incident.look + 1, answered=False)
    steps.send(turn, waiting, step, "look")
    turn.put(INCIDENT_CELL, steps.schedule_look(turn, waiting, step.look_every))


def without_end(incident: IncidentCell) -> IncidentCell:
    """The incident without how the run ended before: a later end is judged by its own circumstances."""
    return replace(incident, exit_code=0, exit_signal=0, oom=False, evicted=False, preempted=False)


def attribute_again(turn: Turn, incident: IncidentCell, cause: str) -> None:
    """The restarted processes ended, or did not start: judged like any abnormal end, after its window (row 10)."""
    steps.abandon(turn, incident)
    due = turn.after(turn.rulebook.settings.attribution_window)
    waiting = replace(
        incident,
        state=IncidentState.ATTRIBUTING,
        touched=is_touched(incident),
        covers=ATTRIBUTION_COVERS,
        merge_before="",
        steps=(),
        index=0,
        begun=False,
        look_at=None,
        deadline=due,
        cause=cause,
        due=due,
    )
    turn.put(INCIDENT_CELL, waiting)


def not_ours(turn: Turn, incident: IncidentCell, outcome: Outcome) -> None:
    """A guard forbids the step, the world is another one, or there is no adapter: end safely, isolate nothing more."""
    said = outcome.cause or outcome.result.value
    if outcome.result is OutcomeResult.REFUSED and said == TOO_LATE:
        came_too_late(turn, replace(incident, answered=False), outcome)
    elif said == OTHER_EPOCH and _begins_at_the_resumed_epoch(turn, incident):
        return
    elif incident.strategy == RELEASE_JOB:
        close(turn, incident, IncidentResult.RELEASED, said)
    else:
        refused(turn, incident, outcome, f"{outcome.result.value}: {said}")


def _begins_at_the_resumed_epoch(turn: Turn, incident: IncidentCell) -> bool:
    """The job is at the epoch that our own resume started, which nobody told us of: it is meant, so the step is begun for it."""
    step = incident.step
    if step is None or step.step not in _AFTER_RESUME or incident.resumed <= incident.epoch:
        return False
    steps.begin(turn, replace(incident, attempt=next_attempt(turn), epoch=incident.resumed))
    return True


def refused(turn: Turn, incident: IncidentCell, outcome: Outcome, why: str) -> None:
    """The step was not carried out. Where the attempt has done nothing yet, what it took is given back, and a job that runs is left alone.

    Only one whose processes had ended is let go, for somebody has to say what becomes of it.
    """
    step = incident.step
    opens = step is not None and step.step in _ENDINGS
    if not opens or incident.acted or outcome.effects or incident.told >= 0 or incident.reported:
        safe_end(turn, incident, why)
        return
    refund(turn, incident)
    take_in_place_back(turn, incident)
    free = replace(incident, charge=Charge())
    if incident.touched:
        safe_end(turn, free, why)
    elif _runs_on(free, besides=frozenset(_ENDINGS)):
        closed = close(turn, free, IncidentResult.CANCELLED, why[:60])
        said = f"nothing was begun, the job is left as it is: {why}"
        decide(
            turn,
            verdict="cancelled",
            rule=free.rule,
            row="0",
            reason=said,
            domain=free.domain,
            incident=closed,
            flags=("safe_end",),
        )
    else:
        let_go(turn, free, why)


def let_go(turn: Turn, incident: IncidentCell, why: str) -> None:
    """There is nothing to add: the job is its supervisors' and Kubernetes' own."""
    wish = Wish(then=(RELEASE_JOB,), rule=incident.rule, reason=why, cause=why[:60], user=incident.user)
    descend(turn, incident, wish, row="0", flags=("safe_end",))


def safe_end(turn: Turn, incident: IncidentCell, why: str) -> None:
    """Shortest safe end: start again what was stopped, resume what was suspended, else let the job go."""
    ending = _ending_step(incident)
    if ending is None and _runs_on(incident):
        close(turn, incident, IncidentResult.CANCELLED, why[:60])
        return
    if ending is None:
        let_go(turn, incident, why)
        return
    steps.abandon(turn, incident)
    planned = replace(
        incident,
        attempt=next_attempt(turn),
        steps=(ending,),
        index=0,
        begun=False,
        covers=(),
        merge_before="",
        new_issue=incident.new_issue and _touched_pods(incident),
        decided_at=turn.now,
        reason=why,
        cause=why[:60],
    )
    begun = steps.begin(turn, planned)
    decide(
        turn,
        verdict=ending.step.value,
        rule=incident.rule,
        row="0",
        reason=f"shortest safe end: {why}",
        domain=incident.domain,
        incident=begun,
        flags=("safe_end",),
    )


def _touched_pods(incident: IncidentCell) -> bool:
    return bool(begun_steps(incident) & {StepName.SUSPEND_JOB, StepName.DELETE_PODS})


def _runs_on(incident: IncidentCell, *, besides: frozenset[StepName] = frozenset()) -> bool:
    """Nothing was stopped yet and no process ended: the job goes on as it is, there is nothing to let go."""
    ended = incident.exit_code or incident.exit_signal or incident.evicted or incident.preempted
    harmless = {StepName.FIND_SPARE, StepName.ISOLATE_NODE}
    return (
        incident.state is IncidentState.ACTING and not ended and begun_steps(incident) <= harmless | besides
    )


def _ending_step(incident: IncidentCell) -> Step | None:
    """The step that undoes what was begun; None when nothing was, or when just that has failed."""
    begun = begun_steps(incident)
    current = incident.step
    for opening, ending in _ENDINGS.items():
        if opening not in begun or (current is not None and current.step is ending and incident.begun):
            continue
        for step in incident.steps:
            if step.step is ending:
                return step.model_copy(
                    update={"on_failure": StepFailure(then=(RELEASE_JOB,)), "on_cause": {}}
                )
    return None


def due_came(turn: Turn, incident: IncidentCell) -> None:
    """The incident's due time: a look, or a deadline."""
    if incident.deadline is not None and turn.now < incident.deadline:
        steps.look(turn, incident)
        return
    if steps.look_was_missed(incident):
        steps.look(turn, steps.given_back(turn, incident))
        return
    if incident.unreachable:
        hold_on(turn, incident, turn.rulebook.settings.api_hold, "the API does not answer")
        return
    if steps.nobody_answers(turn, incident):
        hold_on(turn, incident, turn.rulebook.settings.api_hold, "no actuator answers")
        return
    step_failed(turn, incident, "timeout")
