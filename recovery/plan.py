"""From a decision to a plan: which strategy is possible and affordable, and the attempt it begins.

An attempt copies the strategy's steps into the incident, so that a new rulebook does not change what is under way (design 5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from recovery import steps
from recovery.cells import (
    COUNTERS_CELL,
    INCIDENT_CELL,
    RUN_CELL,
    TARGETS_KEPT,
    ChipCell,
    ChipTarget,
    CountersCell,
    HoldTarget,
    IncidentCell,
    PodCell,
    RunCell,
    chip_name,
    place_name,
)
from recovery.counters import charge, counters_of, ha_of, job_budget_left, pod_budget_left, refund
from recovery.run_state import all_pods, nodes_ready, run_of
from recovery.turn import Turn
from rules.model import ChainEffect, Step, Strategy
from schemas.commands import StepName
from schemas.ids import derive_id
from schemas.records import FaultDomain, IncidentResult, IncidentState
from schemas.signals import NodeRef

FAIL_JOB = "fail_job"
RELEASE_JOB = "release_job"
_CLUSTER_STEPS = frozenset(
    {StepName.SUSPEND_JOB, StepName.RESUME_JOB, StepName.DELETE_PODS, StepName.FAIL_JOB}
)
_TOUCHING = frozenset({StepName.STOP_PROCESSES, StepName.SUSPEND_JOB, StepName.DELETE_PODS})


@dataclass(frozen=True, slots=True)
class Wish:
    """What a decision wants of the plan it leads to."""

    then: tuple[str, ...]
    rule: str
    reason: str
    chips: tuple[ChipTarget, ...] = ()
    holds: tuple[HoldTarget, ...] = ()
    keep_off: tuple[NodeRef, ...] = ()
    chain: ChainEffect | None = None
    cause: str = ""
    user: bool = False
    heals: bool = False

    @property
    def wanted_holds(self) -> tuple[HoldTarget, ...]:
        """Its holds, each with why it is wanted."""
        return tuple(replace(hold, rule=self.rule, reason=self.reason) for hold in self.holds)


def open_incident(
    turn: Turn, *, state: IncidentState, domain: FaultDomain, fault_time: datetime
) -> IncidentCell:
    """A new incident; its id derives from its first evidence."""
    return IncidentCell(
        id=derive_id(turn.cluster, turn.subject, turn.event.id),
        state=state,
        opened_at=turn.now,
        fault_time=min(fault_time, turn.now),
        trigger=turn.event.id,
        domain=domain,
        rulebook=turn.rulebook.hash,
        user=True,
    )


def obstacle(  # noqa: PLR0911 - one line a reason
    turn: Turn, run: RunCell, strategy: Strategy, holds: tuple[HoldTarget, ...] = ()
) -> str:
    """Why the strategy cannot be taken now, with the pods on these nodes to be made anew; empty when it can."""
    counters, ha = counters_of(turn), ha_of(turn, run)
    if not strategy.enabled:
        return strategy.disabled_because or "disabled"
    if strategy.switch and strategy.switch not in turn.rulebook.settings.retry_num_implies:
        return f"{strategy.switch} is not among retry_num_implies"
    if strategy.flag == "pod_retry" and pod_budget_left(counters, ha) < max(1, strategy.effects.pod_retries):
        return "budget_exhausted"
    if strategy.flag == "pod_retry" and _spares_rank_zero(turn, holds):
        return "rank_zero"
    if strategy.effects.job_retries > job_budget_left(counters, ha):
        return "budget_exhausted"
    if strategy.supervised and not run.supervised:
        return "unsupervised"
    if strategy.whole_issue and not (all_pods(run) and nodes_ready(turn)):
        return "issue_incomplete"
    if not run.supported and any(step.step in _CLUSTER_STEPS for step in strategy.steps):
        return "unsupported"
    return ""


def _spares_rank_zero(turn: Turn, holds: tuple[HoldTarget, ...]) -> bool:
    """Rank 0's pod would be made anew, and the site excludes it from pod reschedule (A28). Walks the pods: for rare events only."""
    if turn.rulebook.settings.rank_zero_in_pod_reschedule:
        return False
    nodes = {hold.node.uid for hold in holds}
    pods = (turn.get(name, PodCell) for name in turn.names("pod/"))
    return any(
        pod is not None and pod.rank == 0 and not pod.unfenced and pod.node.uid in nodes for pod in pods
    )


