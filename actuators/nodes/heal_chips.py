"""heal_chips: a repair order for each reset unit with a faulty chip; the node agent repairs and answers beside it.

Guarantees: nothing is written before every node of the command is known to be the one it names and the stop of this attempt stands on every
pod that lives; no order outlasts that stop, which is renewed while a hold makes the repair longer; an order is written under the node's UID
and version; another run's order is never overwritten while it is under way; only an answer to this very attempt counts. A node that does
not answer is the deadline's matter, not ours: from silence nothing is concluded here. A repair that was not done is refused, once no other is
under way: it says nothing of the chip, so nobody is isolated for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from pydantic import AwareDatetime

from actuators.jobs.run_objects import RunArguments, RunObject, find_run
from actuators.nodes.node_objects import find_node
from actuators.nodes.repair_orders import (
    UNDER_WAY,
    Slot,
    answer_to,
    change_for,
    order_at,
    removal_of,
    slot_of,
)
from actuators.nodes.standing_stop import keep_standing
from actuators.reply import Refused, Reply, done, failed, pending
from actuators.step import Arguments, Step, arguments_of
from actuators.world import Words, World
from runtime import paths
from runtime.errors import ApiConflict, ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import RepairAnswer, RepairOrder
from schemas.commands import Command
from schemas.ids import subject_name
from schemas.wording import counted

LAST_LOOK: Final = timedelta(seconds=10)
"""So shortly before the deadline what is known is told: at the deadline the core takes all nodes for failed."""
NOT_DONE: Final = "not_done"
"""The agent could not carry the order out, or came too late for it."""
CAUSES: Final = ("still_faulty", "failed", "no_tokens", "foreign_process")
"""By weight: the first one that occurs names the outcome, and the nodes on which it occurred."""


class ChipTarget(Arguments):
    """One faulty chip."""

    node: str
    node_name: str
    chip: str
    unit: str
    code: str
    """`namespace/code`."""
    heal: str = "reset"


class HealArguments(RunArguments):
    """As `recovery.steps` sends them."""

    chips: tuple[ChipTarget, ...]
    until: AwareDatetime | None = None
    """So long the processes are to stay stopped; further away each time a hold moves the deadline."""


@dataclass
class NodeRepair:
    """What is asked of one node, and how it stands."""

    node: Object
    orders: list[RepairOrder]
    busy: list[str] = field(default_factory=list)
    answers: dict[str, RepairAnswer | None] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """Identity of the node."""
        return str(self.node["metadata"]["uid"])

    @property
    def path(self) -> str:
        """Where it is read and written."""
        return paths.nodes(str(self.node["metadata"]["name"]))


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same: write what is missing, read what was answered."""
    given = arguments_of(HealArguments, command)
    run = find_run(command, given, world)
    if not given.chips:
        raise Refused("bad_arguments", "no chips are named")
    repairs = _find(command, given, world)
    need_processes_stopped(command, run, repairs, given.until, world)
    if command.action == "begin":
        units = ", ".join(sorted({chip.unit for chip in given.chips})[:4])
        text = (
            f"Repairing {units} on {counted(len(repairs), 'node')}; processes are stopped: {command.reason}"
        )
        world.voice.say(Words(run.job, "HealingChips", text, key=command.command))
    written = sum([_write(repair, world) for repair in repairs])
    effects = (
        (f"{counted(written, 'repair order')} written on {counted(len(repairs), 'node')}",) if written else ()
    )
    return _answer(command, repairs, world, effects)


def need_processes_stopped(
    command: Command, run: RunObject, repairs: list[NodeRepair], until: datetime | None, world: World
) -> None:
    """No order is written, and none outlasts, unless the stop of this very attempt stands on every pod that lives. Raises Refused.

    A stop that ended by itself, while the API was silent say, has let the processes run again: a reset would come under them.
    """
    is_complete = all(
        slot_of(repair.node, order, world.now()) is Slot.OURS for repair in repairs for order in repair.orders
    )
    if is_complete and until is None:
        return
    stop = keep_standing(command, run, until, world)
    if is_complete:  # what is under way is the agent's, and its answer is waited for
        return
    ends = stop.need()
    if ends is None:
        return
    limits = {"until": min(command.deadline, ends), "over_by": ends}
    for repair in repairs:
        repair.orders = [order.model_copy(update=limits) for order in repair.orders]


