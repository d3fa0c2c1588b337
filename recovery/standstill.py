"""Pods whose processes were told to stand still, and that they move again.

A healthy run that is restarted is worse than a hang that is found late (recovery 6). Between evidence and deed relight itself may be away, so
what was said meanwhile counts: a recovery that a hang alone began, and for which nothing was done yet, is not asked for again once all move.
"""

from __future__ import annotations

from dataclasses import replace

from recovery.cells import GAP_CELL, GapCell, IncidentCell, PodCell, exit_name, pod_name
from recovery.run_state import all_pods, run_of
from recovery.turn import Turn
from schemas.envelope import Trust
from schemas.signals import HangEvidence


def note_standstill(turn: Turn, data: HangEvidence) -> bool:
    """Remember whether the pod's processes stand still. False where nobody will be heard of when they move again.

    That is so of a pod or a process that is not known, and of what another system says: on its word nothing is done and nothing is left undone.
    """
    uid = data.placement.pod_uid
    pod = turn.get(pod_name(uid), PodCell) if uid else None
    if uid is None or pod is None or not data.start or turn.event.trust is not Trust.INTERNAL:
        return False
    if data.state == "stalled":
        turn.put(pod_name(uid), replace(pod, still=data.start))
    elif pod.still and data.start >= pod.still:
        turn.put(pod_name(uid), replace(pod, still=0))
    return True


def move_again(turn: Turn, incident: IncidentCell) -> bool:
    """Processes that stood still began this recovery, and nothing else; none does any more, and none was stopped for it.

    A pod that is gone did not move, and in a mailbox that lost messages another stall may be among them. Walks the pods: for rare events only.
    """
    if not incident.hang or incident.index or incident.touched or incident.reported:
        return False
    run = run_of(turn)
    whole = all_pods(run) and run.failed_at is None and not run.suspended
    if not whole or turn.get(GAP_CELL, GapCell) is not None:
        return False
    names = (*turn.names(pod_name("")), *turn.names(exit_name("")))
    pods = (turn.get(name, PodCell) for name in names)
    return not any(pod is not None and pod.still >= max(pod.running_start, 1) for pod in pods)
