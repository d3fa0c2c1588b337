"""Whether a node that says nothing is *presumed gone*: kubelet and agent silent for minutes while most other nodes are heard (recovery 5, Q17).

No proof, a presumption: what follows from it cannot be taken back, so every doubt speaks against it. A node that is no stranger to either
Lease, whose condition the control plane itself took for Unknown, and that alone is silent. Never where most others are silent as well: then
it is the API, the network or ourselves.

A Lease is heard at the later of two times: what its writer's clock said and what the server noted. Silence is how far a node is behind the node
heard last, so that a server that was away makes nobody silent, and our own clock must agree; a clock that is wrong can only delay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from actuators.settings import SilentNodeSettings
from actuators.world import World
from runtime import paths
from runtime.errors import ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import agent_lease

KUBELET_LEASES: Final = "kube-node-lease"
AGENT: Final = "agent"
"""Whose Lease says how often it is renewed, since that is a setting."""


@dataclass(frozen=True, slots=True)
class Presumption:
    """The answer, and why."""

    why: str
    gone: bool = False


class Sign:
    """The last sign of one of the two, and after which silence it counts: never less than its own Lease lasts."""

    def __init__(self, who: str, lease: Object, after: timedelta) -> None:
        self.who = who
        self.at = heard_at(lease)
        lasts = (lease.get("spec") or {}).get("leaseDurationSeconds") or 0
        self.counts_after = max(after, timedelta(seconds=int(lasts))) if who == AGENT else after

    def in_words(self, now: datetime) -> str:
        """How far it is from counting."""
        return f"{self.who} silent for {_seconds(now - self.at)} of {_seconds(self.counts_after)}"


def presume(node: Object, world: World) -> Presumption:
    """Ask about one node. Cheap for one that is well: its Leases are read only when the control plane has lost it."""
    settings = world.settings.silent_node
    if settings.then == "wait":
        return Presumption("silent_node is wait: a human decides")
    status = _ready(node)
    if status != "Unknown":
        return Presumption(f"the node is Ready={status}, which is no silence")
    name = str(node["metadata"]["name"])
    kubelet = _lease(paths.leases(KUBELET_LEASES, name), node, world)
    agent = _lease(paths.leases(settings.namespace, agent_lease(name)), node, world)
    if kubelet is None or agent is None:
        who = "kubelet" if kubelet is None else "agent"
        return Presumption(f"there is no Lease of the {who} of this very node: it was never heard")
    signs = (Sign("kubelet", kubelet, settings.after), Sign(AGENT, agent, settings.after))
    for sign in signs:
        if world.now() - sign.at < sign.counts_after:
            return Presumption(sign.in_words(world.now()))
    others = world.api.list(paths.leases(KUBELET_LEASES))
    return judge(name, signs, others, settings)


def judge(
    name: str, signs: Iterable[Sign], leases: Iterable[Object], settings: SilentNodeSettings
) -> Presumption:
    """Pure: one node against all others. Silence is measured from whoever was heard last."""
    heard = [heard_at(lease) for lease in leases if lease["metadata"]["name"] != name]
    if not heard:
        return Presumption("no other node is known: nobody can tell a dead node from a silent cluster")
    newest = max(heard)
    present = sum(newest - at <= settings.heard_within for at in heard)
    others = f"{present} of {len(heard)} other nodes are heard"
    if present < settings.others_heard * len(heard):
        return Presumption(f"only {others}: it is not this node alone")
    told = []
    for sign in signs:
        if newest - sign.at < sign.counts_after:
            return Presumption(sign.in_words(newest))
        told.append(f"{sign.who} silent for {_seconds(newest - sign.at)}")
    return Presumption(f"presumed gone: node {name}, {' and '.join(told)}; {others}", gone=True)


def heard_at(lease: Object) -> datetime:
    """The latest sign: the writer's own time, or when the server noted a write. Raises ValueError where there is none at all."""
    spec = lease.get("spec") or {}
    entries = lease["metadata"].get("managedFields") or []
    times = [
        spec.get("renewTime"),
        lease["metadata"].get("creationTimestamp"),
        *(one.get("time") for one in entries),
    ]
    return max(datetime.fromisoformat(str(at)) for at in times if at)


def _lease(path: str, node: Object, world: World) -> Object | None:
    """The Lease, if it is of this very node: names are used again."""
    try:
        lease = world.api.get(path)
    except ApiNotFound:
        return None
    owners = {owner.get("uid") for owner in lease["metadata"].get("ownerReferences") or []}
    return lease if not owners or node["metadata"]["uid"] in owners else None


def _ready(node: Object) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((str(one.get("status")) for one in conditions if one.get("type") == "Ready"), "unknown to us")


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"