def cancel(command: Command, world: World) -> Reply:
    """Take off the orders of this attempt the agent has not begun."""
    given = arguments_of(HealArguments, command)
    repairs = _find(command, given, world)
    for repair in repairs:
        mine = [order for order in repair.orders if order_at(repair.node, order.unit) is not None]
        unbegun = [
            order
            for order in mine
            if slot_of(repair.node, order, world.now()) is Slot.OURS and answer_to(repair.node, order) is None
        ]
        if unbegun:
            world.api.merge(repair.node, repair.path, removal_of(unbegun))
    return done()


def orders_of(command: Command, chips: Iterable[ChipTarget]) -> dict[tuple[str, str], list[RepairOrder]]:
    """Orders by (node UID, node name), one a reset unit."""
    by_unit: dict[tuple[str, str, str], list[ChipTarget]] = defaultdict(list)
    for chip in chips:
        by_unit[chip.node, chip.node_name, chip.unit].append(chip)
    orders: dict[tuple[str, str], list[RepairOrder]] = defaultdict(list)
    for (uid, name, unit), targets in sorted(by_unit.items()):
        orders[uid, name].append(
            RepairOrder(
                unit=unit,
                chips=tuple(sorted({target.chip for target in targets})),
                codes=tuple(sorted({target.code.replace("/", ":", 1) for target in targets})),
                incident=command.incident,
                attempt=command.attempt,
                command=command.command,
                run=subject_name(command.subject),
                heal=targets[0].heal,
                until=command.deadline,
            )
        )
    return orders


def _find(command: Command, given: HealArguments, world: World) -> list[NodeRepair]:
    return [
        NodeRepair(find_node(name, uid, world), orders)
        for (uid, name), orders in orders_of(command, given.chips).items()
    ]


def _write(repair: NodeRepair, world: World) -> int:
    """Write the orders that are missing. Raises ApiConflict when the node never stood still."""
    for left in reversed(range(world.settings.retries)):
        slots = {order.unit: slot_of(repair.node, order, world.now()) for order in repair.orders}
        if Slot.SUPERSEDED in slots.values():
            raise Refused("superseded", "a later attempt has written its own orders")
        repair.busy = [unit for unit, slot in slots.items() if slot is Slot.BUSY]
        missing = [order for order in repair.orders if slots[order.unit] is Slot.FREE]
        if not missing:
            return 0
        try:
            repair.node = world.api.merge(repair.node, repair.path, change_for(missing))
        except ApiNotFound:
            raise Refused("node_gone", f"{repair.path} was deleted") from None
        except ApiConflict:
            if not left:
                raise
            repair.node = find_node(repair.node["metadata"]["name"], repair.uid, world)
        else:
            return len(missing)
    return 0


def _answer(command: Command, repairs: list[NodeRepair], world: World, effects: tuple[str, ...]) -> Reply:
    """What the agents' answers come to."""
    open_on: set[str] = set()
    bad: dict[str, set[str]] = defaultdict(set)
    said: list[str] = []
    for repair in repairs:
        for order in repair.orders:
            answer = None if order.unit in repair.busy else answer_to(repair.node, order)
            if answer is None or answer.result == UNDER_WAY:
                open_on.add(repair.uid)
            elif answer.result != "healed":
                bad[answer.result].add(repair.uid)
                said.append(f"{order.unit}: {answer.result} {answer.detail or ''}".strip())
    not_done = bad.pop(NOT_DONE, set())
    last = command.deadline - world.now() <= LAST_LOOK
    if open_on and not ((bad or not_done) and last):
        busy = sorted(unit for repair in repairs for unit in repair.busy)
        cause = "unit_busy" if busy else "repairing"
        return pending(cause, again=world.again, detail=", ".join(busy or said), effects=effects)
    if not bad and not_done:
        if open_on:  # as the deadline would have it, but for the nodes that have answered
            return failed("timeout", detail="; ".join(said), failed_on=tuple(sorted(open_on)))
        raise Refused(NOT_DONE, "; ".join(said))
    if not bad:
        return done(effects=effects)
    cause = next(cause for cause in CAUSES if cause in bad)
    nodes = bad[cause] | (open_on if cause != "foreign_process" else set())
    return failed(cause, detail="; ".join(said), failed_on=tuple(sorted(nodes)))


STEP = Step(begin=act, look=act, cancel=cancel, harms=True)