def choose(
    turn: Turn, run: RunCell, then: tuple[str, ...], holds: tuple[HoldTarget, ...] = ()
) -> tuple[Strategy | None, dict[str, str]]:
    """First strategy of the list that can be taken, and why the ones before it cannot."""
    obstacles: dict[str, str] = {}
    for name in then:
        strategy = turn.rulebook.strategies.get(name)
        if strategy is None:
            obstacles[name] = "not in this rulebook"
            continue
        reason = obstacle(turn, run, strategy, holds)
        if not reason:
            return strategy, obstacles
        obstacles[name] = reason
    return None, obstacles


def as_last_resort(wish: Wish, obstacles: dict[str, str]) -> Wish:
    """Of what the rule asks for nothing can be taken: the decision and its command say why."""
    why = "budget_exhausted" if "budget_exhausted" in obstacles.values() else wish.cause or "nothing_left"
    return replace(wish, cause=why, reason=f"{wish.reason}; {why.replace('_', ' ')}")


def begin_attempt(turn: Turn, incident: IncidentCell, strategy: Strategy, wish: Wish) -> IncidentCell:
    """Begin a new attempt of the incident: charge it, copy its steps, and send the first command."""
    steps.abandon(turn, incident)
    fresh = incident.healed or incident.state is IncidentState.STABILISING
    before = () if fresh else incident.chips
    chips = merge_chips(before, wish.chips)
    holds = merge_holds(() if fresh else incident.holds, wish.wanted_holds)
    user = incident.user and wish.user
    taken = charge(turn, strategy, user=wish.user, chain=wish.chain, in_place_chips=len(chips))
    if strategy.effects.in_place:
        counted = {_place(target) for target in before} if incident.strategy == strategy.id else set()
        note_in_place(turn, tuple(target for target in chips if _place(target) not in counted))
    run = run_of(turn)
    if run.let_go and strategy.id not in {FAIL_JOB, RELEASE_JOB}:
        turn.put(RUN_CELL, replace(run, let_go=False))
    planned = replace(
        incident,
        state=IncidentState.ACTING,
        touched=is_touched(incident),
        attempt=next_attempt(turn),
        epoch=counters_of(turn).schedule_count,
        strategy=strategy.id,
        covers=strategy.covers,
        merge_before=strategy.merge_before.value if strategy.merge_before else "",
        steps=tuple(step for step in strategy.steps if _applies(turn, step, holds, heals=wish.heals)),
        index=0,
        begun=False,
        held_since=None,
        unreachable=False,
        chips=chips,
        holds=holds,
        excluded=exclude(turn, *incident.excluded, *(hold.node for hold in holds), *wish.keep_off),
        new_issue=strategy.effects.new_issue,
        hang=False,
        healed=False,
        charge=taken,
        decided_at=turn.now,
        rule=wish.rule,
        reason=wish.reason,
        cause=wish.cause,
        user=user,
        heals=wish.heals,
    )
    return steps.begin(turn, planned)


def next_attempt(turn: Turn) -> int:
    """Number of the next attempt: grows over all incidents of the run."""
    counters = counters_of(turn)
    turn.put(COUNTERS_CELL, replace(counters, attempts=counters.attempts + 1))
    return counters.attempts + 1


def replace_attempt(
    turn: Turn, incident: IncidentCell, then: tuple[str, ...], otherwise: str, wish: Wish
) -> IncidentCell | None:
    """Begin another attempt instead of the present one, which had no effect yet: what it took is given back first."""
    before = counters_of(turn)
    if may_refund(incident):
        refund(turn, incident)
    run = run_of(turn)
    strategy, obstacles = choose(turn, run, then, (*incident.holds, *wish.holds))
    if strategy is None:
        last = RELEASE_JOB if not run.supported and otherwise == FAIL_JOB else otherwise
        strategy = turn.rulebook.strategies.get(last)
        wish = as_last_resort(wish, obstacles)
    if strategy is None:
        turn.put(COUNTERS_CELL, before)
        return None
    return begin_attempt(turn, incident, strategy, wish)


def may_refund(incident: IncidentCell) -> bool:
    """The attempt under way has not yet had the effect it was charged for."""
    return incident.state is IncidentState.ACTING and incident.new_issue and not past_merging(incident)


def past_merging(incident: IncidentCell) -> bool:
    """The step that covers further faults has begun: they begin a new attempt."""
    if not incident.merge_before:
        return True
    for position, step in enumerate(incident.steps):
        if step.step.value == incident.merge_before:
            return incident.index > position or (incident.index == position and incident.begun)
    return True


def _place(target: ChipTarget) -> str:
    return place_name(target.node.uid, target.chip.id)


def _applies(turn: Turn, step: Step, holds: tuple[HoldTarget, ...], *, heals: bool) -> bool:
    if step.only_if == "fault_heals":
        return heals
    if step.only_if == "isolating":
        return bool(holds)
    if step.only_if == "spare_decides":  # where it waits whatever is answered, isolating at once is better
        return heals or (bool(holds) and turn.rulebook.settings.no_spare.isolate != "wait")
    return True


