"""A core whose right answer is easy to see: counts the events of a subject, keeps its last ten, wakes up, tells others, raises on demand.

What an event asks for stands in the `detail` of a chip fault: `quiet` changes nothing, `count` counts, `command` counts and sends a command,
`tell` counts and tells the node, `arm` counts and asks for a tick, `raise` raises, `big` makes a cell above the cap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from recovery.interface import NOTHING, Advance, Cell, Cells, Delivery, Emit
from schemas import topics
from schemas.commands import Command, StepName
from schemas.envelope import Event, Origin, Payload, make_event
from schemas.ids import derive_id, node_subject
from schemas.mailbox import Tick
from schemas.signals import ChipFault, ChipRef, FaultState, NodeRef

LAST = 10
NAP = timedelta(milliseconds=300)
BIG = 300 * 1024


@dataclass(frozen=True)
class ToyCell:
    """Everything of a subject."""

    count: int = 0
    last: tuple[str, ...] = ()
    ticks: int = 0
    due: datetime | None = None
    seen: tuple[tuple[str, int, int, int], ...] = ()
    ballast: str = ""


@dataclass(frozen=True)
class ToyRulebook:
    """Only its hash matters: it is written into commands."""

    hash: str


class ToyCore:
    """See the module."""

    empty = ToyRulebook("none")

    def advance(self, cells: Cells, delivery: Delivery, rulebook: ToyRulebook) -> Advance:
        """Count what is new."""
        cell = cells.get("toy", ToyCell())
        assert isinstance(cell, ToyCell)
        event = delivery.event
        if isinstance(event.data, Tick):
            return self._tick(cell, event.data, delivery)
        if not isinstance(event.data, ChipFault) or event.data.detail == "quiet":
            return NOTHING
        seen = _seen(cell, event.origin_parts)
        if seen is None:
            return NOTHING
        return self._count(replace(cell, seen=seen), event, event.data, delivery, rulebook)

    def encode_cell(self, cell: Cell) -> bytes:
        """JSON."""
        assert isinstance(cell, ToyCell)
        due = None if cell.due is None else cell.due.isoformat()
        return json.dumps([cell.count, cell.last, cell.ticks, due, cell.seen, cell.ballast]).encode()

    def decode_cell(self, raw: bytes) -> Cell:
        """JSON."""
        count, last, ticks, due, seen, ballast = json.loads(raw)
        return ToyCell(
            count=count,
            last=tuple(last),
            ticks=ticks,
            due=None if due is None else datetime.fromisoformat(due),
            seen=tuple((stage, partition, offset, index) for stage, partition, offset, index in seen),
            ballast=ballast,
        )

    def compile_rulebook(self, content: Mapping[str, Any]) -> ToyRulebook:
        """The content names its hash."""
        return ToyRulebook(content["hash"])

    def _tick(self, cell: ToyCell, tick: Tick, delivery: Delivery) -> Advance:
        if cell.due != tick.due or delivery.now < tick.due:
            return NOTHING
        return Advance({"toy": replace(cell, due=None, ticks=cell.ticks + 1)})

    def _count(
        self, cell: ToyCell, event: Event, fault: ChipFault, delivery: Delivery, rulebook: ToyRulebook
    ) -> Advance:
        cell = replace(cell, count=cell.count + 1, last=(*cell.last, event.id)[-LAST:])
        match fault.detail:
            case "raise":
                raise ValueError(f"told to raise by {event.id}")
            case "big":
                return Advance({"toy": replace(cell, ballast="x" * BIG)})
            case "arm":
                return Advance({"toy": replace(cell, due=delivery.now + NAP)})
            case "command":
                return Advance({"toy": cell}, (_command(event, delivery, rulebook),))
            case "tell":
                return Advance({"toy": cell}, (_tell(event, fault, delivery),))
            case _:
                return Advance({"toy": cell})


def fault(detail: str, *, chip: str = "chip-0", node: str = "n-0") -> ChipFault:
    """A chip fault that asks the toy for something."""
    return ChipFault(
        node=NodeRef(uid=node, name=node),
        chip=ChipRef(id=chip),
        namespace="toy",
        code="1",
        state=FaultState.ONCE,
        detail=detail,
    )


def told_node(event_subject: str) -> str:
    """Node that a subject tells."""
    return f"told-by-{event_subject.replace('/', '-')}"


def _seen(cell: ToyCell, origin: Origin | None) -> tuple[tuple[str, int, int, int], ...] | None:
    """Highest origins with this one in; None when it was had already."""
    if origin is None:
        return cell.seen
    highest = {(stage, partition): (offset, index) for stage, partition, offset, index in cell.seen}
    place, order = (origin.stage, origin.partition), (origin.offset, origin.index)
    if highest.get(place, (-1, -1)) >= order:
        return None
    highest[place] = order
    return tuple((*place, *order) for place, order in sorted(highest.items()))


def _emit(topic: topics.Topic, subject: str, data: Payload, event: Event, delivery: Delivery) -> Emit:
    made = make_event(
        data,
        id=derive_id("toy", topic.name, event.cluster, event.subject, event.id),
        source="/clusters/c/toy",
        subject=subject,
        time=delivery.now,
        cluster=event.cluster,
    )
    return Emit(topic.name, subject, made)


def _command(event: Event, delivery: Delivery, rulebook: ToyRulebook) -> Emit:
    command = Command(
        command=derive_id("toy", event.id),
        incident="toy",
        attempt=0,
        step=StepName.NOTIFY,
        index=0,
        subject=event.subject,
        deadline=delivery.now + NAP,
        not_after=delivery.now + NAP,
        reason="toy",
        rulebook=rulebook.hash,
        trigger=event.id,
    )
    return _emit(topics.COMMANDS, event.subject, command, event, delivery)


def _tell(event: Event, heard: ChipFault, delivery: Delivery) -> Emit:
    node = told_node(event.subject)
    data = fault("count", chip=heard.chip.id, node=node)
    return _emit(topics.INBOX, node_subject(node), data, event, delivery)
