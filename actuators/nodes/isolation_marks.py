"""What isolation leaves on a node, and how it is taken off again. Pure: a node in, the patch it needs out (recovery 5).

Marks: the cordon, our NoSchedule taint, an annotation each hold, and the annotation that says that the cordon is ours. Somebody else's cordon
is never removed: ours is one we set on a node that had none, and that nobody but us has written since.

Beside them stands which command was the last, written with the same patch, and left there by a release: commands of a node are numbered by its
mailbox, and one that is carried out late must neither bring back what was released or undone, nor free what was isolated since.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from runtime.kubernetes import Object
from schemas.cluster import FIELD_MANAGER, HOLD, ISOLATED, ISOLATION_ORDER, unit_key

TAINT: Final[Object] = {"key": ISOLATED, "value": "true", "effect": "NoSchedule"}
OURS: Final = "cordoned"
"""Value of the annotation: the cordon is ours. Another value: the node was cordoned already."""
THEIRS: Final = "was-cordoned"
LONGEST_REASON: Final = 500
_NUMBER: Final = re.compile(r"^[0-9]{1,18}$")


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a node is held, as the node's mailbox says it."""

    cause: str
    chip: str | None
    text: str

    @property
    def key(self) -> str:
        """Its annotation."""
        return unit_key(HOLD, f"{self.cause}/{self.chip or ''}")


@dataclass(frozen=True, slots=True)
class IsolationOrder:
    """A command that isolates or releases, by its number among those of the node."""

    sequence: int
    command: str

    def signed(self, node: Object, change: Object | None) -> Object | None:
        """The change, and that this was the last command; None when all of that stands."""
        if last_order(node) == self:
            return change
        signed = change or {}
        annotations = signed.get("metadata", {}).get("annotations", {})
        return {**signed, "metadata": {"annotations": {**annotations, ISOLATION_ORDER: self.text}}}

    @property
    def text(self) -> str:
        """As it stands on the node."""
        return f"{self.sequence} {self.command}"


def last_order(node: Object) -> IsolationOrder | None:
    """The command that isolated or released the node last; what cannot be read forbids nothing."""
    sequence, _, command = _annotations(node).get(ISOLATION_ORDER, "").partition(" ")
    return IsolationOrder(int(sequence), command) if _NUMBER.match(sequence) else None


def hold_of(given: dict[str, Any]) -> Hold:
    """From a command's arguments; the annotation's text names cause, chip, class, evidence, time and reason."""
    kept = {key: str(value)[:LONGEST_REASON] for key, value in sorted(given.items()) if value is not None}
    chip = given.get("chip")
    return Hold(str(given.get("cause", "")), None if chip is None else str(chip), json.dumps(kept))


def is_isolated(node: Object) -> bool:
    """Our taint stands."""
    return any(_is_ours(taint) for taint in taints_of(node))


def taints_of(node: Object) -> list[Object]:
    """All taints, in their order."""
    return list(node.get("spec", {}).get("taints") or [])


def isolating(node: Object, holds: list[Hold]) -> Object | None:
    """The patch that makes the node's marks what the holds say; None when they are."""
    change: Object = {}
    annotations = _annotations(node)
    wanted: Object = {hold.key: hold.text for hold in holds}
    stale: Object = {key: None for key in annotations if key.startswith(HOLD) and key not in wanted}
    marks = {**stale, **{key: text for key, text in wanted.items() if annotations.get(key) != text}}
    spec: Object = {}
    if not is_isolated(node):
        spec["taints"] = [*taints_of(node), TAINT]
    cordoned = bool(node.get("spec", {}).get("unschedulable"))
    if not cordoned and not is_isolated(
        node
    ):  # under our taint somebody uncordoned it, which is theirs to do
        spec["unschedulable"] = True
        marks[ISOLATED] = OURS
    elif cordoned and ISOLATED not in annotations:
        marks[ISOLATED] = THEIRS
    if spec:
        change["spec"] = spec
    if marks:
        change["metadata"] = {"annotations": marks}
    return change or None


def is_superseded(node: Object, order: IsolationOrder) -> bool:
    """A later command has isolated or released the node."""
    last = last_order(node)
    return last is not None and last.sequence > order.sequence


def was_undone(node: Object, order: IsolationOrder) -> bool:
    """This very command isolated the node already, and somebody took our taint off since (finding R31)."""
    return not is_isolated(node) and last_order(node) == order


def releasing(node: Object) -> Object | None:
    """The patch that takes all marks of ours off; None when there are none."""
    annotations = _annotations(node)
    marks: Object = {key: None for key in annotations if key.startswith(HOLD) or key == ISOLATED}
    spec: Object = {}
    if is_isolated(node):
        spec["taints"] = [taint for taint in taints_of(node) if not _is_ours(taint)] or None
    if cordon_is_ours(node):
        spec["unschedulable"] = None
    change: Object = {}
    if spec:
        change["spec"] = spec
    if marks:
        change["metadata"] = {"annotations": marks}
    return change or None


def cordon_is_ours(node: Object) -> bool:
    """We set it, by our own record and by the server's: a human who cordoned after us is its last writer.

    Where somebody took our record off, the server's alone must say that nobody but us wrote it.
    """
    record = _annotations(node).get(ISOLATED)
    if not node.get("spec", {}).get("unschedulable") or record not in (OURS, None):
        return False
    writers = [
        entry.get("manager")
        for entry in node["metadata"].get("managedFields") or []
        if "f:unschedulable" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    return writers == [FIELD_MANAGER] or (record == OURS and not writers)


def _is_ours(taint: Object) -> bool:
    return bool(taint.get("key") == ISOLATED)


def _annotations(node: Object) -> dict[str, str]:
    return dict(node["metadata"].get("annotations") or {})
