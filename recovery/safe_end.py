"""What follows when an attempt cannot go on: the next strategy, patience, or the shortest safe end.

Whatever was begun is undone by the step that undoes just that: processes that were stopped are started, a suspended job is resumed. An attempt
that has done nothing costs nothing. A job is let go only when nothing else is left, for it then has no recovery until somebody restarts it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from recovery import steps
from recovery.cells import INCIDENT_CELL, Charge, IncidentCell
from recovery.counters import refund
from recovery.holds import RECOVERED
from recovery.journal import decide
from recovery.plan import (
    FAIL_JOB,
    RELEASE_JOB,
    Wish,
    as_last_resort,
    begin_attempt,
    begun_steps,
    choose,
    close,
    next_attempt,
    take_in_place_back,
)
from recovery.run_state import all_pods, run_of
from recovery.standstill import move_again
from recovery.turn import Turn
from rules.model import Step, StepFailure
from schemas.commands import Outcome, OutcomeResult, StepName
from schemas.records import IncidentResult, IncidentState

TOO_LATE = "too_late"
"""Cause of an actuator that read a command after its time."""
OTHER_EPOCH = "other_epoch"
"""Cause of an actuator that found the job at another epoch than the command names."""
SUCCEEDED: Final = "succeeded"
"""Cause of an actuator that found every rank ended well: the run's own end, seen before the watcher told of it."""
_AFTER_RESUME = frozenset({StepName.SUSPEND_JOB, StepName.FAIL_JOB, StepName.RELEASE_JOB})
"""Steps that a recovery may come to while it does not know whether its resume has reached the job."""
_ENDINGS = {StepName.STOP_PROCESSES: StepName.START_PROCESSES, StepName.SUSPEND_JOB: StepName.RESUME_JOB}


def descend(turn: Turn, incident: IncidentCell, wish: Wish, *, row: str, flags: tuple[str, ...] = ()) -> None:
    """Begin the next attempt of an incident whose present one is over, and say so."""
    strategy, obstacles = choose(turn, run_of(turn), wish.then, (*incident.holds, *wish.holds))
    if strategy is None:
        ending = RELEASE_JOB if "unsupported" in obstacles.values() else FAIL_JOB
        strategy = turn.rulebook.strategies.get(ending)
        wish = as_last_resort(wish, obstacles)
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


def not_ours(turn: Turn, incident: IncidentCell, outcome: Outcome) -> None:
    """A guard forbids the step, the world is another one, or there is no adapter: end safely, isolate nothing more."""
    said = outcome.cause or outcome.result.value
    if outcome.result is OutcomeResult.REFUSED and said == TOO_LATE:
        came_too_late(turn, replace(incident, answered=False), outcome)
    elif said == OTHER_EPOCH and _begins_at_the_resumed_epoch(turn, incident):
        return
    elif outcome.result is OutcomeResult.REFUSED and said == SUCCEEDED:
        close(turn, incident, IncidentResult.RUN_ENDED, SUCCEEDED)
    elif incident.strategy == RELEASE_JOB:
        close(turn, incident, IncidentResult.RELEASED, said)
    else:
        refused(turn, incident, outcome, f"{outcome.result.value}: {said}")


def came_too_late(turn: Turn, incident: IncidentCell, outcome: Outcome) -> None:
    """The command lay unread past its time, and nothing was done: what is asked since may still be obeyed, else it is asked again.

    That it came late says nothing of the world (finding R23), so the step gets new time, within the patience for a silent API. But what was
    said since does: processes that move again are not stopped because they once stood still.
    """
    step = incident.step
    if step is None or outcome.look < incident.look:
        return
    if move_again(turn, incident) and not (incident.acted or outcome.effects or incident.told >= 0):
        give_up(turn, incident)
        return
    patience = turn.rulebook.settings.api_hold
    if steps.is_out_of_patience(turn, incident, patience):
        refused(turn, replace(incident, answered=True), outcome, f"{outcome.result.value}: {TOO_LATE}")
        return
    renewed = steps.with_new_time(turn, incident, step, patience)
    turn.put(INCIDENT_CELL, steps.schedule_look(turn, renewed, step.look_every))


def give_up(turn: Turn, incident: IncidentCell) -> None:
    """Nothing was done for processes that stood still, and they move again: what was counted is given back."""
    refund(turn, incident)
    _leave(turn, replace(incident, charge=Charge(), answered=True), "its processes move again")


def _begins_at_the_resumed_epoch(turn: Turn, incident: IncidentCell) -> bool:
    """The job is at the epoch that our own resume started, which nobody told us of: it is meant, so the step is begun for it."""
    step = incident.step
    if step is None or step.step not in _AFTER_RESUME or incident.resumed <= incident.epoch:
        return False
    begun = steps.begin(turn, replace(incident, attempt=next_attempt(turn), epoch=incident.resumed))
    decide(
        turn,
        verdict=incident.strategy,
        rule=incident.rule,
        row="11",
        reason=f"the job is at epoch {incident.resumed}, which our resume began: {step.step.value} is asked for that one",
        domain=incident.domain,
        incident=begun,
    )
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
        _leave(turn, free, why)
    else:
        let_go(turn, free, why)


def nodes_are_well_again(turn: Turn, incident: IncidentCell) -> bool:
    """All nodes that the run was to leave came back before they were isolated: a job that nothing happened to is left as it is, at no cost.

    False: the attempt goes on. A process that ended, a pod that is gone, a job that failed do not come back by themselves.
    """
    run = run_of(turn)
    unhurt = _runs_on(incident) and not incident.touched and run.failed_at is None and all_pods(run)
    if not unhurt or not incident.holds or any(hold.answer != RECOVERED for hold in incident.holds):
        return False
    refund(turn, incident)
    _leave(turn, replace(incident, charge=Charge()), "the nodes are Ready again")
    return True


def _leave(turn: Turn, incident: IncidentCell, why: str) -> None:
    closed = close(turn, incident, IncidentResult.CANCELLED, why[:60])
    said = f"nothing was begun, the job is left as it is: {why}"
    decide(
        turn,
        verdict="cancelled",
        rule=incident.rule,
        row="0",
        reason=said,
        domain=incident.domain,
        incident=closed,
        flags=("safe_end",),
    )


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
        hang=False,
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


def hold_on(turn: Turn, incident: IncidentCell, patience: timedelta, why: str) -> None:
    """Nothing can be concluded: ask again, and after the patience end by the shortest safe end."""
    step = incident.step
    if step is None or steps.is_out_of_patience(turn, incident, patience):
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
    renewed = steps.with_new_time(turn, incident, step, patience)
    waiting = replace(renewed, look=incident.look + 1, answered=False)
    steps.send(turn, waiting, step, "look")
    turn.put(INCIDENT_CELL, steps.schedule_look(turn, waiting, step.look_every))


def wait_for_a_word(turn: Turn, incident: IncidentCell) -> None:
    """Give the step new time without asking for it again: an actuator that reads late what was asked for refuses it.

    Whether the processes were stopped is not known, so after the patience they are started, which changes nothing for those that run.
    """
    step, patience = incident.step, turn.rulebook.settings.api_hold
    if step is None or steps.is_out_of_patience(turn, incident, patience):
        safe_end(turn, incident, f"held for {patience}: no actuator answers, and its processes move again")
        return
    renewed = steps.with_new_time(turn, incident, step, patience)
    turn.put(INCIDENT_CELL, steps.schedule_look(turn, renewed, step.look_every))


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
