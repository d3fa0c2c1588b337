"""Messages of this mailbox were deleted before they were read (design 5): what may rest on them is revalidated.

Nothing is concluded from what was not heard: outcomes and barrier reports may be among what is lost, so actuators are asked again how things
stand, nodes again for their answers, and a silent pod is no fault of its node. Deadlines stay as they were, so nothing waits longer for it.
Commands carry the epoch they are meant for, which actuators check against the world, so none is obeyed by an issue that came meanwhile.
For a day, the longest window, decisions say that their counts may be too low. People are told by the stage, once for the whole partition.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from recovery import steps
from recovery.cells import (
    GAP_CELL,
    INCIDENT_CELL,
    ISOLATION_CELL,
    NODE_CELL,
    PAUSE_CELL,
    GapCell,
    IncidentCell,
    IsolationCell,
    NodeCell,
    PauseCell,
)
from recovery.holds import isolation_due
from recovery.journal import decide
from recovery.run_state import run_of
from recovery.turn import Turn
from recovery.verdicts import incident_of
from schemas.commands import StepName
from schemas.mailbox import PartitionGap
from schemas.records import IncidentState
from schemas.wording import agreeing, counted

DOUBTED: Final = timedelta(hours=24)
"""How long counts may be too low: the longest window of the default rulebook (recovery 3)."""


def run_lost_messages(turn: Turn, gap: PartitionGap) -> None:
    """A run: ask again what its open incident waits for."""
    run = run_of(turn)
    if not run.known or run.ended:
        return
    _doubt(turn)
    incident = incident_of(turn)
    if incident is None:
        return
    lost = gap.first_kept - gap.first_lost
    decide(
        turn,
        verdict="revalidate",
        rule="partition-gap",
        row="",
        reason=f"{counted(lost, 'message')} of the partition {agreeing(lost, 'is', 'are')} lost; what the incident waits for is asked again",
        domain=incident.domain,
        incident=incident,
    )
    waits = incident.state is IncidentState.ACTING and incident.begun and incident.step is not None
    if waits and turn.get(PAUSE_CELL, PauseCell) is None:
        _ask_again(turn, incident)


def _ask_again(turn: Turn, incident: IncidentCell) -> None:
    step = incident.step
    if step is None or step.step is not StepName.ISOLATE_NODE:
        steps.look(turn, incident)
        return
    holds = tuple(replace(hold, state="wanted") if hold.state == "asked" else hold for hold in incident.holds)
    turn.put(INCIDENT_CELL, steps.ask_holds(turn, replace(incident, holds=holds)))


def node_lost_messages(turn: Turn) -> None:
    """A node: ask again how its isolation or release stands."""
    node = turn.get(NODE_CELL, NodeCell)
    if node is None or node.gone:
        return
    _doubt(turn)
    cell = turn.get(ISOLATION_CELL, IsolationCell)
    if cell is not None and cell.pending and turn.now < cell.deadline:
        isolation_due(turn, cell)


def _doubt(turn: Turn) -> None:
    turn.put(GAP_CELL, GapCell(since=turn.now, due=turn.after(DOUBTED)))
