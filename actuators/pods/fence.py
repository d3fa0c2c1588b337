"""Whether processes may still live where a pod was (recovery 5). The one place that forces a pod off.

A pod object that vanished proves nothing about its processes. What proves it: the kubelet's word (the pod is terminal), or that the node is
known to be powered off, by the taint that a human or a fencing command sets. One presumption stands beside them, `nodes.silent_nodes`, and
says so in the outcome. Nothing else is ever forced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actuators.jobs.run_objects import has_ended, is_leaving
from actuators.nodes.silent_nodes import Presumption, presume
from actuators.world import Words, World
from runtime import paths
from runtime.errors import ApiConflict, ApiForbidden, ApiNotFound
from runtime.kubernetes import Object

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Set by a human or a fencing command: the node is known to be off."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """What forcing came to."""

    left: list[Object]
    """Pods whose processes may live."""
    effects: tuple[str, ...] = ()
    """Who was forced off, and why one may."""
    waits: tuple[str, ...] = ()
    """Nodes that do not end their pods, and why nobody is forced off them."""


def force_what_is_off(pods: list[Object], world: World) -> Fenced:
    """Delete by UID, without waiting for a kubelet that will never speak, those that leave a node that is off or presumed gone."""
    seen: dict[str, Presumption] = {}
    left: list[Object] = []
    effects: list[str] = []
    for pod in pods:
        name = str((pod.get("spec") or {}).get("nodeName") or "")
        if not is_leaving(pod) or has_ended(pod) or not name:
            left.append(pod)
            continue
        if name not in seen:
            seen[name] = off(name, world)
        if not seen[name].gone:
            left.append(pod)
        elif _force(pod, world):
            effects.append(f"{seen[name].why}: pod {pod['metadata']['name']} was forced off")
            _say(pod, seen[name].why, world)
    waits = tuple(f"{name}: {found.why}" for name, found in seen.items() if not found.gone and found.why)
    return Fenced(left, tuple(effects), waits)


def off(name: str, world: World) -> Presumption:
    """Whether the node of this name is known to be off, or presumed gone."""
    try:
        node = world.api.get(paths.nodes(name))
    except ApiNotFound:
        return Presumption("")  # the garbage collector of Kubernetes has the pod
    if any(taint.get("key") == OUT_OF_SERVICE for taint in node["spec"].get("taints") or []):
        return Presumption(f"node {name} is out of service", gone=True)
    try:
        return presume(node, world)
    except ApiForbidden as error:
        return Presumption(f"its Leases may not be read: {error}")


def _say(pod: Object, why: str, world: World) -> None:
    about = {"apiVersion": "v1", "kind": "Pod", **pod}
    world.voice.say(Words(about, "ForcedOff", f"Deleted without its kubelet: {why}", key=why, warning=True))


def _force(pod: Object, world: World) -> bool:
    """By UID; False when it is gone or another one by now."""
    metadata = pod["metadata"]
    try:
        world.api.delete(pod, paths.pods(metadata["namespace"], metadata["name"]), grace=0)
    except (ApiNotFound, ApiConflict):
        return False
    return True
