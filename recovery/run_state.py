"""What the facts say of a run at this moment."""

from __future__ import annotations

from dataclasses import replace

from recovery.cells import EVIDENCE_CELL, EVIDENCE_KEPT, RUN_CELL, EvidenceCell, EvidenceItem, RunCell
from recovery.classification import NODE_NAMESPACE, Fault
from recovery.counters import counters_of
from recovery.turn import Turn
from rules.model import FaultOrigin, LadderClass
from rules.symbols import FoundSymbols
from schemas.ids import subject_name
from schemas.signals import ChipRef, NodeRef

_WEIGHT = {
    LadderClass.RECORD: 0,
    LadderClass.SELF_HEAL_WAIT: 1,
    LadderClass.SELF_HEAL_RESET: 1,
    LadderClass.DEFERRED: 2,
    LadderClass.ISOLATE: 3,
}


def run_of(turn: Turn) -> RunCell:
    """The run's cell; an unknown run where no fact came yet."""
    return turn.get(RUN_CELL, RunCell) or RunCell(run=subject_name(turn.subject))


def all_pods(run: RunCell) -> bool:
    """Every pod of the issue exists."""
    return run.known and run.pods >= run.size and not run.incomplete


def nodes_ready(turn: Turn) -> bool:
    """No isolate-class condition of a node stands under the run."""
    return not any(
        item.standing and item.namespace == NODE_NAMESPACE and item.ladder_class is LadderClass.ISOLATE
        for item in present_evidence(turn)
    )


def present_evidence(turn: Turn) -> tuple[EvidenceItem, ...]:
    """Faults of the present issue."""
    epoch = counters_of(turn).schedule_count
    cell = turn.get(EVIDENCE_CELL, EvidenceCell)
    return tuple(item for item in cell.items if item.epoch == epoch) if cell else ()


def note_evidence(turn: Turn, fault: Fault) -> None:
    """Keep a fault that could explain an abnormal end; the most severe and newest stay when there are too many."""
    if fault.ladder_class is None or fault.ladder_class is LadderClass.RECORD:
        return
    cell = turn.get(EVIDENCE_CELL, EvidenceCell) or EvidenceCell()
    item = EvidenceItem(
        event=fault.evidence,
        at=fault.event.time,
        namespace=fault.namespace,
        code=fault.code,
        ladder_class=fault.ladder_class,
        origin=fault.origin,
        node=fault.node,
        chip=fault.chip,
        epoch=fault.epoch or counters_of(turn).schedule_count,
        standing=fault.state == "asserted",
    )
    others = [old for old in cell.items if not _same_place(old, fault) or old.code != fault.code]
    ranked = sorted((*others, item), key=lambda kept: (kept.standing, _WEIGHT[kept.ladder_class], kept.at))
    turn.put(EVIDENCE_CELL, replace(cell, items=tuple(ranked[-EVIDENCE_KEPT:])))


def clear_evidence(turn: Turn, fault: Fault) -> None:
    """The fault was seen clear: it stands no more, but still lies in the past."""
    cell = turn.get(EVIDENCE_CELL, EvidenceCell)
    if cell is None:
        return
    items = tuple(
        replace(item, standing=False) if _same_place(item, fault) and item.code == fault.code else item
        for item in cell.items
    )
    turn.put(EVIDENCE_CELL, replace(cell, items=items))


def handle_evidence(turn: Turn, healed: frozenset[tuple[str, str, str, str]]) -> None:
    """These faults, (node, chip, namespace, code), were healed: they explain no later end."""
    cell = turn.get(EVIDENCE_CELL, EvidenceCell)
    if cell is None:
        return
    items = tuple(
        replace(item, handled=True, standing=False)
        if (item.node.uid, item.chip.id if item.chip else "", item.namespace, item.code) in healed
        else item
        for item in cell.items
    )
    turn.put(EVIDENCE_CELL, replace(cell, items=items))


def _same_place(item: EvidenceItem, fault: Fault) -> bool:
    here: ChipRef | None = fault.chip
    chip_matches = (item.chip.id if item.chip else None) == (here.id if here else None)
    return item.node.uid == fault.node.uid and chip_matches and item.namespace == fault.namespace


def unhandled(turn: Turn) -> tuple[EvidenceItem, ...]:
    """Faults that explain an end at this moment: not dealt with, standing or recent enough."""
    lookback = turn.rulebook.settings.attribution_lookback
    return tuple(
        item
        for item in present_evidence(turn)
        if not item.handled and (item.standing or turn.now - item.at <= lookback)
    )


def is_hardware(item: EvidenceItem) -> bool:
    """Neither plain user class nor kept out by the software filter."""
    return item.origin is not FaultOrigin.USER and not item.filtered


def mark_filtered(turn: Turn, fault: Fault) -> None:
    """The software filter matched: the evidence of this code within its time is no hardware."""
    cell = turn.get(EVIDENCE_CELL, EvidenceCell)
    if cell is None:
        return
    within = turn.rulebook.settings.software_filter.within
    items = tuple(
        replace(item, filtered=True)
        if (item.namespace, item.code) == (fault.namespace, fault.code)
        and abs(item.at - fault.event.time) <= within
        else item
        for item in cell.items
    )
    turn.put(EVIDENCE_CELL, replace(cell, items=items))


def explaining(turn: Turn, node: NodeRef | None = None) -> tuple[EvidenceItem, ...]:
    """Faults whose nodes are to be held when the run ended abnormally: the most severe kind that was found."""
    items = [item for item in unhandled(turn) if node is None or item.node.uid == node.uid]
    hard = tuple(item for item in items if _WEIGHT[item.ladder_class] > 1)
    return hard or tuple(item for item in items if _WEIGHT[item.ladder_class] == 1 and is_hardware(item))


def found(turn: Turn, *, node: NodeRef | None = None) -> FoundSymbols:
    """The `found` group of conditions; with a node, only what was found there."""
    items = [item for item in unhandled(turn) if node is None or item.node.uid == node.uid]
    classes = {item.ladder_class for item in items}
    healing = [item for item in items if _WEIGHT[item.ladder_class] == 1]
    hard = any(is_hardware(item) for item in healing)
    user = bool(healing)
    return FoundSymbols(
        isolate=LadderClass.ISOLATE in classes,
        deferred=LadderClass.DEFERRED in classes,
        hardware=hard,
        user=user and not hard,
    )
