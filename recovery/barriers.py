"""Barriers of the stop and the start: when one is met, which pods are silent, and which nodes could be to blame.

What a barrier that is met leads to is decided in `recovery.attempt`. One that is missed isolates only where the nodes themselves are not Ready.
"""

from __future__ import annotations

from typing import Final

from recovery import steps
from recovery.cells import HoldTarget, IncidentCell, PodCell
from recovery.classification import NODE_NAMESPACE
from recovery.plan import Wish
from recovery.run_state import present_evidence
from recovery.safe_end import descend, hold_on
from recovery.turn import Turn
from rules.model import LadderClass, Step
from schemas.commands import StepName
from schemas.mailbox import HoldCause
from schemas.records import IncidentState
from schemas.wording import agreeing, counted

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
    here = [pod.stopped_attempt == incident.attempt for pod in pods if _of_issue(pod, incident)]
    return all(here) and sum(here) >= incident.told


def silent_pods(turn: Turn, incident: IncidentCell, step: Step) -> list[PodCell]:
    """Pods that did not report what the barrier waits for; walks all pods, so only at a deadline."""
    pods = [pod for name in turn.names("pod/") if (pod := turn.get(name, PodCell)) is not None]
    if step.step is StepName.STOP_PROCESSES:
        return [pod for pod in pods if waits_for(incident, pod)]
    alive = [pod for pod in pods if _of_issue(pod, incident) and not pod.unfenced]
    return [pod for pod in alive if pod.running_attempt != incident.attempt]


def waits_for(incident: IncidentCell, pod: PodCell) -> bool:
    """The stop under way is not complete without this pod."""
    step = incident.step
    stopping = incident.state is IncidentState.ACTING and incident.begun and step is not None
    return (
        stopping
        and step is not None
        and step.step is StepName.STOP_PROCESSES
        and _of_issue(pod, incident)
        and pod.stopped_attempt != incident.attempt
    )


def _of_issue(pod: PodCell, incident: IncidentCell) -> bool:
    return pod.epoch in {0, incident.epoch}


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
            reason=f"{counted(len(silent), 'pod')} stayed silent and {agreeing(len(silent), 'its node is', 'their nodes are')} not Ready",
            holds=tuple(HoldTarget(node=node, cause=bad[uid]) for uid, node in nodes.items()),
            user=False,
        )
        descend(turn, incident, wish, row="4")
        return
    missing = sum(pod.unfenced for pod in silent)
    said = f", {missing} of them vanished with processes that may still run" if missing else ""
    hold_on(
        turn,
        incident,
        turn.rulebook.settings.barrier.hold,
        f"{counted(len(silent), 'pod')} {agreeing(len(silent), 'is', 'are')} silent{said}",
    )
