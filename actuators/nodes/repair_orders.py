"""Repair orders on a node, and the answers beside them: one annotation each a reset unit (finding Q26). Pure.

An order belongs to a run's incident and attempt. The order of another incident on the same unit is left alone until it is answered or its
time is over; on other units two runs never meet.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import TypeVar

from actuators.nodes.node_objects import annotations_of
from runtime.kubernetes import Object
from schemas.cluster import REPAIR, REPAIRED, RepairAnswer, RepairOrder, Small, unit_key
from schemas.errors import DecodeError

UNDER_WAY = "under_way"
S = TypeVar("S", bound=Small)


class Slot(Enum):
    """What stands where an order is to be written."""

    FREE = "free"
    OURS = "ours"
    BUSY = "busy"
    """Another run's repair of this unit is not over."""
    SUPERSEDED = "superseded"
    """A later attempt of our incident stands there."""


def order_at(node: Object, unit: str) -> RepairOrder | None:
    """The order that stands for a unit; what cannot be read is none."""
    return _read(RepairOrder, annotations_of(node).get(unit_key(REPAIR, unit)))


def answer_to(node: Object, order: RepairOrder) -> RepairAnswer | None:
    """The agent's answer to exactly this order; one to an earlier incident or attempt says nothing."""
    answer = _read(RepairAnswer, annotations_of(node).get(unit_key(REPAIRED, order.unit)))
    if answer is None or (answer.unit, answer.incident, answer.attempt) != (
        order.unit,
        order.incident,
        order.attempt,
    ):
        return None
    return answer


def slot_of(node: Object, order: RepairOrder, now: datetime) -> Slot:
    """Whether the order may be written."""
    stands = order_at(node, order.unit)
    if stands is None:
        return Slot.FREE
    if stands.incident == order.incident:
        if stands.attempt == order.attempt:
            return Slot.OURS
        return Slot.SUPERSEDED if stands.attempt > order.attempt else Slot.FREE
    answer = answer_to(node, stands)
    over = now > stands.until if answer is None else answer.result != UNDER_WAY
    return Slot.FREE if over else Slot.BUSY


def change_for(orders: list[RepairOrder]) -> Object:
    """The patch that writes orders of one node."""
    texts = {unit_key(REPAIR, order.unit): order.to_text() for order in orders}
    return {"metadata": {"annotations": texts}}


def removal_of(orders: list[RepairOrder]) -> Object:
    """The patch that takes them off."""
    return {"metadata": {"annotations": {unit_key(REPAIR, order.unit): None for order in orders}}}


def _read(kind: type[S], text: str | None) -> S | None:
    if text is None:
        return None
    try:
        return kind.from_text(text)
    except DecodeError:
        return None
