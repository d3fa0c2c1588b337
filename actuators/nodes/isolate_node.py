"""isolate_node: cordon, taint and annotations become what the node's holds say. Moves nobody by itself (recovery 5).

Carried out again, by an actuator that was killed or stood still, it does not bring back what was released or taken off since.
"""

from __future__ import annotations

from typing import Any, Final

from actuators.nodes.fleet import Candidate
from actuators.nodes.guards import take_place
from actuators.nodes.isolation_marks import (
    Hold,
    IsolationOrder,
    hold_of,
    is_isolated,
    is_superseded,
    isolating,
    last_order,
    releasing,
    was_undone,
)
from actuators.nodes.node_objects import find_node, is_ready
from actuators.nodes.reservations import Ledger
from actuators.reply import Refused, Reply, done
from actuators.rewriting import rewrite
from actuators.step import Arguments, Step, arguments_of
from actuators.world import Words, World
from runtime import paths
from runtime.errors import ApiConflict
from runtime.kubernetes import Object
from schemas.commands import Command
from schemas.ids import node_subject
from schemas.wording import counted

HEALS_BY_ITSELF: Final = frozenset({"node/not-ready", "node/unreachable"})
"""Causes that a Ready node refutes: what nobody watched may have cleared since it was seen."""


class NodeArguments(Arguments):
    """As `recovery.holds` sends them."""

    node: str
    node_name: str
    holds: tuple[dict[str, Any], ...] = ()
    runs: tuple[str, ...] = ()
    """Runs that asked for it."""


def find(command: Command, given: NodeArguments, world: World) -> Object:
    """The node the command is for. Only its own mailbox isolates and releases it (finding Q4)."""
    if command.subject != node_subject(given.node):
        raise Refused("bad_subject", f"{command.subject} may not speak for node {given.node}")
    return find_node(given.node_name, given.node, world)


def order_of(command: Command) -> IsolationOrder:
    """Its place among the node's isolations and releases: the mailbox counts them as attempts."""
    return IsolationOrder(command.attempt, command.command)


def need_last(node: Object, order: IsolationOrder) -> None:
    """Raises Refused when a later command isolated or released the node: this one was carried out late."""
    if is_superseded(node, order):
        raise Refused(
            "superseded", f"a later command than {order.sequence} has isolated or released the node"
        )


def need_unwell(node: Object, holds: list[Hold]) -> None:
    """Raises Refused when all that is held against the node is that it was not Ready, and it is now. One isolated already is released."""
    refuted = is_ready(node) and all(hold.cause in HEALS_BY_ITSELF for hold in holds)
    if refuted and not is_isolated(node):
        raise Refused("recovered", "the node is Ready, and nothing else was held against it")


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same."""
    given = arguments_of(NodeArguments, command)
    node = find(command, given, world)
    if not given.holds:
        raise Refused("no_holds", "a node is isolated for a cause")
    holds, order = [hold_of(hold) for hold in given.holds], order_of(command)
    changed, has_place = False, not is_isolated(node)

    def judge(seen: Object) -> Object | None:
        nonlocal changed
        need_last(seen, order)
        if was_undone(seen, order):
            raise Refused("overridden", "isolated by this very command; somebody took our taint off since")
        need_unwell(seen, holds)
        if not has_place and not is_isolated(seen):
            raise ApiConflict("the taint was taken off since, and no place is taken")
        change = isolating(seen, holds)
        changed = change is not None
        return order.signed(seen, change)

    if not is_isolated(node) and judge(node) is not None:
        take_place(Candidate(node, given.runs), world)
    node, written = rewrite(node, paths.nodes(given.node_name), judge, world)
    if written and changed:
        causes = ", ".join(sorted({hold.cause for hold in holds})[:4])
        text = f"Isolated for {causes}: {command.reason}"
        world.voice.say(Words(_named(node), "Isolated", text, key=command.command, warning=True))
    return done(
        effects=(f"{counted(len(holds), 'hold')} on {given.node_name}",) if written and changed else ()
    )


def cancel(command: Command, world: World) -> Reply:
    """Take off what this very command left; the marks of another one are that one's, and what nobody isolated stays as it is."""
    given = arguments_of(NodeArguments, command)
    node = find(command, given, world)

    def judge(seen: Object) -> Object | None:
        return releasing(seen) if last_order(seen) == order_of(command) else None

    _, written = rewrite(node, paths.nodes(given.node_name), judge, world)
    if written:
        Ledger(world).give_back(given.node)
    return done(effects=(f"isolation of {given.node_name} taken back",) if written else ())


def _named(node: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Node", **node}


STEP = Step(begin=act, look=act, cancel=cancel, harms=True)
