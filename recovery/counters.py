"""Budgets and chains: what strategies take, what is given back, when progress resets them (recovery 2)."""

from __future__ import annotations

from dataclasses import replace

from recovery.annotations import HaSettings, read_annotations
from recovery.cells import (
    COUNTERS_CELL,
    INCIDENT_CELL,
    Charge,
    CountersCell,
    IncidentCell,
    RunCell,
)
from recovery.turn import Turn
from rules.model import ChainEffect, Strategy
from schemas.records import Counters, IncidentState


def counters_of(turn: Turn) -> CountersCell:
    """Counters of the run; zeros where nothing was counted yet."""
    return turn.get(COUNTERS_CELL, CountersCell) or CountersCell()


def ha_of(turn: Turn, run: RunCell) -> HaSettings:
    """High-availability settings as the workload's annotations say at this moment."""
    default = turn.rulebook.settings.pod_retry_default
    return read_annotations(dict(run.annotations), pod_retry_default=default)


def job_budget_left(counters: CountersCell, ha: HaSettings) -> int:
    """Job-level restarts left; lowered below what is used means none (recovery 2)."""
    return max(0, ha.job_retry_num - counters.job_retries_used)


def pod_budget_left(counters: CountersCell, ha: HaSettings) -> int:
    """Pod reschedules left."""
    return max(0, ha.pod_retry_num - counters.pod_retries_used)


def charge(
    turn: Turn, strategy: Strategy, *, user: bool, chain: ChainEffect | None, in_place_chips: int
) -> Charge:
    """Take what the strategy costs and return what was taken."""
    before = counters_of(turn)
    effects = strategy.effects
    chain_effect = chain or effects.unconditional_chain
    in_place = 1 if effects.in_place and in_place_chips else 0
    after = replace(
        before,
        job_retries_used=before.job_retries_used + effects.job_retries,
        pod_retries_used=before.pod_retries_used + effects.pod_retries,
        unconditional_chain=_apply(chain_effect, before.unconditional_chain, user=user),
        hang_chain=_apply(effects.hang_chain, before.hang_chain, user=user),
        in_place_since_progress=before.in_place_since_progress + in_place,
        charged_at=turn.now,
    )
    turn.put(COUNTERS_CELL, after)
    return Charge(
        job_retries=effects.job_retries,
        pod_retries=effects.pod_retries,
        chain_before=before.unconditional_chain,
        hang_before=before.hang_chain,
        chain_added=chain_effect is ChainEffect.ADD,
        in_place=in_place,
    )


def _apply(effect: ChainEffect, value: int, *, user: bool) -> int:
    if effect is ChainEffect.ADD:
        return value + 1
    if effect is ChainEffect.RESET or (effect is ChainEffect.RESET_IF_HARDWARE and not user):
        return 0
    return value


def refund(turn: Turn, incident: IncidentCell) -> None:
    """Give back what an attempt took: it was replaced before it had an effect."""
    taken, now = incident.charge, counters_of(turn)
    turn.put(
        COUNTERS_CELL,
        replace(
            now,
            job_retries_used=max(0, now.job_retries_used - taken.job_retries),
            pod_retries_used=max(0, now.pod_retries_used - taken.pod_retries),
            unconditional_chain=taken.chain_before,
            hang_chain=taken.hang_before,
            in_place_since_progress=max(0, now.in_place_since_progress - taken.in_place),
        ),
    )


def correct(turn: Turn, taken: Charge) -> None:
    """Late correction: the retry is given back and the chain broken, for a hardware fault lay before the decision."""
    now = counters_of(turn)
    turn.put(
        COUNTERS_CELL,
        replace(
            now, job_retries_used=max(0, now.job_retries_used - taken.job_retries), unconditional_chain=0
        ),
    )


def rest(turn: Turn, run: RunCell) -> CountersCell:
    """Counters after healthy running counted as progress, for runs that report none (recovery 1, no endless loops)."""
    counters = counters_of(turn)
    healthy = turn.rulebook.settings.healthy_is_progress
    if run.reports_progress or counters.last_restart_at is None:
        return counters
    if turn.now - counters.last_restart_at < healthy:
        return counters
    rested = replace(counters, in_place_since_progress=0, hang_chain=0)
    turn.put(COUNTERS_CELL, rested)
    return rested


def note_step(turn: Turn, step: int, *, attempt: int | None) -> bool:
    """A training step was seen: judge the first one after a restart, and progress beyond the furthest.

    Steps of the time before the last restart say nothing, however late they are heard of: False for those.
    """
    counters = counters_of(turn)
    attempt = known_attempt(turn, attempt)
    if attempt is not None and attempt < counters.attempts and attempt != counters.running:
        return False
    newest = attempt is not None and attempt >= counters.attempts
    if not newest and _before_the_restart(turn, counters):
        return False
    after = counters
    if counters.awaiting_first_step:
        same = step == counters.last_resume_step
        after = replace(
            after,
            awaiting_first_step=False,
            last_resume_step=step,
            same_step_resumes=counters.same_step_resumes + 1 if same else 1,
        )
    elif step > counters.furthest_step and (counters.in_place_since_progress or counters.hang_chain):
        after = replace(after, in_place_since_progress=0, hang_chain=0, furthest_step=step)
    if after is not counters:
        turn.put(COUNTERS_CELL, after)
    return True


def _before_the_restart(turn: Turn, counters: CountersCell) -> bool:
    """Whether a step that says no attempt, or one before the newest, was made by processes that were, or are about to be, replaced."""
    incident, at = turn.get(INCIDENT_CELL, IncidentCell), turn.event.time
    return (
        (incident is not None and incident.state is IncidentState.ACTING)
        or (counters.charged_at is not None and at <= counters.charged_at)
        or (counters.last_restart_at is not None and at < counters.last_restart_at)
    )


def known_attempt(turn: Turn, attempt: int | None) -> int | None:
    """The attempt a process says it belongs to; None where that says nothing: pods of a new issue were given no order and say 0."""
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    return None if attempt == 0 and incident is not None and incident.new_issue else attempt


def snapshot(turn: Turn, run: RunCell) -> Counters:
    """Counters as they stand in every decision record."""
    counters, ha = counters_of(turn), ha_of(turn, run)
    return Counters(
        job_retries_used=counters.job_retries_used,
        job_retry_num=ha.job_retry_num,
        pod_retries_used=counters.pod_retries_used,
        pod_retry_num=ha.pod_retry_num,
        unconditional_chain=counters.unconditional_chain,
        hang_chain=counters.hang_chain,
        schedule_count=counters.schedule_count,
        in_place_since_progress=counters.in_place_since_progress,
    )
