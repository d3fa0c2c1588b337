"""An operator's order is obeyed once, and not when a later one was obeyed before it came (never act on old news)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery import Cell
from recovery.cells import OriginCell
from schemas.envelope import Event
from schemas.ids import node_subject, run_subject
from schemas.mailbox import CancelIncidentOrder, Order, PauseOrder, ResumeOrder
from schemas.records import IncidentResult, IncidentState
from tests.recovery.world import BROKEN, HBM, World

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
IN_PLACE = ["stop_processes", "heal_chips", "start_processes"]
PAUSE = PauseOrder(by="ann", reason="look")
RESUME = ResumeOrder(by="ann", reason="seen")


def world() -> World:
    return World().begin(job_retry_num="5")


def give(running: World, order: Order, *, ago: timedelta = timedelta(0)) -> Event:
    given = running.post(run_subject(running.run), order, time=running.now - ago)
    running.settle(SECOND)
    return given


def tell_again(running: World, order: Event) -> None:
    """The same event once more, as a message of its own."""
    running.post(order.subject, order.data, id=order.id, time=order.time)
    running.settle(SECOND)


def acts(running: World) -> bool:
    """Whether a fault that comes now is acted on."""
    running.fault(HBM)
    running.settle(MINUTE)
    return running.begun() == IN_PLACE


def what_the_node_is(running: World) -> dict[str, Cell]:
    """Its cells, but for how far its mailbox was read."""
    return {
        name: cell
        for name, cell in running.cells[node_subject("n1")].items()
        if not isinstance(cell, OriginCell)
    }


@pytest.mark.parametrize("later", [SECOND, timedelta(hours=3)])
def test_a_pause_that_is_told_again_after_the_resume_pauses_no_more(later: timedelta) -> None:
    running = world()
    pause = give(running, PAUSE)
    give(running, RESUME)
    running.settle(later)
    tell_again(running, pause)
    assert acts(running)
    assert "overtaken-order" not in running.rules(), "a repetition is not worth a word"


def test_a_pause_that_is_told_again_after_it_ended_by_itself_pauses_no_more() -> None:
    running = world()
    pause = give(running, PauseOrder(by="ann", reason="look", until=running.now + MINUTE))
    running.settle(2 * MINUTE)
    tell_again(running, pause)
    assert acts(running)


def test_a_resume_that_is_told_again_does_not_end_the_next_pause() -> None:
    running = world()
    give(running, PAUSE)
    resume = give(running, RESUME)
    give(running, PauseOrder(by="bob", reason="mine"))
    tell_again(running, resume)
    assert not acts(running)


def test_a_cancel_that_is_told_again_does_not_end_the_next_incident() -> None:
    running = world()
    running.fault(HBM)
    running.settle(MINUTE)
    cancel = give(running, CancelIncidentOrder(by="ann", reason="no"))
    assert running.incident is not None
    assert running.incident.result is IncidentResult.CANCELLED
    running.fault(HBM, on="n2")
    running.settle(MINUTE)
    tell_again(running, cancel)
    assert running.incident.state is IncidentState.STABILISING


def test_an_order_that_was_overtaken_on_its_way_is_not_obeyed_and_the_record_says_so() -> None:
    running = world()
    running.settle(MINUTE)
    give(running, RESUME)
    give(running, PAUSE, ago=30 * SECOND)
    assert running.rules()[-1] == "overtaken-order"
    assert "ann" in running.decisions[-1].reason
    assert acts(running)


def test_a_clock_that_runs_fast_does_not_make_the_next_order_an_old_one() -> None:
    running = world()
    give(running, PAUSE, ago=timedelta(hours=-1))
    give(running, RESUME)
    assert acts(running)


def test_a_clock_that_runs_slow_does_not_make_the_next_operator_s_order_an_old_one() -> None:
    running = world()
    running.fault(HBM)
    running.settle(MINUTE)
    give(running, PAUSE)
    running.settle(MINUTE)
    give(running, CancelIncidentOrder(by="bob", reason="no"), ago=5 * MINUTE)
    assert running.incident is not None
    assert running.incident.result is IncidentResult.CANCELLED
    running.settle(MINUTE)
    give(running, RESUME, ago=timedelta(days=1))
    assert "overtaken-order" not in running.rules()
    running.fault(HBM, on="n2")
    running.settle(MINUTE)
    assert running.incident.state is IncidentState.STABILISING


def test_a_pause_that_is_told_again_after_many_other_orders_pauses_no_more() -> None:
    running = world()
    pause = give(running, PAUSE)
    for _ in range(5):
        give(running, RESUME)
        give(running, PAUSE)
    give(running, RESUME)
    running.settle(timedelta(hours=3))
    tell_again(running, pause)
    assert acts(running)


@pytest.mark.parametrize("order", [PAUSE, CancelIncidentOrder(by="ann", reason="no")])
def test_an_order_that_only_runs_obey_changes_nothing_of_a_node_and_the_record_says_so(order: Order) -> None:
    running = world()
    before = what_the_node_is(running)
    running.post(node_subject("n1"), order)
    running.settle(SECOND)
    assert what_the_node_is(running) == before
    said = running.decisions[-1]
    assert (said.rule, running.decided_for[-1]) == ("order-for-runs", node_subject("n1"))
    assert "ann" in said.reason
    running.fault(BROKEN)
    running.settle(MINUTE)
    assert running.held == {"n1"}


def test_the_same_order_given_a_second_time_is_an_order() -> None:
    running = world()
    for _ in range(12):  # more than are remembered
        give(running, PAUSE)
        give(running, RESUME)
    give(running, PAUSE)
    assert not acts(running)
