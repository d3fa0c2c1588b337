"""Nodes: ready, cordoned, isolated by us, protected; which conditions stand; and whether a human took our taint off.

A condition is told at once; how long it must stand before anything follows is the rulebook's (`node_grace`). A node that never was ready is
joining, not broken. While a node is not ready it stays under the first code: kubelets that are ill before they are silent are one fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from producers.cluster.reading import condition, part, parts, text, time_at
from runtime.kubernetes import Object
from schemas.cluster import FIELD_MANAGER, ISOLATED
from schemas.facts import NodeSeen
from schemas.signals import NodeRef

NOT_READY: Final = "not-ready"
UNREACHABLE: Final = "unreachable"
GONE: Final = "gone"
UNREADY: Final = frozenset({NOT_READY, UNREACHABLE})
_CONTROL_PLANE: Final = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/etcd",
)
_JOINING: Final = timedelta(seconds=1)
"""Ready has not changed since the object was made (the API's times have whole seconds)."""

_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")

UNKNOWN_MANAGER: Final = "unknown"
"""Who takes the last taint off leaves no field behind, and so no name."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A condition of the node that holds."""

    code: str
    since: datetime | None
    detail: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A taint that says that the node will be taken away."""

    taint: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Node:
    """A node as far as it is told."""

    uid: str
    name: str
    made_at: datetime | None
    ready: bool
    cordoned: bool
    our_taint: bool
    our_mark: bool
    """The annotation that says that the cordon is ours."""
    protected: bool
    standing: tuple[Standing, ...]
    silent: frozenset[str]
    """Codes of conditions whose status is Unknown: nothing is said, so nothing is cleared."""
    taints: tuple[Notice, ...]
    managers: frozenset[tuple[str, str]]
    """Who wrote the object when; status aside."""
    devices: tuple[tuple[str, int], ...] = ()
    """Allocatable chips by resource name."""

    @property
    def ref(self) -> NodeRef:
        """Its identity."""
        return NodeRef(uid=self.uid, name=self.name)

    @property
    def cordoned_by_others(self) -> bool:
        """Somebody else wants its pods away: a drain."""
        return self.cordoned and not self.our_mark and not self.our_taint

    def seen(self, *, protected: bool, released_by: str | None) -> NodeSeen:
        """The fact; `protected`: relight's own parts run on it."""
        return NodeSeen(
            node=self.ref,
            ready=self.ready,
            cordoned=self.cordoned,
            our_taint=self.our_taint,
            protected=self.protected or protected,
            released_by=released_by,
            devices=dict(self.devices),
        )


def read_node(
    node: Object, conditions: Iterable[str], protected_label: str, chips: tuple[str, ...] = ()
) -> Node:
    """Read a node.

    Args:
        node: as the API server has it.
        conditions: types beside Ready that are told.
        protected_label: a label that forbids isolating it.
        chips: what resource names of chips begin with.
    """
    labels = part(node, "metadata", "labels")
    taints = parts(node, "spec", "taints")
    ready = condition(node, "Ready")
    told = {kind: condition(node, kind) for kind in conditions}
    standing = [
        Standing(code_of(kind), time_at(found, "lastTransitionTime"), _said(found))
        for kind, found in told.items()
        if found.get("status") == "True"
    ]
    unready = _unready(node, ready)
    return Node(
        uid=text(node, "metadata", "uid"),
        name=text(node, "metadata", "name"),
        made_at=time_at(node, "metadata", "creationTimestamp"),
        ready=ready.get("status") == "True",
        cordoned=part(node, "spec").get("unschedulable") is True,
        our_taint=any(taint.get("key") == ISOLATED for taint in taints),
        our_mark=ISOLATED in part(node, "metadata", "annotations"),
        protected=any(label in labels for label in (*_CONTROL_PLANE, protected_label)),
        standing=tuple(standing) if unready is None else (unready, *standing),
        silent=frozenset(code_of(kind) for kind, found in told.items() if found.get("status") == "Unknown"),
        taints=tuple(Notice(text(taint, "key"), time_at(taint, "timeAdded")) for taint in taints),
        managers=_managers(node),
        devices=tuple(sorted(_devices(part(node, "status", "allocatable"), chips))),
    )


def _devices(allocatable: Object, chips: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for name, amount in allocatable.items():
        if name.startswith(chips) and str(amount).isdigit():
            yield name, int(amount)


def code_of(kind: str) -> str:
    """Code of a condition type, as the table of node conditions spells it: `PIDPressure` is `pid-pressure`."""
    return _WORDS.sub("-", kind).lower()[:64]


def released_by(old: Node, new: Node, controllers: Iterable[str]) -> str | None:
    """The human who took our taint or our mark off, or uncordoned; None when nobody did, or a controller or we ourselves.

    We take our mark off in the same write; whoever leaves it has no part in our release. The field manager's name is read from what was written
    between the two; taking the last taint off leaves none behind, and then it is `unknown`.
    """
    untainted, unmarked = not new.our_taint, old.our_mark and not new.our_mark
    uncordoned = old.cordoned and not new.cordoned
    is_our_release = untainted and unmarked
    if not old.our_taint or is_our_release or not (untainted or unmarked or uncordoned):
        return None
    wrote = {name for name, _ in new.managers - old.managers}
    if FIELD_MANAGER in wrote:
        return None
    humans = wrote.difference(controllers)
    if wrote and not humans:
        return None
    return min(humans)[:200] if humans else UNKNOWN_MANAGER


def _unready(node: Object, ready: Object) -> Standing | None:
    if not ready or ready.get("status") == "True":
        return None
    since, made = time_at(ready, "lastTransitionTime"), time_at(node, "metadata", "creationTimestamp")
    if since is not None and made is not None and since - made <= _JOINING:
        return None
    return Standing(NOT_READY if ready.get("status") == "False" else UNREACHABLE, since, _said(ready))


def _said(found: Object) -> str:
    return ": ".join(each for each in (text(found, "reason"), text(found, "message")) if each)[:2000]


def _managers(node: Object) -> frozenset[tuple[str, str]]:
    return frozenset(
        (text(entry, "manager"), text(entry, "time"))
        for entry in parts(node, "metadata", "managedFields")
        if entry.get("subresource") != "status"
    )
