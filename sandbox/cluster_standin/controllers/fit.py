"""Whether a pod fits a node, and if not why, in kube-scheduler's words. Pure; what a manifest can ask for and this does not know it names.

Written apart from what relight itself believes of the scheduler (`actuators.nodes.placement_rules`): the two hold each other to account.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import reading

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TAINTED: Final = "node(s) had untolerated taint(s)"
CORDONED: Final = "node(s) were unschedulable"
TOO_MANY_PODS: Final = "Too many pods"

Amounts = dict[str, Decimal]


@dataclass(slots=True)
class Room:
    """A node and what is left of it.

    Args:
        node: the object.
        left: of each resource, pods among them.
        pods: how many are on it.
    """

    node: Object
    left: Amounts
    pods: int

    def take(self, pod: Object) -> None:
        """Put a pod there."""
        for resource, amount in requests(pod).items():
            self.left[resource] = self.left.get(resource, Decimal(0)) - amount
        self.pods += 1


def rooms(nodes: Iterable[Object], pods: Iterable[Object]) -> list[Room]:
    """Nodes with the pods that are bound to them and not over."""
    there: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        if reading.node_of(pod) and not reading.has_ended(pod):
            there[reading.node_of(pod)].append(pod)
    found = []
    for node in nodes:
        room = Room(node, amounts((node.get("status") or {}).get("allocatable")), 0)
        for pod in there[reading.name(node)]:
            room.take(pod)
        found.append(room)
    return found


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """Quantities as numbers."""
    return {
        name: Decimal(parse_quantity(quantity))  # type: ignore[no-untyped-call]
        for name, quantity in (resources or {}).items()
    }


def requests(pod: Object) -> Amounts:
    """What a pod takes: its containers with its sidecars, or the largest of its init containers, and the overhead; and its own place."""
    spec = pod["spec"]
    together: Amounts = defaultdict(Decimal)
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(together, asked)
            asked = dict(together)
        else:
            asked = {name: asked[name] + together.get(name, Decimal(0)) for name in asked}
        largest = {
            name: max(asked.get(name, Decimal(0)), largest.get(name, Decimal(0)))
            for name in {**asked, **largest}
        }
    for container in spec.get("containers") or ():
        _add(together, _asked(container))
    found = {name: max(together[name], largest.get(name, Decimal(0))) for name in {**together, **largest}}
    _add(found, amounts(spec.get("overhead")))
    return {name: amount for name, amount in found.items() if amount} | {"pods": Decimal(1)}


def _asked(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


# ---------------------------------------------------------------------- one node


def hindrances(pod: Object, room: Room) -> list[str]:
    """Why a pod may not run on a node, in the order in which the scheduler looks: the first kind of reason is all that it tells."""
    node, spec = room.node, pod["spec"]
    tolerations = spec.get("tolerations") or []
    if node.get("spec", {}).get("unschedulable") and not _covered(
        {"key": UNSCHEDULABLE, "effect": "NoSchedule"}, tolerations
    ):
        return [CORDONED]
    if any(not _covered(taint, tolerations) for taint in _keeping_out(node)):
        return [TAINTED]
    if not _is_wanted(spec, node):
        return [AFFINITY]
    return list(_too_little(pod, room))


def _keeping_out(node: Object) -> list[Object]:
    return [*reading.taints(node, reading.NO_SCHEDULE), *reading.taints(node, reading.NO_EXECUTE)]


def _covered(taint: Object, tolerations: Iterable[Object]) -> bool:
    return any(reading.tolerates(toleration, taint) for toleration in tolerations)


def _too_little(pod: Object, room: Room) -> Iterator[str]:
    for resource, amount in sorted(requests(pod).items()):
        if amount > room.left.get(resource, Decimal(0)):
            yield TOO_MANY_PODS if resource == "pods" else f"Insufficient {resource}"


def _is_wanted(spec: Object, node: Object) -> bool:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = _node_affinity(spec).get(REQUIRED)
    return required is None or any(_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _node_affinity(spec: Object) -> Object:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def _matches(term: Object, node: Object) -> bool:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    fields = {"metadata.name": reading.name(node)}
    asked = [(one, labels) for one in term.get("matchExpressions") or ()]
    asked += [(one, fields) for one in term.get("matchFields") or ()]
    return bool(asked) and all(_holds(one, known.get(one["key"])) for one, known in asked)


def _holds(requirement: Object, value: str | None) -> bool:
    values = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return bool(value in values)
        case "NotIn":
            return bool(value not in values)
        case "Exists" | "DoesNotExist" as presence:
            return bool((value is not None) == (presence == "Exists"))
        case "Gt" | "Lt" as way:
            number, bound = _number(value), _number(values[0])
            if number is None or bound is None:
                return False
            return number > bound if way == "Gt" else number < bound
    return False


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


# ---------------------------------------------------------------------- which of those that fit


def choose(pod: Object, fitting: Iterable[Room]) -> Room:
    """The node that is liked best: preferred affinity, few taints that would rather not, few pods, then the name."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []

    def dislike(room: Room) -> tuple[int, int, int, str]:
        wishes = _node_affinity(spec).get(PREFERRED) or ()
        liked = sum(int(wish["weight"]) for wish in wishes if _matches(wish["preference"], room.node))
        taints = reading.taints(room.node, "PreferNoSchedule")
        shunned = sum(not _covered(taint, tolerations) for taint in taints)
        return -liked, shunned, room.pods, reading.name(room.node)

    return min(fitting, key=dislike)


def not_known(pod: Object) -> list[str]:
    """Fields that could keep the pod off a node, and that nobody here looks at."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    found = [
        f"spec.affinity.{kind}"
        for kind in ("podAffinity", "podAntiAffinity")
        if (affinity.get(kind) or {}).get(REQUIRED)
    ]
    spread = spec.get("topologySpreadConstraints") or ()
    if any(one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for one in spread):
        found.append("spec.topologySpreadConstraints")
    found += [
        f"spec.{field}" for field in ("resourceClaims", "schedulingGroup", "resources") if spec.get(field)
    ]
    if any(
        volume.get("persistentVolumeClaim") or volume.get("ephemeral") for volume in spec.get("volumes") or ()
    ):
        found.append("spec.volumes.persistentVolumeClaim")
    ports = [port for container in spec.get("containers") or () for port in container.get("ports") or ()]
    if any(port.get("hostPort") for port in ports):
        found.append("spec.containers.ports.hostPort")
    return found
