"""Pods of a run, one cell each: bound, heard of before that, vanished, or ended.

A pod object that vanished proves nothing about its processes (recovery 5). Its cell stays, `unfenced`, and no stop is complete meanwhile,
until somebody who knows says that they are gone: the kubelet or the supervisor, or its node is gone - or until a time is over, which is told
then. Where the whole issue is taken down, by us or by its user, actuators wait for the processes themselves (design 8).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from recovery.barriers import waits_for
from recovery.cells import (
    INCIDENT_CELL,
    RUN_CELL,
    UNBOUND,
    IncidentCell,
    PodCell,
    exit_name,
    pod_name,
)
from recovery.classification import NODE_NAMESPACE
from recovery.counters import counters_of
from recovery.journal import decide
from recovery.plan import begun_steps
from recovery.run_state import present_evidence, run_of
from recovery.turn import Turn
from schemas.commands import StepName
from schemas.facts import PodBound, PodEnded
from schemas.mailbox import NodeNews
from schemas.records import IncidentState
from schemas.signals import ProcessState

NODE_GONE: Final = "gone"
"""Condition of a node whose object was deleted: no process of it lives."""
_TAKING_DOWN: Final = frozenset({StepName.SUSPEND_JOB, StepName.RESUME_JOB})


def pod_bound(turn: Turn, data: PodBound) -> None:
    """A pod of the run was bound: one cell a pod, one number for all (finding Q19)."""
    uid = data.placement.pod_uid
    if uid is None:
        return
    known = turn.get(pod_name(uid), PodCell)
    rank = data.placement.rank if data.placement.rank is not None else -1
    if known is not None and known.bound:
        turn.put(pod_name(uid), replace(known, node=data.node, rank=rank))
        return
    run = run_of(turn)
    epoch = data.placement.epoch or 0
    if known is None:
        turn.put(pod_name(uid), PodCell(node=data.node, rank=rank, epoch=epoch))
        turn.put(RUN_CELL, replace(run, pods=run.pods + 1))
        return
    turn.put(pod_name(uid), replace(known, node=data.node, rank=rank, epoch=epoch or known.epoch, due=None))
    turn.put(RUN_CELL, replace(run, pods=run.pods + 1, early_pods=max(0, run.early_pods - 1)))


def pod_ended(turn: Turn, data: PodEnded) -> None:
    """A pod of the run is terminal or gone."""
    uid = data.placement.pod_uid
    pod = turn.get(pod_name(uid), PodCell) if uid else None
    if uid is None or pod is None:
        return
    if not pod.unfenced:
        _count_out(turn, pod)
    taken_down = is_taken_down(turn, pod.epoch)
    if data.processes_gone or taken_down or _is_fenced(turn, pod, data):
        turn.drop(pod_name(uid))
    elif not pod.unfenced:
        due = turn.after(turn.rulebook.settings.unfenced_pod)
        turn.put(pod_name(uid), replace(pod, node=data.node, unfenced=True, due=due))
    if not taken_down:
        kept = turn.rulebook.settings.cells_kept_after_end
        turn.put(exit_name(uid), replace(pod, unfenced=False, due=turn.after(kept)))


def _count_out(turn: Turn, pod: PodCell) -> None:
    run = run_of(turn)
    if pod.bound:
        turn.put(RUN_CELL, replace(run, pods=max(0, run.pods - 1)))
    else:
        turn.put(RUN_CELL, replace(run, early_pods=max(0, run.early_pods - 1)))


def is_taken_down(turn: Turn, epoch: int) -> bool:
    """The whole issue of that epoch ends: replaced already, over, or suspended by us or by somebody else."""
    run = run_of(turn)
    if (
        run.ended
        or run.suspended
        or run.failed_at is not None
        or 0 < epoch < counters_of(turn).schedule_count
    ):
        return True
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    acting = incident is not None and incident.state is IncidentState.ACTING
    return (
        acting
        and incident is not None
        and bool(begun_steps(incident) & _TAKING_DOWN)
        and epoch <= incident.epoch
    )


def _is_fenced(turn: Turn, pod: PodCell, data: PodEnded) -> bool:
    """Its supervisor has said for the attempt under way that it is stopped, actuators deleted it, or its node is gone."""
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    if incident is not None and incident.state is IncidentState.ACTING:
        stopped = pod.stopped_attempt == incident.attempt != pod.running_attempt
        if stopped or StepName.DELETE_PODS in begun_steps(incident):
            return True
    return any(
        item.standing
        and (item.namespace, item.code, item.node.uid) == (NODE_NAMESPACE, NODE_GONE, data.node.uid)
        for item in present_evidence(turn)
    )


def fence_by_node(turn: Turn, news: NodeNews) -> bool:
    """The node is gone, and with it the processes of pods that had vanished from it. Walks the pods: for rare events only."""
    if (news.namespace, news.code, news.state) != (NODE_NAMESPACE, NODE_GONE, "asserted"):
        return False
    for name in tuple(turn.names("pod/")):
        pod = turn.get(name, PodCell)
        if pod is not None and pod.unfenced and pod.node.uid == news.node.uid:
            turn.drop(name)
    return True


def time_is_over(turn: Turn, name: str, pod: PodCell) -> None:
    """Nobody said what became of it: it is waited for no longer, and who waited is told."""
    turn.drop(name)
    if not pod.unfenced:
        _count_out(turn, pod)
        return
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    if incident is None or not waits_for(incident, pod):
        return
    uid = name.removeprefix("pod/")
    decide(
        turn,
        verdict="record",
        rule=incident.rule,
        row="1",
        reason=f"pod {uid} vanished from {pod.node.name}, and within {turn.rulebook.settings.unfenced_pod} "
        "nobody said that its processes are gone; the stop waits for it no longer",
        domain=incident.domain,
        incident=incident,
        flags=("unfenced",),
    )


def heard_of(turn: Turn, data: ProcessState) -> PodCell | None:
    """Cell of the pod whose supervisor speaks; made before the pod is known to be bound, for its word may come first.

    At most as many as the run has pods, for as long as a barrier may wait; a pod that has ended gets none.
    """
    uid = data.placement.pod_uid
    pod = turn.get(pod_name(uid), PodCell) if uid else None
    if uid is None or pod is not None:
        return pod
    run = run_of(turn)
    ended = turn.get(exit_name(uid), PodCell) is not None
    if ended or not run.known or run.early_pods >= run.size or is_taken_down(turn, data.epoch):
        return None
    rank = data.placement.rank if data.placement.rank is not None else -1
    early = PodCell(
        node=UNBOUND, rank=rank, epoch=data.epoch, due=turn.after(turn.rulebook.settings.barrier.hold)
    )
    turn.put(pod_name(uid), early)
    turn.put(RUN_CELL, replace(run, early_pods=run.early_pods + 1))
    return early


def is_first_exit(turn: Turn, uid: str, start: int) -> bool:
    """(pod, start) is the identity of an exit, past the pod's own end; the second reporter of one changes nothing."""
    for name in (pod_name(uid), exit_name(uid)):
        pod = turn.get(name, PodCell)
        if pod is not None:
            if start <= pod.last_exit_start:
                return False
            turn.put(name, replace(pod, last_exit_start=start))
    return True


def forget_past_exits(turn: Turn) -> None:
    """A new issue: its epoch tells what is of the past. Walks the pods that ended: once an issue."""
    for name in tuple(turn.names(exit_name(""))):
        turn.drop(name)
