"""Whether a pod may run on a node, by the rules of the scheduler that a manifest can state: selector, node affinity, taints. Pure.

Not looked at: affinity between pods, spreading, volumes bound to a zone. So the answer is a hint, never a promise (finding Q18).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from actuators.nodes.node_objects import is_ready
from runtime.kubernetes import Object

KEEPS_OUT: Final = ("NoSchedule", "NoExecute")
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def may_run(pod_spec: Object, node: Object) -> bool:
    """All that can be read from the two manifests admits it."""
    labels = node["metadata"].get("labels") or {}
    selector = pod_spec.get("nodeSelector") or {}
    return (
        is_usable(node)
        and all(labels.get(key) == value for key, value in selector.items())
        and _affinity_admits(pod_spec, node, labels)
        and tolerates(pod_spec, node)
    )


def is_usable(node: Object) -> bool:
    """Ready, and not cordoned by anybody."""
    return not node.get("spec", {}).get("unschedulable") and is_ready(node)


def tolerates(pod_spec: Object, node: Object) -> bool:
    """Every taint that keeps pods out is tolerated."""
    tolerations = pod_spec.get("tolerations") or []
    return all(
        any(_tolerated(taint, toleration) for toleration in tolerations)
        for taint in node.get("spec", {}).get("taints") or []
        if taint.get("effect") in KEEPS_OUT
    )


def _tolerated(taint: Object, toleration: Object) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return not key or key == taint.get("key")
    return bool(key == taint.get("key") and toleration.get("value", "") == taint.get("value", ""))


def _affinity_admits(pod_spec: Object, node: Object, labels: Mapping[str, str]) -> bool:
    required = ((pod_spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if required is None:
        return True
    fields = {"metadata.name": str(node["metadata"]["name"])}
    return any(
        _term_matches(term, labels, fields) for term in required.get("nodeSelectorTerms") or [] if term
    )


def _term_matches(term: Object, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    return all(_matches(one, labels) for one in term.get("matchExpressions") or []) and all(
        _matches(one, fields) for one in term.get("matchFields") or []
    )


def _matches(requirement: Object, known: Mapping[str, str]) -> bool:
    value = known.get(requirement["key"])
    values = [str(one) for one in requirement.get("values") or []]
    check = _OPERATORS.get(str(requirement.get("operator")))
    return check is not None and check(value, values)


def _greater(value: str | None, values: list[str]) -> bool:
    return _number(value) is not None and int(value or 0) > int(values[0])


def _less(value: str | None, values: list[str]) -> bool:
    return _number(value) is not None and int(value or 0) < int(values[0])


def _number(value: str | None) -> int | None:
    try:
        return int(value or "")
    except ValueError:
        return None


_OPERATORS: Final[dict[str, Callable[[str | None, list[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _greater,
    "Lt": _less,
}
