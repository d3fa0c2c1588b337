"""release_node: takes off what isolation left, and nothing else: somebody else's cordon and taints stay (recovery 5)."""

from __future__ import annotations

from actuators.nodes.isolate_node import NodeArguments, find, need_last, order_of
from actuators.nodes.isolation_marks import releasing
from actuators.nodes.reservations import Ledger
from actuators.reply import Refused, Reply, done
from actuators.rewriting import rewrite
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime import paths
from runtime.kubernetes import Object
from schemas.commands import Command
from schemas.wording import agreeing, counted


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same."""
    given = arguments_of(NodeArguments, command)
    node = find(command, given, world)
    if given.holds:
        raise Refused(
            "holds_left",
            f"{counted(len(given.holds), 'hold')} {agreeing(len(given.holds), 'is', 'are')} left on the node",
        )
    order, changed = order_of(command), False

    def judge(seen: Object) -> Object | None:
        nonlocal changed
        need_last(seen, order)
        change = releasing(seen)
        changed = change is not None
        return order.signed(seen, change)

    node, written = rewrite(node, paths.nodes(given.node_name), judge, world)
    if written and changed:
        Ledger(world).give_back(given.node)
        about = {"apiVersion": "v1", "kind": "Node", **node}
        world.voice.say(Words(about, "Released", f"Released: {command.reason}", key=command.command))
    return done(effects=(f"released {given.node_name}",) if written and changed else ())


STEP = Step(begin=act, look=act)
