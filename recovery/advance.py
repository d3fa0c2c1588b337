"""The one function that decides: `advance(cells, delivery, rulebook)`."""

from __future__ import annotations

from recovery import node, run
from recovery.cells import INCIDENT_CELL, IncidentCell
from recovery.interface import NOTHING, Advance, Cells, Delivery
from recovery.journal import tell_changed_incident
from recovery.origins import is_duplicate, note_quiet
from recovery.turn import Turn
from rules.compiled import CompiledRulebook
from schemas.ids import NODE, RUN, subject_kind
from schemas.signals import Heartbeat


def advance(cells: Cells, delivery: Delivery, rulebook: CompiledRulebook) -> Advance:
    """Handle one message of one subject's mailbox: changed cells and emits.

    Pure: no clock, no I/O, no randomness; the same arguments give the same result. A message for a kind of subject that has no
    mailbox yet changes nothing.
    """
    if isinstance(delivery.event.data, Heartbeat):
        return NOTHING
    kind = subject_kind(delivery.event.subject)
    if kind not in {RUN, NODE}:
        return NOTHING
    turn = Turn(cells, delivery, rulebook)
    if is_duplicate(turn):
        return NOTHING
    if kind == NODE:
        node.handle(turn)
        return turn.result()
    before = turn.get(INCIDENT_CELL, IncidentCell)
    run.handle(turn)
    tell_changed_incident(turn, before)
    note_quiet(turn)
    return turn.result()
