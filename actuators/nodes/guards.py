"""Operator's limits on isolating, checked where the truth is: on the nodes themselves (design 8). Never a rulebook's.

What is isolated now is counted from our taints. Two commands that count at the same moment could both pass: until reservations are granted by
one leaseholder, keep a margin in the limit.
"""

from __future__ import annotations

from typing import Final

from actuators.nodes.isolation_marks import is_isolated
from actuators.reply import Blocked
from actuators.world import World
from runtime import paths
from runtime.kubernetes import Object

CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
PROTECTED: Final = "relight.dev/protected"
"""Label an operator sets on nodes that carry relight's own broker or store."""


def need_guards_to_admit(node: Object, world: World) -> None:
    """Raises Blocked, with the guard's name as its cause, when this node may not be isolated now."""
    labels = node["metadata"].get("labels") or {}
    for label in (*CONTROL_PLANE, PROTECTED):
        if label in labels:
            raise Blocked("guard:protected", f"label {label}: it is never isolated")
    nodes = world.api.list(paths.nodes())
    isolated = sum(is_isolated(one) for one in nodes)
    if isolated >= world.settings.most_isolated:
        raise Blocked(
            "guard:isolated", f"{isolated} nodes are isolated; at most {world.settings.most_isolated} may be"
        )
    left = len(nodes) - isolated - 1
    if left < world.settings.fewest_left:
        raise Blocked(
            "guard:floor", f"{left} nodes would be left; at least {world.settings.fewest_left} must be"
        )
