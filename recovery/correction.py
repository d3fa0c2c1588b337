"""Late correction: a hardware fault that was there before an unconditional restart was decided, but was heard of after it.

It gives back the retry and the chain, both recorded, and isolates; it never stops a healthy epoch that runs elsewhere (recovery 1).
"""

from __future__ import annotations

from dataclasses import replace

from recovery import steps
from recovery.cells import INCIDENT_CELL, Charge, IncidentCell, PodCell
from recovery.counters import correct
from recovery.journal import decide
from recovery.plan import merge_holds
from recovery.turn import Turn
from recovery.verdicts import Case
from schemas.records import IncidentState


def correct_late(turn: Turn, case: Case) -> bool:
    """True when the fault was handled as a late correction of the last incident."""
    fault = case.fault
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    if fault is None or incident is None or not _is_late(turn, incident, case):
        return False
    if lives_on(turn, fault.node.uid):
        return False
    correct(turn, incident.charge)
    joined = replace(incident, holds=merge_holds(incident.holds, case.holds), charge=Charge())
    joined = steps.ask_holds(turn, joined)
    turn.put(INCIDENT_CELL, joined)
    decide(
        turn,
        verdict="correct",
        rule=incident.rule,
        row="10",
        reason="a hardware fault lay before the restart was decided: retry and chain are given back, the node is held",
        domain=case.domain,
        fault=fault,
        flags=("late",),
        incident=joined,
    )
    return True


def _is_late(turn: Turn, incident: IncidentCell, case: Case) -> bool:
    fault = case.fault
    if fault is None or fault.user or not fault.acts or fault.clamped:
        return False
    if incident.state not in {IncidentState.STABILISING, IncidentState.CLOSED}:
        return False
    if not incident.charge.chain_added or incident.decided_at is None:
        return False
    window = turn.rulebook.settings.late_correction
    return fault.event.time < incident.decided_at and turn.now - incident.decided_at <= window


def lives_on(turn: Turn, node_uid: str) -> bool:
    """Some pod of the run is on that node. Walks the pods: for rare events only."""
    return any(
        pod.node.uid == node_uid
        for name in turn.names("pod/")
        if (pod := turn.get(name, PodCell)) is not None
    )
