"""What operators order of a run: pause, resume, cancel; each is obeyed once, and none that is older than one obeyed before.

Guarantees: an order told again on its way has no second effect, whatever was ordered since; an order that was overtaken has none either, and the
record says so. Told apart by id, ordered by the time at which they were given. That time is believed within what an order may be on its way:
neither does a clock that runs fast make the next operator's order an old one, nor is one of a slow clock old whenever it is given.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from recovery.cells import INCIDENT_CELL, PAUSE_CELL, RUN_CELL, IncidentCell, PauseCell
from recovery.journal import decide
from recovery.plan import close
from recovery.run_state import run_of
from recovery.safe_end import give_up, safe_end
from recovery.standstill import move_again
from recovery.steps import begin
from recovery.turn import Turn
from recovery.verdicts import incident_of
from schemas.mailbox import CancelIncidentOrder, PauseOrder, ResumeOrder
from schemas.records import FaultDomain, IncidentResult, IncidentState

ORDERS_KEPT: Final = 32
"""Ids of the last orders obeyed: by them one is known again, however late it is told again."""
LONGEST_ON_ITS_WAY: Final = timedelta(seconds=30)
"""From being given to being appended: the command line gives up after 20 s. What seems older comes from a clock that is slow."""

RunOrder = PauseOrder | ResumeOrder | CancelIncidentOrder


def order_came(turn: Turn, order: RunOrder) -> None:
    """An operator's order to the run."""
    if not _is_news(turn, order):
        return
    match order:
        case PauseOrder():
            _pause(turn, order)
        case ResumeOrder():
            end_pause(turn)
        case CancelIncidentOrder():
            incident = incident_of(turn)
            if incident is not None:
                end_safely(turn, incident, f"cancelled by {order.by}: {order.reason}")


def end_safely(turn: Turn, incident: IncidentCell, why: str) -> None:
    """End the incident by its shortest safe end; nothing is left to do once the processes run again."""
    if incident.state is IncidentState.STABILISING:
        close(turn, incident, IncidentResult.CANCELLED, why[:60])
        return
    safe_end(turn, incident, why)


def end_pause(turn: Turn) -> None:
    """Unfreeze: deadlines move by the pause, and a step that was not begun begins now."""
    pause = turn.get(PAUSE_CELL, PauseCell)
    if pause is None:
        return
    turn.drop(PAUSE_CELL)
    incident = incident_of(turn)
    if incident is None:
        return
    if incident.state is IncidentState.ACTING and not incident.begun:
        if move_again(turn, incident):
            give_up(turn, incident)
        else:
            begin(turn, incident)
        return
    paused = turn.now - pause.since
    deadline = incident.deadline + paused if incident.deadline else None
    look_at = incident.look_at + paused if incident.look_at else None
    held_since = incident.held_since + paused if incident.held_since else None
    turn.put(
        INCIDENT_CELL,
        replace(incident, deadline=deadline, look_at=look_at, held_since=held_since, due=look_at or deadline),
    )


def _pause(turn: Turn, order: PauseOrder) -> None:
    """Freeze the clocks of the incident; a second order does not move the time it was frozen at."""
    before = turn.get(PAUSE_CELL, PauseCell)
    since = before.since if before else turn.now
    turn.put(PAUSE_CELL, PauseCell(since=since, by=order.by, due=order.until))


def _is_news(turn: Turn, order: RunOrder) -> bool:
    """Whether it is to be obeyed; if so it is remembered. A run that nobody has told us of yet remembers nothing."""
    run = run_of(turn)
    if turn.event.id in run.orders:
        return False
    given: datetime = min(max(turn.event.time, turn.now - LONGEST_ON_ITS_WAY), turn.now)
    if run.ordered_at is not None and given < run.ordered_at:
        _say_overtaken(turn, order, run.ordered_at)
        return False
    if run.known:
        orders = (*run.orders, turn.event.id)[-ORDERS_KEPT:]
        turn.put(RUN_CELL, replace(run, orders=orders, ordered_at=max(given, run.ordered_at or given)))
    return True


def _say_overtaken(turn: Turn, order: RunOrder, by: datetime) -> None:
    decide(
        turn,
        verdict="record",
        rule="overtaken-order",
        row="12",
        reason=f"{order.kind} by {order.by}: given before the order of {by:%H:%M:%S} that was obeyed, so it is not obeyed any more",
        domain=FaultDomain.PROCESS,
        flags=("overtaken",),
    )
