"""isolate_node: cordon, taint and annotations become what the node's holds say. Moves nobody by itself (recovery 5)."""

from __future__ import annotations

from typing import Any

from actuators.nodes.guards import Candidate, take_place
from actuators.nodes.isolation_marks import (
    hold_of,
    is_isolated,
    isolating,
    releasing,
    was_isolated_by,
    was_undone,
)
from actuators.nodes.node_objects import find_node
from actuators.nodes.reservations import Ledger
from actuators.reply import Refused, Reply, done
from actuators.rewriting import rewrite
from actuators.step import Arguments, Step, arguments_of
from actuators.world import Words, World
from runtime import paths
from runtime.kubernetes import Object
from schemas.commands import Command
from schemas.ids import node_subject


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


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same."""
    given = arguments_of(NodeArguments, command)
    node = find(command, given, world)
    if not given.holds:
        raise Refused("no_holds", "a node is isolated for a cause")
    holds = [hold_of(hold) for hold in given.holds]

    def judge(seen: Object) -> Object | None:
        if was_undone(seen, command.command):
            raise Refused("overridden", "isolated by this very command; somebody took our taint off since")
        return isolating(seen, holds, command.command)

    if not is_isolated(node) and judge(node) is not None:
        take_place(Candidate(node, given.runs), world)
    node, written = rewrite(node, paths.nodes(given.node_name), judge, world)
    if written:
        causes = ", ".join(sorted({hold.cause for hold in holds})[:4])
        text = f"Isolated for {causes}: {command.reason}"
        world.voice.say(Words(_named(node), "Isolated", text, key=command.command, warning=True))
    return done(effects=(f"{len(holds)} holds on {given.node_name}",) if written else ())


def cancel(command: Command, world: World) -> Reply:
    """Take off what this very command left; the marks of another one are that one's, and what nobody isolated stays as it is."""
    given = arguments_of(NodeArguments, command)
    node = find(command, given, world)

    def judge(seen: Object) -> Object | None:
        return releasing(seen) if was_isolated_by(seen, command.command) else None

    _, written = rewrite(node, paths.nodes(given.node_name), judge, world)
    if written:
        Ledger(world).give_back(given.node)
    return done(effects=(f"isolation of {given.node_name} taken back",) if written else ())


def _named(node: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Node", **node}


STEP = Step(begin=act, look=act, cancel=cancel, harms=True)
