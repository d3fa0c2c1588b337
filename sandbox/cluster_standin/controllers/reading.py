"""Small questions about API objects that several controllers ask. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from runtime.kubernetes import Object

ENDED = frozenset({"Succeeded", "Failed"})
NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"


def uid(item: Object) -> str:
    """Who it is."""
    return str(item["metadata"]["uid"])


def name(item: Object) -> str:
    """What it is called."""
    return str(item["metadata"]["name"])


def namespace(item: Object) -> str:
    """Where it is; empty for what belongs to no namespace."""
    return str(item["metadata"].get("namespace", ""))


def is_leaving(item: Object) -> bool:
    """Somebody deleted it, and something still holds it."""
    return item["metadata"].get("deletionTimestamp") is not None


def finalizers(item: Object) -> list[str]:
    """Who has to agree before it goes."""
    return list(item["metadata"].get("finalizers") or [])


def conditions(item: Object) -> list[Object]:
    """What is said of it."""
    return list((item.get("status") or {}).get("conditions") or [])


def condition(item: Object, kind: str) -> Object | None:
    """One of its conditions."""
    return next((one for one in conditions(item) if one.get("type") == kind), None)


def holds(item: Object, kind: str) -> bool:
    """Whether a condition stands at True."""
    return (condition(item, kind) or {}).get("status") == "True"


def phase(pod: Object) -> str:
    """Of a pod; one that nobody has said anything about is Pending."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def has_ended(pod: Object) -> bool:
    """It has succeeded or failed for good."""
    return phase(pod) in ENDED


def node_of(pod: Object) -> str:
    """The node it is bound to, or nothing."""
    return str(pod["spec"].get("nodeName") or "")


def owner(item: Object) -> Object | None:
    """Its controller."""
    owners = item["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), None)


def taints(node: Object, effect: str = "") -> list[Object]:
    """All taints of a node, or those of one effect."""
    found: Iterable[Object] = node.get("spec", {}).get("taints") or []
    return [taint for taint in found if not effect or taint.get("effect") == effect]


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether one toleration covers one taint."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def instant(at: datetime) -> str:
    """A time as Kubernetes writes it, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of(text: object) -> datetime | None:
    """A time that Kubernetes wrote, or None."""
    if not isinstance(text, str) or not text:
        return None
    return datetime.fromisoformat(text)
