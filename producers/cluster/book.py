"""What was told: the fold of the watcher's own facts, in order.

The book is never stored. It is the sum of the facts that lie in the topic, so a watcher that starts anywhere reads the last hours of its own
partition and knows what its predecessor told (every state is told again within that time, see `sweep`). Folding a fact twice changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Final

from schemas.envelope import Payload
from schemas.facts import IssueState, NodeGone, NodeSeen, PodBound, PodEnded, RunEnded, RunSeen
from schemas.signals import Eviction, FaultState, NodeCondition, PreemptionNotice, ProcessExit

RUNS_KEPT: Final = 20_000
"""Ended runs are remembered so that nothing is told of them again; the oldest go first."""


@dataclass(slots=True)
class RunTold:
    """A run: how it was last seen, and what its issue is like."""

    seen: RunSeen
    issue: IssueState | None = None
    ended: RunEnded | None = None

    @property
    def is_over(self) -> bool:
        """It ended in a way that no rebuild follows."""
        return self.ended is not None and self.ended.how != "failed"

    def ended_with(self, object_uid: str) -> bool:
        """The end of this very object was told."""
        return self.ended is not None and self.ended.object_uid == object_uid


@dataclass(slots=True)
class PodTold:
    """A pod: where it was bound, in the words that are repeated, and what was said of its end."""

    bound: PodBound
    ended: PodEnded | None = None
    evicted: bool = False
    start: int = 0
    """Highest start whose exit was told."""


@dataclass(slots=True)
class NodeTold:
    """A node: how it was last seen, and which conditions stand."""

    seen: NodeSeen
    standing: dict[str, NodeCondition] = field(default_factory=dict)
    noticed: set[str] = field(default_factory=set)
    """Runs that were told that the node will be taken away."""


class Book:
    """Runs by id, pods and nodes by UID."""

    def __init__(self) -> None:
        self.runs: dict[str, RunTold] = {}
        self.pods: dict[str, PodTold] = {}
        self.nodes: dict[str, NodeTold] = {}

    @singledispatchmethod
    def fold(self, payload: Payload) -> None:
        """Note what was told; kinds the book does not hold are passed over."""

    @fold.register
    def _(self, fact: RunSeen) -> None:
        told = self.runs.get(fact.run)
        if told is None:
            self.runs[fact.run] = RunTold(fact)
            self._bound_runs()
            return
        told.seen = fact
        if told.ended is not None and not told.ended_with(fact.object_uid) and not told.is_over:
            told.ended = told.issue = None

    @fold.register
    def _(self, fact: RunEnded) -> None:
        if fact.run in self.runs:
            self.runs[fact.run].ended = fact

    @fold.register
    def _(self, fact: IssueState) -> None:
        if fact.run in self.runs:
            self.runs[fact.run].issue = fact

    @fold.register
    def _(self, fact: PodBound) -> None:
        uid = fact.placement.pod_uid
        if uid is not None and uid not in self.pods:
            self.pods[uid] = PodTold(fact)

    @fold.register
    def _(self, fact: PodEnded) -> None:
        told = self._pod(fact.placement.pod_uid)
        if told is not None:
            told.ended = fact

    @fold.register
    def _(self, signal: ProcessExit) -> None:
        told = self._pod(signal.placement.pod_uid)
        if told is not None:
            told.start = max(told.start, signal.start)

    @fold.register
    def _(self, signal: Eviction) -> None:
        told = self._pod(signal.placement.pod_uid)
        if told is not None:
            told.evicted = True

    @fold.register
    def _(self, fact: NodeSeen) -> None:
        told = self.nodes.get(fact.node.uid)
        seen = fact.model_copy(update={"released_by": None})  # an edge: said once, never repeated
        if told is None:
            self.nodes[fact.node.uid] = NodeTold(seen)
        else:
            told.seen = seen

    @fold.register
    def _(self, fact: NodeGone) -> None:
        self.nodes.pop(fact.node.uid, None)

    @fold.register
    def _(self, signal: NodeCondition) -> None:
        told = self.nodes.get(signal.node.uid)
        if told is None:
            return
        if signal.state is FaultState.CLEARED:
            told.standing.pop(signal.condition, None)
        else:
            told.standing[signal.condition] = signal

    @fold.register
    def _(self, signal: PreemptionNotice) -> None:
        if signal.node is not None and signal.placement is not None and signal.node.uid in self.nodes:
            self.nodes[signal.node.uid].noticed.add(signal.placement.run)

    def _pod(self, uid: str | None) -> PodTold | None:
        return self.pods.get(uid) if uid is not None else None

    def _bound_runs(self) -> None:
        if len(self.runs) <= RUNS_KEPT:
            return
        oldest = next((run for run, told in self.runs.items() if told.ended is not None), None)
        if oldest is not None:
            del self.runs[oldest]

    def forget_pod(self, uid: str) -> None:
        """Its object is gone and its end was told: nothing more will be said of it."""
        self.pods.pop(uid, None)
