"""Nodes that fall silent, and the taints that say how each stands. Pure decisions, and what has to be remembered between them.

After the node lifecycle controller of Kubernetes 1.36: a node whose Lease and status both rest for the grace becomes Ready=Unknown, its pods not
ready. Taints with NoSchedule follow conditions and the cordon at once. Those with NoExecute follow Ready: one node in ten seconds, none while
most of a small cluster is down, and all are taken back while all of it is, since then the fault is more likely here. Zones are not told apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import reading
from sandbox.cluster_standin.controllers.copies import Copies
from sandbox.cluster_standin.controllers.loop import Decision, earliest
from sandbox.cluster_standin.controllers.reading import NO_EXECUTE, NO_SCHEDULE
from sandbox.cluster_standin.controllers.writes import Batch, Kind, Patch, Say
from sandbox.control_plane import NodeLifecycle

LEASES: Final = "kube-node-lease"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
BY_CONDITION: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
OURS: Final = frozenset(BY_CONDITION.values()) | {UNSCHEDULABLE}
SPOKEN_FOR: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
EVICTION_PERIOD: Final = timedelta(seconds=10)
"""Between two nodes that begin to lose their pods (`--node-eviction-rate` 0.1)."""
MOST_DOWN: Final = 0.55
FEW_DOWN: Final = 2
"""More nodes than these down, and a larger share of all: no further node loses its pods, as in any cluster of up to 50 nodes."""


@dataclass(frozen=True, slots=True)
class Heard:
    """When a node was heard of last, and by what: by our clock, so that a node's own may be wrong."""

    at: datetime
    heartbeat: str = ""
    renewed: str = ""


def heard(node: Object, lease: Object | None, before: Heard | None, now: datetime) -> Heard:
    """With what the node and its Lease say now."""
    ready = reading.condition(node, "Ready")
    heartbeat = str((ready or {}).get("lastHeartbeatTime") or "")
    renewed = str(((lease or {}).get("spec") or {}).get("renewTime") or "")
    if before is None:
        created = reading.time_of(node["metadata"].get("creationTimestamp"))
        return Heard(now if ready or created is None else created, heartbeat, renewed)
    fresh = heartbeat != before.heartbeat or renewed > before.renewed
    return replace(
        before, at=now if fresh else before.at, heartbeat=heartbeat, renewed=max(renewed, before.renewed)
    )


def silence(node: Object, last: Heard, lifecycle: NodeLifecycle) -> datetime:
    """When the node counts as silent, unless it is heard of before."""
    began = reading.condition(node, "Ready") is not None
    return last.at + (lifecycle.monitor_grace if began else lifecycle.startup_grace)


def unknown_conditions(node: Object, now: datetime) -> list[Object]:
    """Conditions to write of a silent node: those that are not Unknown already."""
    at = reading.instant(now)
    found = []
    for kind in SPOKEN_FOR:
        stands = reading.condition(node, kind)
        if stands is None:
            words = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            heartbeat = node["metadata"].get("creationTimestamp")
        elif stands["status"] != "Unknown":
            words = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            heartbeat = stands.get("lastHeartbeatTime")
        else:
            continue
        found.append(
            {
                "type": kind,
                "status": "Unknown",
                **words,
                "lastTransitionTime": at,
                "lastHeartbeatTime": heartbeat,
            }
        )
    return found


def lost(node: Object, pods: list[Object], now: datetime) -> Batch:
    """What to write when a node has fallen silent: itself Unknown, and its pods not ready."""
    told = unknown_conditions(node, now)
    if not any(one["type"] == "Ready" for one in told):
        return ()
    was_ready = reading.holds(node, "Ready")
    patches = [Patch(Kind.NODES, node, {"status": {"conditions": told}}, of_status=True, by_type=True)]
    for pod in pods if was_ready else ():
        if reading.node_of(pod) == reading.name(node) and reading.holds(pod, "Ready"):
            ready = {"type": "Ready", "status": "False", "lastTransitionTime": reading.instant(now)}
            patches.append(
                Patch(Kind.PODS, pod, {"status": {"conditions": [ready]}}, of_status=True, by_type=True)
            )
    text = f"Node {reading.name(node)} status is now: NodeNotReady"
    return (*patches, Say("Node", node, "NodeNotReady", text)) if was_ready else tuple(patches)


# ---------------------------------------------------------------------- taints


