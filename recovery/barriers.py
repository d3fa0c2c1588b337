"""Barriers of the stop and the start: when one is met, which pods are silent, and which nodes could be to blame.

Only reads. What a barrier that is met, or missed, leads to is decided in `recovery.attempt`.
"""

from __future__ import annotations

from typing import Final

from recovery.cells import IncidentCell, PodCell
from recovery.classification import NODE_NAMESPACE
from recovery.run_state import present_evidence
from recovery.turn import Turn
from rules.model import LadderClass, Step
from schemas.commands import StepName
from schemas.mailbox import HoldCause

BARRIERS: Final = frozenset({StepName.STOP_PROCESSES, StepName.START_PROCESSES})


def barrier_met(turn: Turn, incident: IncidentCell) -> bool:
    """All pods that were told have reported.

    Nothing may happen to chips while a process runs, so a stop is counted by the pods that are there: a pod that reported and ended since stands
    for no other. That walks the pods, but only once the number of reports is enough.
    """
    if incident.told < 0 or incident.reported < incident.told:
        return False
    if incident.step is None or incident.step.step is not StepName.STOP_PROCESSES:
        return True
    pods = [pod for name in turn.names("pod/") if (pod := turn.get(name, PodCell)) is not None]
    here = [pod.stopped_attempt == incident.attempt for pod in pods if pod.epoch in {0, incident.epoch}]
    return all(here) and sum(here) >= incident.told


def silent_pods(turn: Turn, incident: IncidentCell, step: Step) -> list[PodCell]:
    """Pods that did not report what the barrier waits for; walks all pods, so only at a deadline."""
    pods = [pod for name in turn.names("pod/") if (pod := turn.get(name, PodCell)) is not None]
    if step.step is StepName.STOP_PROCESSES:
        return [pod for pod in pods if pod.stopped_attempt != incident.attempt]
    return [pod for pod in pods if pod.running_attempt != incident.attempt]


def bad_nodes(turn: Turn) -> dict[str, HoldCause]:
    """Nodes on which an isolate-class condition stands, with that cause."""
    return {
        item.node.uid: HoldCause(
            namespace=item.namespace,
            code=item.code,
            chip=item.chip,
            evidence=item.event,
            ladder_class=item.ladder_class.value,
            seen_at=item.at,
        )
        for item in present_evidence(turn)
        if item.standing and item.namespace == NODE_NAMESPACE and item.ladder_class is LadderClass.ISOLATE
    }
