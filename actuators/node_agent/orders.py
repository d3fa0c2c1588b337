"""What to do about a repair order: pure.

Guarantees: an order (unit, incident, attempt) is reset at most once, never past its `until`, never while anybody's process is on the unit, never
beyond what the node may take. Where the past is not known - killed in the middle, journal lost - nothing is reset any more: it is only looked
whether the codes still stand, and that is the answer. `failed` isolates the node: it is said where something done to the chip went wrong.
An order that comes too late, or cannot be carried out here, is `not_done`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from runtime.kubernetes import Object
from schemas.cluster import REPAIR, REPAIRED, RepairAnswer, RepairOrder, unit_key
from schemas.errors import DecodeError
from schemas.wording import counted

RESET: Final = "reset"
"""`heal` of a code table; anything else heals by waiting."""
LARGEST_ORDER: Final = 16_384
KILLED_BEFORE: Final = timedelta(seconds=5)
"""So long before an order's `over_by` its command is killed: killing takes a moment."""
_PLAIN: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,252}$")

Result = Literal["healed", "still_faulty", "foreign_process", "no_tokens", "failed", "not_done"]
Key = tuple[str, str, int]


class Stage(StrEnum):
    """How far an order has come, as the journal has it."""

    CLAIMED = "claimed"
    """Nothing has happened to the chip."""
    BEGUN = "begun"
    """The command was about to be started, or has been."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of an order."""

    result: Result
    detail: str = ""
    codes_left: tuple[str, ...] = ()


class Next(StrEnum):
    """What to do about an order now."""

    REPAIR = "repair"
    LOOK_ONLY = "look_only"
    """Never reset again: say whether the codes stand."""
    ANSWER_AGAIN = "answer_again"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process on a device of the unit."""

    pid: int
    name: str
    run: str | None
    """None: of no run, or of nobody we know."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A reset unit of this node."""

    name: str
    chips: tuple[str, ...]
    devices: tuple[str, ...]


def key_of(order: RepairOrder | RepairAnswer) -> Key:
    """What makes an order one."""
    return (order.unit, order.incident, order.attempt)


def orders_of(node: Object) -> tuple[dict[str, RepairOrder], list[str]]:
    """Orders that stand on the node by unit, and what is wrong with the rest. An order under another unit's key is none."""
    annotations: Mapping[str, str] = node["metadata"].get("annotations") or {}
    found: dict[str, RepairOrder] = {}
    wrong: list[str] = []
    for name, text in annotations.items():
        if not name.startswith(REPAIR):
            continue
        try:
            if len(text) > LARGEST_ORDER:
                raise DecodeError(f"{len(text)} characters; at most {LARGEST_ORDER} are read")  # noqa: TRY301 - one way out
            order = RepairOrder.from_text(text)
        except DecodeError as error:
            wrong.append(f"{name}: {error}")
            continue
        if unit_key(REPAIR, order.unit) != name:
            wrong.append(f"{name}: it is about unit {order.unit!r}")
        else:
            found[order.unit] = order
    return found, wrong


def answer_on(node: Object, order: RepairOrder) -> RepairAnswer | None:
    """Our answer to exactly this order."""
    text = (node["metadata"].get("annotations") or {}).get(unit_key(REPAIRED, order.unit))
    if text is None:
        return None
    try:
        answer = RepairAnswer.from_text(text)
    except DecodeError:
        return None
    return answer if key_of(answer) == key_of(order) else None


def what_now(answer: RepairAnswer | None, stage: Stage | None) -> Next:
    """From what stands on the node and in the journal."""
    said = None if answer is None else answer.result
    if stage is Stage.DONE:
        return Next.ANSWER_AGAIN if said in (None, "under_way") else Next.NOTHING
    if said not in (None, "under_way"):
        return Next.NOTHING  # answered; the journal was lost since
    if stage is Stage.BEGUN or (stage is None and said == "under_way"):
        return Next.LOOK_ONLY
    return Next.REPAIR


def refused(order: RepairOrder, now: datetime, command: Sequence[str]) -> Ending | None:
    """Why an order cannot be carried out at all, before anything is looked at."""
    strange = [name for name in (order.unit, *order.chips) if not _PLAIN.match(name)]
    if strange:
        return Ending("not_done", f"{strange[0]!r:.80} is no name a command may be given")
    if now >= order.until:
        return Ending("not_done", f"too late: {order.until.isoformat()} has passed")
    if order.heal == RESET and not command:
        return Ending("not_done", "this node has no repair command; right would be RELIGHT_REPAIR__COMMAND")
    return None


def time_for(order: RepairOrder, now: datetime, timeout: timedelta) -> timedelta | None:
    """How long the reset may take: over before the run's processes may run again. None: there is no time for one."""
    if order.over_by is None:
        return timeout
    left = order.over_by - KILLED_BEFORE - now
    return min(timeout, left) if left > timedelta(0) else None


def in_the_way(order: RepairOrder, holders: Iterable[Holder]) -> Ending | None:
    """Whose processes forbid a reset; None when the unit is free."""
    there = list(holders)
    foreign = [holder for holder in there if holder.run != order.run]
    if foreign:
        return Ending("foreign_process", _told(foreign))
    if there:
        return Ending("not_done", f"processes of the run still hold the unit: {_told(there)}")
    return None


def no_tokens(
    unit: Unit,
    resets: Iterable[tuple[datetime, Sequence[str]]],
    now: datetime,
    *,
    window: timedelta,
    per_chip: int,
    per_node: int,
) -> Ending | None:
    """Whether the chips of the unit, or the node, had as many resets lately as they may."""
    recent = [chips for at, chips in resets if now - window < at]
    if len(recent) >= per_node:
        return Ending("no_tokens", f"{counted(len(recent), 'reset')} on this node within {window}")
    for chip in unit.chips:
        count = sum(chip in chips for chips in recent)
        if count >= per_chip:
            return Ending("no_tokens", f"{counted(count, 'reset')} of chip {chip} within {window}")
    return None


def codes_left(order: RepairOrder, standing: Iterable[str]) -> tuple[str, ...]:
    """Codes of the order that still stand; all that stand where it names none. A check may leave out the namespace."""
    there = {code.strip() for code in standing if code.strip()}
    if not order.codes:
        return tuple(sorted(there))
    return tuple(code for code in order.codes if code in there or code.partition(":")[2] in there)


def _told(holders: Sequence[Holder]) -> str:
    return ", ".join(f"{holder.name} ({holder.pid})" for holder in holders[:4])
