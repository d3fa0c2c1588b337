"""What whoever publishes facts about runs and nodes must guarantee, the scripted publisher of the tests and a cluster watcher alike.

To put another publisher under the contract, write a `Stage`: something that makes the scripted happenings come true (objects in a fake API
server, say) and returns the facts that were published, as (subject, payload) in the order of sending. Then call `keeps_contract` on it.

Guaranteed: every fact goes to the subject it speaks of; a pod is one edge to its run and one to its node, told again only in the same words;
a pod is bound before it ends and never bound again after it; identities are UIDs; the epoch never falls; nothing lists all pods; a run is
seen before anything else is told of it, and nothing is bound to it after its end, unless it failed and another object of it was seen since; a
resync repeats states and adds no edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from schemas.envelope import Payload
from schemas.facts import FACTS, IssueState, NodeGone, NodeSeen, PodBound, PodEnded, RunEnded, RunSeen
from schemas.ids import node_subject, run_subject

Facts = Sequence[tuple[str, Payload]]


class Happening(StrEnum):
    """What can happen in the cluster; each acts on one run on two nodes."""

    RUN_APPEARS = "run appears"
    PODS_BIND = "pods bind"
    POD_ENDS = "pod ends"
    NODE_NOT_READY = "node not ready"
    NODE_GONE = "node gone"
    SUSPENDED = "run suspended"
    RESUMED = "run resumed"
    ANNOTATIONS = "annotations changed"
    RESYNC = "resync"
    RUN_ENDS = "run ends"


class Stage(Protocol):
    """A publisher and the cluster it looks at."""

    def play(self, happenings: Sequence[Happening]) -> Facts:
        """Let these happen in order; the facts that were published."""
        ...


SCRIPTS: tuple[tuple[Happening, ...], ...] = (
    (Happening.RUN_APPEARS, Happening.PODS_BIND),
    (Happening.RUN_APPEARS, Happening.PODS_BIND, Happening.POD_ENDS),
    (Happening.RUN_APPEARS, Happening.PODS_BIND, Happening.RESYNC, Happening.RESYNC),
    (Happening.RUN_APPEARS, Happening.PODS_BIND, Happening.ANNOTATIONS, Happening.RESYNC),
    (Happening.RUN_APPEARS, Happening.PODS_BIND, Happening.SUSPENDED, Happening.RESUMED, Happening.RESYNC),
    (
        Happening.RUN_APPEARS,
        Happening.PODS_BIND,
        Happening.NODE_NOT_READY,
        Happening.NODE_GONE,
        Happening.RESYNC,
    ),
    (Happening.RUN_APPEARS, Happening.PODS_BIND, Happening.RUN_ENDS, Happening.RESYNC),
)


def keeps_contract(facts: Facts) -> None:
    """AssertionError, with the fact, at the first promise that is broken."""
    book = _Book()
    for position, (subject, fact) in enumerate(facts):
        assert isinstance(fact, FACTS), f"fact {position}: a {type(fact).__name__} is no fact"
        book.read(subject, fact)
    book.close()


def says_what_happened(happenings: Sequence[Happening], facts: Facts) -> None:
    """The facts that a script must have caused are there."""
    payloads = [fact for _, fact in facts]
    wanted: dict[Happening, bool] = {
        Happening.RUN_APPEARS: any(isinstance(f, RunSeen) for f in payloads),
        Happening.PODS_BIND: any(isinstance(f, PodBound) for f in payloads),
        Happening.POD_ENDS: any(isinstance(f, PodEnded) for f in payloads),
        Happening.NODE_NOT_READY: any(isinstance(f, NodeSeen) and not f.ready for f in payloads),
        Happening.NODE_GONE: any(isinstance(f, NodeGone) for f in payloads),
        Happening.SUSPENDED: any(isinstance(f, RunSeen) and f.suspended for f in payloads),
        Happening.RESUMED: any(isinstance(f, RunSeen) and f.epoch > 1 for f in payloads),
        Happening.ANNOTATIONS: len({_annotations(f) for f in payloads if isinstance(f, RunSeen)}) > 1,
        Happening.RUN_ENDS: any(isinstance(f, RunEnded) for f in payloads),
    }
    for happening in happenings:
        assert wanted.get(happening, True), f"nothing was told of: {happening.value}"


def _annotations(fact: RunSeen) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(fact.annotations.items()))


class _Book:
    """What was told so far."""

    def __init__(self) -> None:
        self.bound: dict[tuple[str, str], PodBound] = {}
        self.ended: set[tuple[str, str]] = set()
        self.epochs: dict[str, int] = {}
        self.over: dict[str, RunEnded] = {}
        self.gone: set[str] = set()
        self.told: dict[str, set[str]] = {}

    def read(self, subject: str, fact: Payload) -> None:
        match fact:
            case RunSeen():
                self._run_seen(subject, fact)
            case RunEnded():
                self._known(subject, fact.run)
                self.over[fact.run] = fact
            case IssueState():
                self._known(subject, fact.run)
            case PodBound():
                self._pod_bound(subject, fact)
            case PodEnded():
                self._pod_ended(subject, fact)
            case NodeSeen():
                assert subject == node_subject(fact.node.uid), f"{subject}: told of node {fact.node.uid}"
                assert fact.node.uid not in self.gone, f"node UID {fact.node.uid} came back"
            case NodeGone():
                assert subject == node_subject(fact.node.uid), f"{subject}: told of node {fact.node.uid}"
                self.gone.add(fact.node.uid)

    def _known(self, subject: str, run: str) -> None:
        assert subject == run_subject(run), f"{subject}: told of run {run}"
        assert run in self.epochs, f"run {run} was told of before it was seen"

    def _run_seen(self, subject: str, fact: RunSeen) -> None:
        assert subject == run_subject(fact.run), f"{subject}: told of run {fact.run}"
        assert fact.epoch >= self.epochs.get(fact.run, 1), f"the epoch of {fact.run} fell to {fact.epoch}"
        end = self.over.get(fact.run)
        if (
            end is not None and end.how == "failed" and end.object_uid != fact.object_uid
        ):  # made anew (recovery 0)
            del self.over[fact.run]
        assert fact.run not in self.over, f"run {fact.run} was seen again after its end"
        self.epochs[fact.run] = fact.epoch

    def _pod_bound(self, subject: str, fact: PodBound) -> None:
        where = fact.placement
        assert where.pod_uid, f"a pod of {where.run} was bound without its UID"
        assert where.epoch is not None, f"pod {where.pod_uid} was bound without its epoch"
        assert subject in {run_subject(where.run), node_subject(fact.node.uid)}, (
            f"{subject}: pod {where.pod_uid}"
        )
        if subject == run_subject(where.run):
            self._known(subject, where.run)
            assert where.run not in self.over, f"pod {where.pod_uid} was bound after the run's end"
        key = (subject, where.pod_uid)
        assert key not in self.ended, f"{subject}: pod {where.pod_uid} was bound after its end"
        assert self.bound.setdefault(key, fact) == fact, f"pod {where.pod_uid} was bound in two ways"
        self.told.setdefault(where.pod_uid, set()).add(subject)

    def _pod_ended(self, subject: str, fact: PodEnded) -> None:
        uid = fact.placement.pod_uid
        assert uid, f"a pod of {fact.placement.run} ended without its UID"
        bound = self.bound.get((subject, uid))
        assert bound is not None, f"{subject}: pod {uid} ended without having been bound"
        assert bound.node == fact.node, f"pod {uid} moved from {bound.node.uid} to {fact.node.uid}"
        self.ended.add((subject, uid))

    def close(self) -> None:
        for uid, subjects in self.told.items():
            assert len(subjects) == 2, f"pod {uid} was told to {sorted(subjects)} only"
            ends = [subject for subject in subjects if (subject, uid) in self.ended]
            assert len(ends) in {0, 2}, f"the end of pod {uid} was told to {ends} only"
