"""Pods whose processes were told to stand still, and that they move again.

A healthy run that is restarted is worse than a hang that is found late (recovery 6). Between evidence and deed relight itself may be away, so
what was said meanwhile counts: a recovery that a hang alone began, and for which nothing was done yet, is not asked for again once all move.
"""

from __future__ import annotations

from dataclasses import replace

from recovery.cells import IncidentCell, PodCell, pod_name
from recovery.turn import Turn
from schemas.signals import HangEvidence


def note_standstill(turn: Turn, data: HangEvidence) -> bool:
    """Remember whether the pod's processes stand still; False where the pod is not known."""
    uid = data.placement.pod_uid
    pod = turn.get(pod_name(uid), PodCell) if uid else None
    if uid is None or pod is None:
        return False
    start = max(data.start or pod.running_start, 1)
    if data.state == "stalled":
        turn.put(pod_name(uid), replace(pod, still=start))
    elif pod.still and start >= pod.still:
        turn.put(pod_name(uid), replace(pod, still=0))
    return True


def move_again(turn: Turn, incident: IncidentCell) -> bool:
    """Processes that stood still began this recovery, and nothing else; none does any more, and none was stopped for it.

    Walks the pods: for rare events only.
    """
    if not incident.hang or incident.index or incident.touched or incident.reported:
        return False
    pods = (turn.get(name, PodCell) for name in tuple(turn.names("pod/")))
    return not any(pod is not None and pod.still >= max(pod.running_start, 1) for pod in pods)
