"""Evictions and preemptions: who takes a pod off its node, and why.

The reason is the pod's own DisruptionTarget condition, as Kubernetes writes it. A queue leaves none: it suspends the Job, and the pods that are
deleted for it were preempted by the queue, which will put the Job back by itself. A cloud tells of a node it will take away by a taint.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from producers.cluster.nodes import Node, Notice
from producers.cluster.pods import Pod
from producers.cluster.runs import Run
from schemas.signals import Eviction, EvictionReason, NodeRef, Placement, PreemptionNotice

_REASONS = {reason.value: reason for reason in EvictionReason}


def eviction(pod: Pod, run: str, ref: NodeRef, node: Node | None, workload: Run | None) -> Eviction | None:
    """The eviction a pod shows; `node` and `workload` as they stand, None when they are gone."""
    reason = _REASONS.get(pod.disruption)
    by_queue = (
        reason is None and pod.deleting and workload is not None and workload.queued and workload.suspended
    )
    if by_queue:
        reason = EvictionReason.QUEUE
    if reason is None:
        return None
    return Eviction(
        node=ref,
        placement=pod.placement(run),
        reason=reason,
        ours=pod.ours,
        draining=node is not None and node.cordoned_by_others,
        requeued=by_queue,
    )


def notice(taint: Notice, window: timedelta, ref: NodeRef, run: str, now: datetime) -> PreemptionNotice:
    """The cloud takes the node away `window` after it set the taint."""
    return PreemptionNotice(
        node=ref, placement=Placement(run=run), deadline=(taint.since or now) + window, by="cloud"
    )
