"""How much room nodes have: what they offer, less what the pods on them asked for. Pure arithmetic on quantities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from runtime.kubernetes import Object

Amounts = dict[str, Decimal]
PODS: Final = "pods"
POD: Final = Decimal(1)
NOTHING: Final = Decimal(0)


def amounts_of(resources: Mapping[str, Any] | None) -> Amounts:
    """Quantities as numbers; one that cannot be read counts as nothing."""
    found: Amounts = {}
    for name, quantity in (resources or {}).items():
        try:
            found[str(name)] = Decimal(parse_quantity(quantity))  # type: ignore[no-untyped-call]
        except ValueError:
            continue
    return found


def requested(pod_spec: Object) -> Amounts:
    """What the scheduler counts for a pod: its containers and sidecars together, or its largest init container, and the overhead."""
    together: Amounts = defaultdict(Decimal)
    _add(together, [_of(container) for container in pod_spec.get("containers") or []])
    largest: Amounts = {}
    for container in pod_spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            _add(together, [_of(container)])
        else:
            for name, amount in _of(container).items():
                largest[name] = max(largest.get(name, NOTHING), amount)
    for name, amount in largest.items():
        together[name] = max(together[name], amount)
    _add(together, [amounts_of(pod_spec.get("overhead"))])
    together[PODS] = POD
    return {name: amount for name, amount in together.items() if amount > 0}


def free_on(node: Object, pods: Iterable[Object]) -> Amounts:
    """What is left of a node with these pods on it."""
    left: Amounts = defaultdict(Decimal, amounts_of((node.get("status") or {}).get("allocatable")))
    for pod in pods:
        take(left, requested(pod["spec"]))
    return left


def times(room: Amounts, wanted: Amounts) -> int:
    """How many pods of a kind fit."""
    return max(0, min(int(room.get(name, NOTHING) / amount) for name, amount in wanted.items()))


def take(room: Amounts, amounts: Amounts) -> None:
    """Use room up."""
    for name, amount in amounts.items():
        room[name] = room.get(name, NOTHING) - amount


def _of(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return {**amounts_of(resources.get("limits")), **amounts_of(resources.get("requests"))}


def _add(total: Amounts, more: Iterable[Amounts]) -> None:
    for amounts in more:
        for name, amount in amounts.items():
            total[name] += amount
