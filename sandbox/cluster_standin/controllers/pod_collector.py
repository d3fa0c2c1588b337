"""Pods that nobody ends any more: of nodes that are gone or declared off, and deleted ones that never had a node. Pure decisions.

It sweeps every 20 s, as Kubernetes' own pod collector does: a quicker one would hide from a test how long such pods stay. A node that is
not there is given 40 s, that one's as well, before its pods count as lost.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import reading
from sandbox.cluster_standin.controllers.copies import Copies
from sandbox.cluster_standin.controllers.loop import Decision
from sandbox.cluster_standin.controllers.writes import Batch, Delete, Kind, Patch

SWEEP: Final = timedelta(seconds=20)
QUARANTINE: Final = timedelta(seconds=40)
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


def collected(pod: Object, now: datetime, *, disrupted: bool = False) -> Batch:
    """Fail a pod that is not over, and delete it without grace."""
    status: Object = {} if reading.has_ended(pod) else {"phase": "Failed"}
    if disrupted:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": reading.instant(now),
        }
        status["conditions"] = [condition]
    delete = Delete(Kind.PODS, pod, grace=0)
    if not status:
        return (delete,)
    return (Patch(Kind.PODS, pod, {"status": status}, of_status=True, by_type=True), delete)


def is_off(node: Object) -> bool:
    """Somebody has declared it off, and it does not contradict."""
    declared = any(taint["key"] == OUT_OF_SERVICE for taint in reading.taints(node))
    return declared and not reading.holds(node, "Ready")


def is_done(pod: Object) -> bool:
    """Nothing is left to do but for others to take their finalizers off."""
    grace = pod["metadata"].get("deletionGracePeriodSeconds")
    return reading.is_leaving(pod) and grace == 0 and reading.has_ended(pod)


class PodCollector:
    """Remembers since when a node with pods on it is not there, and when to sweep again."""

    name = "pod collector"
    watches: frozenset[Kind] = frozenset()
    """Nothing: it comes by the clock."""

    def __init__(self, every: timedelta = SWEEP) -> None:
        """`every` is how often it sweeps."""
        self._every = every
        self._next: datetime | None = None
        self._missing: dict[str, datetime] = {}

    def decide(self, copies: Copies, now: datetime) -> Decision:
        """Whom to collect now, if it is time to sweep."""
        if self._next is not None and now < self._next:
            return Decision((), self._next)
        self._next = now + self._every
        return Decision(self._sweep(copies, now), self._next)

    def _sweep(self, copies: Copies, now: datetime) -> tuple[Batch, ...]:
        nodes = {reading.name(node): node for node in copies.all(Kind.NODES)}
        missing: dict[str, datetime] = {}
        batches: list[Batch] = []
        for pod in copies.all(Kind.PODS):
            where = reading.node_of(pod)
            if is_done(pod):
                continue
            if not where:
                if reading.is_leaving(pod):
                    batches.append(collected(pod, now))
            elif where in nodes:
                if reading.is_leaving(pod) and is_off(nodes[where]):
                    batches.append(collected(pod, now))
            else:
                missing[where] = self._missing.get(where, now)
                if missing[where] + QUARANTINE <= now:
                    batches.append(collected(pod, now, disrupted=True))
        self._missing = missing
        return tuple(batches)
