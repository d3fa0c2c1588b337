"""An attempt from step to step: what a finished step leads to, and what a failed one does.

Failure belongs to the step (finding Q11): only a failed healing isolates; a barrier that is not met, a silent API and a guard never do.
From every state silence alone leads to an end.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from recovery import steps
from recovery.barriers import BARRIERS, barrier_met, barrier_missed
from recovery.cells import (
    COUNTERS_CELL,
    INCIDENT_CELL,
    RUN_CELL,
    HoldTarget,
    IncidentCell,
)
from recovery.counters import counters_of, ha_of, refund
from recovery.journal import decide, notify
from recovery.pace import restarted
from recovery.plan import (
    FAIL_JOB,
    Wish,
    choose,
    close,
    in_place_use,
    is_touched,
    may_refund,
    restart_done,
)
from recovery.pods import forget_past_exits
from recovery.run_state import handle_evidence, run_of
from recovery.safe_end import descend, hold_on, not_ours, wait_for_a_word
from recovery.stable import became_stable
from recovery.standstill import move_again
from recovery.turn import Turn
from rules.model import LadderClass, Step, StepFailure
from schemas.commands import Outcome, OutcomeResult, StepName
from schemas.mailbox import HoldCause
from schemas.records import IncidentResult, IncidentState

IN_PLACE = "in_place_recovery"
ATTRIBUTION_COVERS = ("record", "attribute", "release_job")
_NOT_OURS = frozenset({OutcomeResult.REFUSED, OutcomeResult.BLOCKED, OutcomeResult.UNSUPPORTED})


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
    if epoch > counters.schedule_count:
        turn.put(COUNTERS_CELL, replace(counters, schedule_count=epoch))
        forget_past_exits(turn)
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
    counters = restart_done(turn, run, incident)
    restarted(turn)
    incident = without_end(incident)
    if not ha_of(turn, run).on:  # it was switched off meanwhile: from here on the job is left alone
        close(turn, incident, IncidentResult.CANCELLED)
        return
    wanted = turn.rulebook.settings.stabilising
    patience = max(wanted.at_least, timedelta(seconds=wanted.times_last * counters.seconds_to_stable))
    due = turn.after(patience)
    stabilising = replace(
        incident,
        state=IncidentState.STABILISING,
        touched=False,
        index=len(incident.steps),
        begun=False,
        look_at=None,
        deadline=due,
        due=due,
    )
    if stabilising.stable_at is not None:
        became_stable(turn, stabilising)
        return
    turn.put(INCIDENT_CELL, stabilising)


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
        step_done(turn, replace(incident, stable_at=None))
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


def due_came(turn: Turn, incident: IncidentCell) -> None:
    """The incident's due time: a look, or a deadline."""
    if steps.is_unheard(incident) and move_again(turn, incident):
        wait_for_a_word(turn, incident)
        return
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
