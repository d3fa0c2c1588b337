"""Is the run as fast again as before the fault? Judged by the steps of its lowest rank (recovery 8).

Stable is a number of steps in a row within a share of the median of the last steps before the fault. Steps of the time between the fault and
the restart count for neither: what is slow because it is about to break is no baseline. A run without a baseline is never said to be stable
by this; a trainer may say so itself.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Final

from recovery.cells import PACE_CELL, IncidentCell, PaceCell
from recovery.turn import Turn
from schemas.records import IncidentState
from schemas.signals import Progress

ROUNDING: Final = 1 + 1e-9
"""1.1 is within 10 % of 1.0, whatever binary fractions say."""


def note_pace(turn: Turn, data: Progress, incident: IncidentCell | None) -> bool:
    """Take the duration of a step down; True when the run has become stable by it."""
    if data.step_seconds is None:
        return False
    rank = data.placement.rank or 0
    pace = turn.get(PACE_CELL, PaceCell)
    if pace is None or rank < pace.rank:
        pace = PaceCell(rank)
    elif rank > pace.rank:
        return False
    wanted = turn.rulebook.settings.stabilising
    if incident is None:
        before = (*pace.before, data.step_seconds)[-wanted.of_last :]
        turn.put(PACE_CELL, replace(pace, before=before, since=()))
        return False
    if incident.state is not IncidentState.STABILISING:
        return False
    since = (*pace.since, data.step_seconds)[-wanted.steps :]
    turn.put(PACE_CELL, replace(pace, since=since))
    if not pace.before or len(since) < wanted.steps:
        return False
    usual = median(pace.before)
    return all(abs(step - usual) <= wanted.within * usual * ROUNDING for step in since)


def restarted(turn: Turn) -> None:
    """The run begins anew: steps of an earlier try say nothing about this one."""
    pace = turn.get(PACE_CELL, PaceCell)
    if pace is not None and pace.since:
        turn.put(PACE_CELL, replace(pace, since=()))
