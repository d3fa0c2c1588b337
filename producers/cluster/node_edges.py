"""What is told of nodes: how each stands, conditions as edges, notices of preemption, and that one is gone for good."""

from __future__ import annotations

from collections import defaultdict

from producers.cluster.book import NodeTold
from producers.cluster.evictions import notice
from producers.cluster.nodes import (
    GONE,
    UNKNOWN_MANAGER,
    UNREADY,
    Node,
    Standing,
    code_of,
    read_node,
    released_by,
)
from producers.cluster.present import Present
from producers.cluster.settings import WatchSettings
from producers.cluster.telling import Teller
from runtime.informer import Difference
from runtime.kubernetes import Object
from schemas.facts import NodeGone, NodeSeen
from schemas.signals import FaultState, NodeCondition


class NodeEdges:
    """Differences of nodes, and of relight's own pods, to facts and signals."""

    def __init__(self, teller: Teller, present: Present, settings: WatchSettings) -> None:
        self._teller = teller
        self._present = present
        self._settings = settings
        self._told_codes = {code_of(kind) for kind in settings.node_conditions}
        self._own: dict[str, set[str]] = defaultdict(set)

    def changed(self, difference: Difference) -> Node | None:
        """A node is new, other, or gone; returns it as it is now."""
        old = self._read(difference.old)
        new = self._read(difference.new)
        if new is None:
            if old is not None:
                self._gone(old)
            return None
        present = self._present
        present.nodes[new.uid] = new
        present.names[new.name] = new.uid
        self._tell_seen(new, released_by=self._released_by(old, new))
        self._tell_conditions(new)
        self.tell_notices(new)
        return new

    def own_pod(self, difference: Difference) -> None:
        """A pod of relight's own came or went: the node that carries it is protected meanwhile."""
        for item, there in ((difference.old, False), (difference.new, True)):
            if item is None:
                continue
            name = item.get("spec", {}).get("nodeName", "")
            uid = item["metadata"]["uid"]
            ended = item.get("status", {}).get("phase") in {"Succeeded", "Failed"}
            (self._own[name].add if there and not ended else self._own[name].discard)(uid)
        for name in {d.get("spec", {}).get("nodeName", "") for d in (difference.old, difference.new) if d}:
            node = self._present.node_named(name)
            if node is not None:
                self._tell_seen(node, released_by=None)

    def missing(self) -> None:
        """Nodes that were told of and are not there any more."""
        for uid, pod in self._teller.book.pods.items():
            if pod.ended is None:
                self._present.living[pod.bound.node.uid].add(uid)
        for uid, told in list(self._teller.book.nodes.items()):
            if uid not in self._present.nodes:
                self._tell_gone(uid, told)

    def repeat(self, uid: str) -> None:
        """Tell again how a node stands, its conditions included."""
        node, told = self._present.nodes.get(uid), self._teller.book.nodes.get(uid)
        if node is None or told is None:
            return
        self._teller.state(self._seen(node), uid)
        for standing in node.standing:
            signal = told.standing.get(standing.code)
            if signal is not None:
                self._edge(signal, standing)

    def tell_notices(self, node: Node) -> None:
        """Runs that live on a node the cloud takes away are told once; the next time only after the taint was gone."""
        told = self._teller.book.nodes.get(node.uid)
        taints = [taint for taint in node.taints if taint.taint in self._settings.preemption_taints]
        if told is None or not taints:
            if told is not None:
                told.noticed.clear()
            return
        window = self._settings.preemption_taints[taints[0].taint]
        for run in self._runs_on(node.uid):
            if run not in told.noticed:
                signal = notice(taints[0], window, node.ref, run, self._teller.now())
                self._teller.edge(signal, node.uid, run, signal.deadline.isoformat(), at=taints[0].since)

    # ------------------------------------------------------------ one node

    def _read(self, item: Object | None) -> Node | None:
        if item is None:
            return None
        settings = self._settings
        return read_node(item, settings.node_conditions, settings.protected_label, settings.devices)

    def _seen(self, node: Node, released_by: str | None = None) -> NodeSeen:
        return node.seen(protected=bool(self._own.get(node.name)), released_by=released_by)

    def _released_by(self, old: Node | None, new: Node) -> str | None:
        if old is not None:
            return released_by(old, new, self._settings.controllers)
        told = self._teller.book.nodes.get(new.uid)
        was_tainted = told is not None and told.seen.our_taint and not new.our_taint
        return UNKNOWN_MANAGER if was_tainted and new.our_mark else None

    def _tell_seen(self, node: Node, *, released_by: str | None) -> None:
        told = self._teller.book.nodes.get(node.uid)
        seen = self._seen(node, released_by)
        if told is None or told.seen != seen:
            self._teller.state(seen, node.uid)

    def _tell_conditions(self, node: Node) -> None:
        told = self._teller.book.nodes[node.uid]
        unready = any(code in UNREADY for code in told.standing)
        for standing in node.standing:
            if standing.code in told.standing or (unready and standing.code in UNREADY):
                continue
            self._assert(node, standing)
        stands = {standing.code for standing in node.standing}
        for code, signal in list(told.standing.items()):
            is_over = node.ready if code in UNREADY else code in self._told_codes and code not in node.silent
            if code not in stands and is_over:
                cleared = signal.model_copy(update={"state": FaultState.CLEARED, "detail": None})
                self._teller.state(cleared, node.uid, code, FaultState.CLEARED.value)

    def _assert(self, node: Node, standing: Standing) -> None:
        signal = NodeCondition(
            node=node.ref,
            condition=standing.code,
            state=FaultState.ASSERTED,
            detail=standing.detail or None,
        )
        self._edge(signal, standing)

    def _edge(self, signal: NodeCondition, standing: Standing) -> None:
        since = standing.since.isoformat() if standing.since is not None else ""
        self._teller.edge(
            signal, signal.node.uid, standing.code, signal.state.value, since, at=standing.since
        )

    def _gone(self, node: Node) -> None:
        present = self._present
        present.nodes.pop(node.uid, None)
        if present.names.get(node.name) == node.uid:
            del present.names[node.name]
        told = self._teller.book.nodes.get(node.uid)
        if told is not None:
            self._tell_gone(node.uid, told)

    def _tell_gone(self, uid: str, told: NodeTold) -> None:
        """A node that vanished under pods is a fault of theirs; an empty one was only taken out of the cluster."""
        ref = told.seen.node
        if self._runs_on(uid):
            signal = NodeCondition(
                node=ref, condition=GONE, state=FaultState.ASSERTED, detail="the Node object was deleted"
            )
            self._teller.edge(signal, uid, GONE, signal.state.value, at=None)
        self._teller.edge(NodeGone(node=ref), uid, at=None)

    def _runs_on(self, uid: str) -> list[str]:
        pods = self._teller.book.pods
        runs = {pods[pod].bound.placement.run for pod in self._present.living.get(uid, ()) if pod in pods}
        return sorted(runs)
