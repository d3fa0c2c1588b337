"""Late correction: a hardware fault that was there before an unconditional restart was decided, but was heard of after it.

It gives back the retry and the chain, both recorded, and isolates; it never stops a healthy epoch that runs elsewhere (recovery 1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from recovery import steps
from recovery.cells import INCIDENT_CELL, Charge, IncidentCell, PodCell
from recovery.counters import correct, counters_of
from recovery.journal import decide
from recovery.plan import merge_holds, past_merging
from recovery.turn import Turn
from recovery.verdicts import SOFTWARE_FILTERED, Case
from rules.model import LadderClass
from schemas.records import IncidentState

LATE: Final = (
    "a hardware fault lay before the restart was decided: retry and chain are given back, the node is held"
)


def correct_late(turn: Turn, case: Case) -> bool:
    """True when the fault was handled as a late correction of the last incident."""
    fault = case.fault
    incident = turn.get(INCIDENT_CELL, IncidentCell)
    if fault is None or incident is None or not _is_late(turn, incident, case):
        return False
    correct(turn, incident.charge)
    if lives_on(turn, fault.node.uid):  # given back all the same; what follows is the ladder's
        turn.put(INCIDENT_CELL, replace(incident, charge=Charge()))
        return False
    late = tuple(replace(hold, rule=incident.rule, reason=LATE) for hold in case.holds)
    joined = replace(incident, holds=merge_holds(incident.holds, late), charge=Charge())
    joined = steps.ask_holds(turn, joined)
    turn.put(INCIDENT_CELL, joined)
    decide(
        turn,
        verdict="correct",
        rule=incident.rule,
        row="10",
        reason=LATE,
        domain=case.domain,
        fault=fault,
        flags=("late",),
        incident=joined,
    )
    return True


def _is_late(turn: Turn, incident: IncidentCell, case: Case) -> bool:
    fault = case.fault
    if fault is None or fault.user or fault.clamped or SOFTWARE_FILTERED in case.flags:
        return False
    if not fault.acts and fault.ladder_class is not LadderClass.DEFERRED:
        return False
    rebuilding = incident.state is IncidentState.ACTING and past_merging(incident)
    if not rebuilding and incident.state not in {IncidentState.STABILISING, IncidentState.CLOSED}:
        return False
    if not incident.charge.chain_added or incident.decided_at is None:
        return False
    window = turn.rulebook.settings.late_correction
    return fault.event.time < incident.decided_at and turn.now - incident.decided_at <= window


def is_of_past_issue(turn: Turn, case: Case) -> bool:
    """The fault was seen under pods that were replaced since, on a node where the run lives no more.

    Its node is held by the node's own mailbox; a healthy epoch that runs elsewhere is never stopped for it.
    """
    fault = case.fault
    if fault is None or fault.epoch is None or fault.epoch >= counters_of(turn).schedule_count:
        return False
    return not lives_on(turn, fault.node.uid)


def lives_on(turn: Turn, node_uid: str) -> bool:
    """Some pod of the run is on that node. Walks the pods: for rare events only."""
    return any(
        pod.node.uid == node_uid and not pod.unfenced
        for name in turn.names("pod/")
        if (pod := turn.get(name, PodCell)) is not None
    )
