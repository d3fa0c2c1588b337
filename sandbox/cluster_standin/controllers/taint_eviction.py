"""Pods that do not tolerate a NoExecute taint of their node are deleted: at once, or after the time they tolerate it. Pure decisions.

A toleration's time runs from when the taint was seen here, as Kubernetes 1.36 has it; a taint that goes before the time is over saves the pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import reading
from sandbox.cluster_standin.controllers.copies import Copies
from sandbox.cluster_standin.controllers.loop import Decision, earliest
from sandbox.cluster_standin.controllers.writes import Batch, Delete, Kind, Patch, Say


@dataclass(frozen=True, slots=True)
class Stay:
    """How long a pod may stay on its node."""

    may: bool
    most: timedelta | None = None
    """None: for ever."""


def stay(pod: Object, taints: list[Object]) -> Stay:
    """By the tolerations that cover its node's taints, the shortest counts."""
    if not taints:
        return Stay(may=True)
    tolerations = pod["spec"].get("tolerations") or []
    used: list[Object] = []
    for taint in taints:
        covering = [one for one in tolerations if reading.tolerates(one, taint)]
        if not covering:
            return Stay(may=False)
        used.append(covering[0])
    limits = [int(one["tolerationSeconds"]) for one in used if one.get("tolerationSeconds") is not None]
    return Stay(may=True, most=timedelta(seconds=max(0, min(limits)))) if limits else Stay(may=True)


def evicted(pod: Object, now: datetime) -> Batch:
    """Mark a pod with who deletes it, and delete it."""
    batch: list[Patch | Delete | Say] = []
    title = f"{reading.namespace(pod)}/{reading.name(pod)}"
    if not reading.holds(pod, "DisruptionTarget"):
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": reading.instant(now),
        }
        batch.append(
            Patch(Kind.PODS, pod, {"status": {"conditions": [condition]}}, of_status=True, by_type=True)
        )
    batch.append(Delete(Kind.PODS, pod))
    batch.append(Say("Pod", pod, "TaintManagerEviction", f"Marking for deletion Pod {title}"))
    return tuple(batch)


class TaintEviction:
    """Remembers until when each pod is tolerated."""

    name = "taint eviction"
    watches = frozenset({Kind.PODS, Kind.NODES})

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}

    def decide(self, copies: Copies, now: datetime) -> Decision:
        """Whom to evict now, and when the next one's time is over."""
        tainted = {
            reading.name(node): taints
            for node in copies.all(Kind.NODES)
            if (taints := reading.taints(node, reading.NO_EXECUTE))
        }
        batches: list[Batch] = []
        until: dict[str, datetime] = {}
        for pod in copies.all(Kind.PODS) if tainted else ():
            if reading.is_leaving(pod) or reading.node_of(pod) not in tainted:
                continue
            allowed = stay(pod, tainted[reading.node_of(pod)])
            if allowed.may and allowed.most is None:
                continue
            uid = reading.uid(pod)
            until[uid] = self._until.get(uid, now + (allowed.most or timedelta())) if allowed.may else now
            if until[uid] <= now:
                batches.append(evicted(pod, now))
        self._until = until
        return Decision(tuple(batches), earliest(at for at in until.values() if at > now))
