"""Whether processes may still live where a pod was (recovery 5). The one place that forces a pod off.

A pod object that vanished proves nothing about its processes. What proves it: the kubelet's word (the pod is terminal), or that the node is
known to be powered off, by the taint that a human or a fencing command sets. Nothing else is ever forced.
"""

from __future__ import annotations

from typing import Final

from actuators.jobs.run_objects import has_ended, is_leaving
from actuators.world import World
from runtime import paths
from runtime.errors import ApiConflict, ApiNotFound
from runtime.kubernetes import Object

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Set by a human or a fencing command: the node is known to be off."""


def force_what_is_off(pods: list[Object], world: World) -> list[Object]:
    """Delete by UID, without waiting for a kubelet that will never speak, those that leave a node known to be off; returns the others."""
    off: dict[str, bool] = {}
    left: list[Object] = []
    for pod in pods:
        name = str((pod.get("spec") or {}).get("nodeName") or "")
        if not is_leaving(pod) or has_ended(pod) or not name:
            left.append(pod)
            continue
        if name not in off:
            off[name] = is_off(name, world)
        if off[name]:
            _force(pod, world)
        else:
            left.append(pod)
    return left


def is_off(name: str, world: World) -> bool:
    """The node of this name is known to be off."""
    try:
        node = world.api.get(paths.nodes(name))
    except ApiNotFound:
        return False  # the garbage collector of Kubernetes has the pod
    return any(taint.get("key") == OUT_OF_SERVICE for taint in node["spec"].get("taints") or [])


def _force(pod: Object, world: World) -> None:
    metadata = pod["metadata"]
    try:
        world.api.delete(pod, paths.pods(metadata["namespace"], metadata["name"]), grace=0)
    except (ApiNotFound, ApiConflict):
        return
