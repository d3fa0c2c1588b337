"""What counts as an occurrence, and the sliding windows that count them (recovery 3).

Edges, not levels: a standing fault reported again is the same occurrence until it is seen clear or a recovery completed since; an event
already seen never counts twice. Windows run on event time, closed at both ends. An occurrence that comes late is judged by those before it,
and so are later ones that came first and whose windows it completes: see `slide` for what holds whatever the order of arrival.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from recovery.cells import (
    BURST_KEPT,
    SEEN_KEPT,
    BurstCell,
    BurstItem,
    ChipCell,
    FaultCell,
    WindowCell,
    burst_name,
    chip_name,
    fault_name,
    place_name,
)
from recovery.classification import Fault
from recovery.turn import Turn
from rules.compiled import CompiledRule
from rules.model import Count, CountBy

FAULT_KEPT = timedelta(hours=24)
LATE_AT_MOST = timedelta(hours=24)
"""How far behind the newest of its key an occurrence still counts fully: the router clamps what is older than the longest window (design 5)."""
WINDOW_CAP = 1024


@dataclass(frozen=True, slots=True)
class Hit:
    """Result of observing one occurrence in one window."""

    count: int
    fired: bool
    needed: int = 0
    """How many make it fire."""


def place_of(fault: Fault) -> str:
    """Place of a fault: `node/chip`, or `node/-`."""
    return place_name(fault.node.uid, fault.chip.id if fault.chip else None)


def observe_edge(turn: Turn, fault: Fault, recovered_at: datetime | None) -> bool:
    """Note the report; True when it is a new occurrence, False for repeats, refreshes and clears."""
    name = fault_name(place_of(fault), fault.namespace, fault.code)
    cell = turn.get(name, FaultCell) or FaultCell()
    if fault.evidence in cell.seen:
        return False
    at = fault.event.time
    seen = (*cell.seen, fault.evidence)[-SEEN_KEPT:]
    kept = replace(cell, last_at=at, seen=seen, due=turn.after(FAULT_KEPT))
    if fault.state == "cleared":
        turn.put(name, replace(kept, last_at=cell.last_at, standing=False))
        return False
    if fault.state == "asserted":
        stands = cell.standing and not _recovered_since(cell, recovered_at)
        turn.put(name, replace(kept, standing=True, asserted_at=cell.asserted_at if stands else turn.now))
        return not stands
    turn.put(name, kept)
    return True


def _recovered_since(cell: FaultCell, recovered_at: datetime | None) -> bool:
    return recovered_at is not None and cell.asserted_at is not None and recovered_at > cell.asserted_at


def expire_fault(turn: Turn, name: str) -> None:
    """Forget a fault a day after its last report, unless it stands."""
    cell = turn.get(name, FaultCell)
    if cell is None:
        return
    if cell.standing:  # stays until it is seen clear, or its subject ends
        turn.put(name, replace(cell, due=None))
        return
    turn.drop(name)


def observe_window(turn: Turn, compiled: CompiledRule, fault: Fault) -> tuple[str, Hit]:
    """Count the fault in the rule's window; the name of the window's cell and what came of it."""
    count = _count_of(compiled, fault)
    name = window_name(compiled, fault)
    cell = turn.get(name, WindowCell) or WindowCell()
    if count.mode == "strict" and _row_is_broken(turn, fault):
        cell = WindowCell()
    at = fault.event.time
    if _is_folded((*cell.times, *((cell.anchor,) if cell.anchor else ())), at, count.fold):
        inside = bisect_right(cell.times, at) - bisect_left(cell.times, at - count.within)
        return name, Hit(inside, fired=False, needed=count.at_least)
    times, hit = slide(cell.times, at, count)
    anchor = at if hit.fired and count.fold else None
    if not times and anchor is None:
        turn.drop(name)
    else:
        turn.put(name, WindowCell(times, anchor=anchor, due=turn.after(count.within + LATE_AT_MOST)))
    return name, hit


def _count_of(compiled: CompiledRule, fault: Fault) -> Count:
    """The rule's numbers, or those of the code's own table where the rule takes them."""
    count = compiled.rule.count
    if count is None:
        raise ValueError(f"rule {compiled.rule.id!r} counts nothing")
    if not count.from_table or fault.repeat is None:
        return count
    return count.model_copy(update={"at_least": fault.repeat.at_least, "within": fault.repeat.within})


def _is_folded(anchors: tuple[datetime, ...], at: datetime, fold: timedelta) -> bool:
    """Within the fold after an earlier occurrence: the same one, anchored to the first (recovery 3)."""
    return bool(fold) and any(timedelta(0) <= at - anchor <= fold for anchor in anchors)


def slide(times: tuple[datetime, ...], at: datetime, count: Count) -> tuple[tuple[datetime, ...], Hit]:
    """Add an occurrence to a window and judge it: the times kept, and (count, fired).

    The window of an occurrence is `[its time - within, its time]`, itself included; it is complete with `at_least` in it (seed 000: 3 times
    in 24 h, the third fires). An occurrence fires when it makes a window complete that was not: its own, or that of a later one that came
    first. `reset` then forgets all up to the occurrence whose window was complete; with several, the earliest.

    What holds for the same set of occurrences in any order of arrival, none more than LATE_AT_MOST behind the newest before it, and no
    more than WINDOW_CAP of them within reach:

    - For both, whether the count has fired by the end does not depend on the order: it has if some window of the set is complete.
    - For both, the number of firings is at most that of the same set in order of time. Which occurrence fires is decided by the order of
      arrival.
    - For `reset`, no occurrence takes part in two firings: n of them fire at most n / at_least times.

    A fold and `mode: strict` look at what came before, so with them the order of arrival does matter.
    """
    joined = list(times)
    insort(joined, at)
    own = bisect_right(joined, at) - 1
    number = _inside(joined, own, count.within)
    complete = own if number >= count.at_least else None
    if complete is None:
        complete = _completed_later(joined, own, count)
    if complete is None:
        return _kept(joined, count.within), Hit(number, fired=False, needed=count.at_least)
    forgotten = bisect_right(joined, joined[complete]) if count.after_fire == "reset" else 0
    left = joined[forgotten:]
    return _kept(left, count.within), Hit(
        _inside(joined, complete, count.within), fired=True, needed=count.at_least
    )


def _completed_later(joined: list[datetime], own: int, count: Count) -> int | None:
    """Place of the first later occurrence whose window the one at `own` has just made complete."""
    until = joined[own] + count.within
    for place in range(own + 1, len(joined)):
        if joined[place] > until:
            return None
        if _inside(joined, place, count.within) == count.at_least:
            return place
    return None


def _inside(joined: list[datetime], place: int, within: timedelta) -> int:
    """How many occurrences the window of the one at `place` holds, those of the same time included."""
    return bisect_right(joined, joined[place]) - bisect_left(joined, joined[place] - within)


def _kept(joined: list[datetime], within: timedelta) -> tuple[datetime, ...]:
    """What a late occurrence may still need: the windows of all that can come."""
    if not joined:
        return ()
    return tuple(joined[bisect_left(joined, joined[-1] - within - LATE_AT_MOST) :][-WINDOW_CAP:])


def _row_is_broken(turn: Turn, fault: Fault) -> bool:
    chip = turn.get(chip_name(place_of(fault)), ChipCell)
    return chip is not None and chip.last_code not in {"", code_key(fault)}


def code_key(fault: Fault) -> str:
    """`namespace/code`."""
    return f"{fault.namespace}/{fault.code}"


def note_code(turn: Turn, fault: Fault) -> None:
    """Remember the last code of the chip, for `mode: strict`."""
    if fault.chip is None:
        return
    name = chip_name(place_of(fault))
    chip = turn.get(name, ChipCell) or ChipCell()
    turn.put(name, replace(chip, last_code=code_key(fault), due=chip.due or turn.after(FAULT_KEPT)))


def window_name(compiled: CompiledRule, fault: Fault) -> str:
    """Name of the cell of a rule's window for this fault's key."""
    count = compiled.rule.count
    by = count.by if count else ()
    parts = {
        CountBy.NODE: fault.node.uid,
        CountBy.CHIP: fault.chip.id if fault.chip else "-",
        CountBy.CODE: code_key(fault),
    }
    return "/".join(["window", compiled.rule.id, *(parts[key] for key in by if key is not CountBy.RUN)])


def software_filter(turn: Turn, fault: Fault) -> tuple[bool, bool]:
    """(kept out of the count, one of this code was kept out before).

    The same code on several chips of one run in a short time looks like software: these occurrences, the earlier ones included, leave
    the windows of self-heal class counts. It never lowers an isolate-class fault and does not know codes that reach beyond a chip.
    """
    limits = turn.rulebook.settings.software_filter
    if not limits.chips or not fault.self_heals or fault.scope in limits.exempt_scopes:
        return False, False
    name = burst_name(fault.namespace, fault.code)
    cell = turn.get(name, BurstCell) or BurstCell()
    at, place = fault.event.time, place_of(fault)
    near = tuple(item for item in cell.items if abs(item.at - at) <= limits.within)
    again = cell.filtered_at is not None and timedelta(0) <= at - cell.filtered_at <= limits.memory
    filtered = len({item.place for item in near} | {place}) >= limits.chips
    if filtered:
        for item in near:
            _withdraw(turn, item)
    came_again = again and not _same_burst(cell, at, limits.within)
    turn.put(
        name,
        BurstCell(
            items=(*near, BurstItem(at, place, ()))[-BURST_KEPT:],
            filtered_at=at if filtered else cell.filtered_at,
            due=turn.after(limits.memory),
        ),
    )
    return filtered, came_again


def _same_burst(cell: BurstCell, at: datetime, within: timedelta) -> bool:
    return cell.filtered_at is not None and abs(at - cell.filtered_at) <= within


def _withdraw(turn: Turn, item: BurstItem) -> None:
    for name in item.windows:
        window = turn.get(name, WindowCell)
        if window is None or item.at not in window.times:
            continue
        left = list(window.times)
        left.remove(item.at)
        if left:
            turn.put(name, replace(window, times=tuple(left)))
        else:
            turn.drop(name)


def note_windows(turn: Turn, fault: Fault, windows: tuple[str, ...]) -> None:
    """Remember in which windows the newest occurrence of a burst was counted, should it have to leave them again."""
    name = burst_name(fault.namespace, fault.code)
    cell = turn.get(name, BurstCell)
    if cell is None or not cell.items or not windows:
        return
    last = replace(cell.items[-1], windows=windows)
    turn.put(name, replace(cell, items=(*cell.items[:-1], last)))


def companion_state(turn: Turn, fault: Fault) -> str:
    """`none`; `drop`: the fault it accompanies came within its time; `wait`: it may still come (research 1.6)."""
    if fault.row is None or not fault.row.companion_of:
        return "none"
    code, _, seconds = fault.row.companion_of.partition("/")
    within = timedelta(seconds=float(seconds.removesuffix("s")))
    leader = turn.get(fault_name(place_of(fault), fault.namespace, code), FaultCell)
    if leader is not None and leader.last_at is not None and abs(leader.last_at - fault.event.time) <= within:
        return "drop"
    return "wait"


def companion_wait(fault: Fault) -> timedelta:
    """How long a companion fault is held for the one it accompanies."""
    seconds = fault.row.companion_of.partition("/")[2] if fault.row else "0s"
    return timedelta(seconds=float(seconds.removesuffix("s")))
