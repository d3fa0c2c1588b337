"""A node in the cluster, believed by its UID only: names are used again (recovery 0)."""

from __future__ import annotations

from actuators.reply import Refused
from actuators.world import World
from runtime import paths
from runtime.errors import ApiNotFound
from runtime.kubernetes import Object


def find_node(name: str, uid: str, world: World) -> Object:
    """The node. Raises Refused when it is gone, or another one has its name."""
    try:
        node = world.api.get(paths.nodes(name))
    except ApiNotFound:
        raise Refused("node_gone", f"there is no node {name}") from None
    found = node["metadata"]["uid"]
    if found != uid:
        raise Refused("other_node", f"node {name} is {found} now; the command is for {uid}")
    return node


def is_ready(node: Object) -> bool:
    """The control plane says so; where it says nothing, or does not know, it is not."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def annotations_of(item: Object) -> dict[str, str]:
    """Annotations of an object."""
    return dict(item["metadata"].get("annotations") or {})
