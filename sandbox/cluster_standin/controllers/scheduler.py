"""The scheduler: pods without a node get one, oldest and most important first; one that fits nowhere says why, in kube-scheduler's words.

Not done: preemption. A pod that would push others off waits for a place, and says so. A pod with a field that nobody here looks at is not bound
at all and names the field: a placement that only looks right is worse than none.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import fit, reading
from sandbox.cluster_standin.controllers.copies import Copies
from sandbox.cluster_standin.controllers.loop import Decision
from sandbox.cluster_standin.controllers.writes import Batch, Bind, Kind, Patch, Say

OURS: Final = "default-scheduler"
NO_PREEMPTION: Final = " The cluster stand-in preempts nobody."


class Scheduler:
    """Keeps nothing: what was said of a pod stands in its condition."""

    name = "scheduler"
    watches = frozenset({Kind.PODS, Kind.NODES})

    def decide(self, copies: Copies, now: datetime) -> Decision:
        """A node for each pod that waits, or the reason why not."""
        waiting = [pod for pod in copies.all(Kind.PODS) if _waits(pod)]
        if not waiting:
            return Decision()
        return Decision(tuple(placements(waiting, copies.all(Kind.NODES), copies.all(Kind.PODS), now)))


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    ours = spec.get("schedulerName", OURS) == OURS and not spec.get("schedulingGates")
    return ours and not (reading.node_of(pod) or reading.is_leaving(pod) or reading.has_ended(pod))


def placements(waiting: list[Object], nodes: list[Object], pods: list[Object], now: datetime) -> list[Batch]:
    """What to write about pods that wait: bindings, and reasons that are news."""
    rooms = fit.rooms(nodes, pods)
    batches: list[Batch] = []
    for pod in sorted(waiting, key=_turn):
        unknown = fit.not_known(pod)
        fitting = [] if unknown else [room for room in rooms if not fit.hindrances(pod, room)]
        if fitting:
            room = fit.choose(pod, fitting)
            room.take(pod)
            batches.append((Bind(pod, reading.name(room.node)),))
            continue
        why = why_nowhere(pod, rooms)
        if unknown:
            why = f"the cluster stand-in does not look at {', '.join(unknown)}, so it places no pod with it"
        batch = _unscheduled(pod, why, now)
        if batch:
            batches.append(batch)
    return batches


def why_nowhere(pod: Object, rooms: list[fit.Room]) -> str:
    """How many nodes there are, and what keeps the pod off how many of them."""
    if not rooms:
        return "no nodes available to schedule pods"
    reasons = Counter(why for room in rooms for why in fit.hindrances(pod, room))
    told = ", ".join(sorted(f"{count} {why}" for why, count in reasons.items()))
    asked = (pod["spec"].get("priority") or 0) > 0 and pod["spec"].get("preemptionPolicy") != "Never"
    return f"0/{len(rooms)} nodes are available: {told}.{NO_PREEMPTION if asked else ''}"


def _turn(pod: Object) -> tuple[int, str, str, str]:
    metadata = pod["metadata"]
    return (
        -int(pod["spec"].get("priority") or 0),
        str(metadata.get("creationTimestamp", "")),
        reading.namespace(pod),
        reading.name(pod),
    )


def _unscheduled(pod: Object, why: str, now: datetime) -> Batch:
    known = reading.condition(pod, "PodScheduled") or {}
    if known.get("status") == "False" and known.get("message") == why:
        return ()
    since = known.get("lastTransitionTime") if known.get("status") == "False" else None
    told = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": why,
        "lastTransitionTime": since or reading.instant(now),
    }
    return (
        Patch(Kind.PODS, pod, {"status": {"conditions": [told]}}, of_status=True, by_type=True),
        Say("Pod", pod, "FailedScheduling", why, warning=True),
    )