def merge_chips(old: tuple[ChipTarget, ...], new: tuple[ChipTarget, ...]) -> tuple[ChipTarget, ...]:
    """Both lists, one entry a chip and code."""
    joined = {(t.node.uid, t.chip.id, t.namespace, t.code): t for t in (*old, *new)}
    return tuple(joined.values())[:TARGETS_KEPT]


def merge_holds(old: tuple[HoldTarget, ...], new: tuple[HoldTarget, ...]) -> tuple[HoldTarget, ...]:
    """Both lists, one entry a node and cause; what was answered stays answered."""
    joined = {_hold_key(hold): hold for hold in old}
    for hold in new:
        joined.setdefault(_hold_key(hold), hold)
    return tuple(joined.values())[:TARGETS_KEPT]


def _hold_key(hold: HoldTarget) -> tuple[str, ...]:
    chip = hold.cause.chip.id if hold.cause.chip else ""
    return (hold.node.uid, hold.cause.namespace, hold.cause.code, chip)


def exclude(turn: Turn, *nodes: NodeRef) -> tuple[NodeRef, ...]:
    """Nodes the rebuilt run keeps off, newest last, at most as many as the settings say."""
    joined = {node.uid: node for node in nodes}
    return tuple(joined.values())[-turn.rulebook.settings.max_excluded_nodes :]


def note_in_place(turn: Turn, chips: tuple[ChipTarget, ...]) -> None:
    """Count one in-place recovery for each chip, once a chip whatever its codes."""
    limit = turn.rulebook.settings.in_place_per_chip
    by_place: dict[str, bool] = {}
    for target in chips:
        place = place_name(target.node.uid, target.chip.id)
        by_place[place] = by_place.get(place, True) and target.user
    for place, user in by_place.items():
        name = chip_name(place)
        cell = turn.get(name, ChipCell) or ChipCell()
        kept = tuple(at for at in cell.in_place_at if turn.now - at <= limit.within)[-limit.at_most :]
        all_user = user and (cell.all_user or not kept)
        turn.put(
            name,
            replace(cell, in_place_at=(*kept, turn.now), all_user=all_user, due=turn.after(limit.within)),
        )


def begun_steps(incident: IncidentCell) -> frozenset[StepName]:
    """Steps of the attempt under way that were begun."""
    return frozenset(step.step for step in incident.steps[: incident.index + (1 if incident.begun else 0)])


def is_touched(incident: IncidentCell) -> bool:
    """The incident has stopped processes, or may have, and they were not started since."""
    if incident.state is IncidentState.STABILISING:
        return False
    return incident.touched or bool(begun_steps(incident) & _TOUCHING)


def take_in_place_back(turn: Turn, incident: IncidentCell) -> None:
    """The attempt under way restarted nothing: what it counted for its chips is given back."""
    since = incident.decided_at
    if since is None or not incident.charge.in_place:
        return
    for place in {_place(target) for target in incident.chips}:
        cell = turn.get(chip_name(place), ChipCell)
        if cell is not None:
            turn.put(
                chip_name(place),
                replace(cell, in_place_at=tuple(at for at in cell.in_place_at if at < since)),
            )


def in_place_use(turn: Turn, place: str, *, user: bool) -> tuple[int, bool]:
    """(in-place recoveries of the chip inside the limit's window, all of them and this fault were user class)."""
    cell = turn.get(chip_name(place), ChipCell) or ChipCell()
    within: timedelta = turn.rulebook.settings.in_place_per_chip.within
    kept = sum(1 for at in cell.in_place_at if turn.now - at <= within)
    return kept, user and (cell.all_user or not kept)


def restart_done(turn: Turn, run: RunCell, incident: IncidentCell) -> CountersCell:
    """Counters after processes were started again."""
    counters = counters_of(turn)
    after = replace(
        counters,
        running=0 if incident.new_issue else incident.attempt,
        awaiting_first_step=True,
        furthest_step=max(counters.furthest_step, run.progress_step),
        last_restart_at=turn.now,
    )
    turn.put(COUNTERS_CELL, after)
    return after


def close(turn: Turn, incident: IncidentCell, result: IncidentResult, cause: str = "") -> IncidentCell:
    """End the incident; its cell stays for a late correction."""
    steps.abandon(turn, incident)
    closed = replace(
        incident,
        state=IncidentState.CLOSED,
        result=result,
        cause=cause or incident.cause,
        closed_at=turn.now,
        deadline=None,
        look_at=None,
        due=turn.after(turn.rulebook.settings.late_correction),
    )
    turn.put(INCIDENT_CELL, closed)
    return closed