def no_schedule(node: Object) -> set[str]:
    """Keys of the taints that keep new pods off."""
    stand = {(one["type"], one["status"]) for one in reading.conditions(node)}
    keys = {key for condition, key in BY_CONDITION.items() if condition in stand}
    return keys | ({UNSCHEDULABLE} if node.get("spec", {}).get("unschedulable") else set())


def no_execute(node: Object) -> str:
    """Key of the taint that drives pods off; empty: none."""
    ready = (reading.condition(node, "Ready") or {}).get("status")
    return BY_CONDITION.get(("Ready", str(ready)), "")


def retainted(node: Object, driving: str, now: datetime) -> list[Object] | None:
    """The node's taints with ours as they should be; None where they are so."""
    wanted = {(key, NO_SCHEDULE) for key in no_schedule(node)} | (
        {(driving, NO_EXECUTE)} if driving else set()
    )
    standing = {(taint["key"], taint["effect"]) for taint in reading.taints(node) if _is_ours(taint)}
    if wanted == standing:
        return None
    kept = [one for one in reading.taints(node) if not _is_ours(one) or (one["key"], one["effect"]) in wanted]
    fresh = sorted(wanted - standing)
    return kept + [{"key": key, "effect": effect, "timeAdded": reading.instant(now)} for key, effect in fresh]


def _is_ours(taint: Object) -> bool:
    if taint["effect"] == NO_EXECUTE:
        return taint["key"] in {NOT_READY, UNREACHABLE}
    return taint["effect"] == NO_SCHEDULE and taint["key"] in OURS


def drives(node: Object) -> str:
    """The taint of ours that drives pods off a node now."""
    return next((one["key"] for one in reading.taints(node, NO_EXECUTE) if _is_ours(one)), "")


@dataclass(frozen=True, slots=True)
class Driving:
    """Which taint with NoExecute each node should have, when to look again, and whether one is new."""

    taints: dict[str, str]
    again: datetime | None = None
    begun: bool = False


def driving(nodes: list[Object], last: datetime | None, now: datetime) -> Driving:
    """By Ready, at the pace and under the reserves that the module tells.

    Args:
        nodes: all of them.
        last: when a node began to lose its pods last.
        now: by our clock.
    """
    wanted = {reading.name(node): no_execute(node) for node in nodes}
    down = sum(bool(key) for key in wanted.values())
    if down and down == len(nodes):
        return Driving(dict.fromkeys(wanted, ""))
    standing = {reading.name(node): drives(node) for node in nodes}
    held = down > FEW_DOWN and down / len(nodes) >= MOST_DOWN
    free = last + EVICTION_PERIOD if last is not None else now
    taints, again, begun = {}, None, False
    for name in sorted(wanted):
        if not wanted[name] or standing[name]:
            taints[name] = wanted[name]  # off at once, and the one for the other at once
        elif not held and free <= now:
            taints[name], begun, free = wanted[name], True, now + EVICTION_PERIOD
        else:
            taints[name] = ""
            again = None if held else free
    return Driving(taints, again, begun)


class NodeHealth:
    """Remembers when each node was heard of last, and when one began to lose its pods: a restart gives every node its grace anew."""

    name = "node health"
    watches = frozenset({Kind.NODES, Kind.LEASES})

    def __init__(self, lifecycle: NodeLifecycle) -> None:
        self._lifecycle = lifecycle
        self._heard: dict[str, Heard] = {}
        self._last: datetime | None = None

    def decide(self, copies: Copies, now: datetime) -> Decision:
        """Silent nodes become Unknown; then taints follow."""
        nodes = copies.all(Kind.NODES)
        batches: list[Batch] = []
        times: list[datetime | None] = []
        known: dict[str, Heard] = {}
        for node in nodes:
            uid = reading.uid(node)
            lease = copies.find(Kind.LEASES, LEASES, reading.name(node))
            known[uid] = heard(node, lease, self._heard.get(uid), now)
            silent_at = silence(node, known[uid], self._lifecycle)
            if silent_at > now:
                times.append(silent_at)
            elif batch := lost(node, copies.all(Kind.PODS), now):
                batches.append(batch)
        self._heard = known
        if batches:
            return Decision(tuple(batches), earliest(times))
        found = driving(nodes, self._last, now)
        if found.begun:
            self._last = now
        for node in nodes:
            taints = retainted(node, found.taints[reading.name(node)], now)
            if taints is not None:
                batches.append((Patch(Kind.NODES, node, {"spec": {"taints": taints or None}}),))
        return Decision(tuple(batches), earliest((*times, found.again)))
