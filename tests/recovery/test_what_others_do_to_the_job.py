"""A job somebody else suspended or deleted: its end is theirs, and nothing of ours undoes it (recovery 0, 5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery.cells import RunCell
from schemas.commands import OutcomeResult, StepName
from schemas.ids import run_subject
from schemas.records import IncidentResult, IncidentState
from tests.recovery.world import BROKEN, HBM, World, always

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def world(**annotations: Any) -> World:
    return World().begin(**{"job_retry_num": "5", "job_unconditional_retry": "true", **annotations})


def suspend(running: World) -> None:
    """A human suspends the job; its processes end by the signal their pods get."""
    running.see_run(suspended=True)
    running.settle()
    for name in ("n1", "n2"):
        running.exit(143, on=name)
    for pod in list(running.pods.values()):
        running.take_away(pod)
    running.settle(5 * MINUTE)


def run_cell(running: World) -> RunCell:
    cell = running.cells[run_subject(running.run)]["run"]
    assert isinstance(cell, RunCell)
    return cell


@pytest.mark.parametrize("unconditional", ["true", "false"])
def test_a_job_a_human_suspended_is_not_resumed_and_costs_nothing(unconditional: str) -> None:
    running = world(job_unconditional_retry=unconditional)
    suspend(running)
    assert running.begun() == []
    assert running.counters.job_retries_used == 0
    assert running.incident is not None
    assert running.incident.result is IncidentResult.RELEASED
    assert any("suspended_by_others" in decision.flags for decision in running.decisions)


def test_nor_by_a_fault_that_is_heard_of_later() -> None:
    running = world()
    suspend(running)
    running.pods.clear()
    running.fault(HBM)
    running.settle(5 * MINUTE)
    assert running.begun() == []


def test_nor_when_it_is_suspended_while_the_last_recovery_becomes_stable() -> None:
    running = world()
    running.fault(HBM)
    running.settle(MINUTE)
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING
    before = running.begun()
    suspend(running)
    assert running.begun() == before


def test_once_it_is_resumed_it_is_looked_after_again() -> None:
    running = world()
    suspend(running)
    running.see_run()
    running.place(("n1", "n2"))
    running.settle()
    running.exit(1)
    running.settle(MINUTE)
    assert running.begun() == ["suspend_job", "resume_job"]


def test_our_own_suspension_is_not_taken_for_somebody_else_s() -> None:
    running = world()
    running.down.update(running.nodes)
    running.exit(1)
    running.settle(20 * SECOND)
    running.see_run(suspended=True)
    running.settle()
    assert not run_cell(running).suspended_by_others
    running.down.clear()
    running.settle(MINUTE)
    assert running.begun() == ["suspend_job", "resume_job"]


def test_a_job_deleted_in_the_middle_of_a_reschedule_ends_when_nobody_makes_it_anew() -> None:
    running = world()
    running.down.update(running.nodes)
    running.fault(BROKEN)
    running.settle(20 * SECOND)
    assert running.begun()[-1] == "resume_job"
    for step in (StepName.RESUME_JOB, StepName.RELEASE_JOB):
        running.scripts[step] = always(OutcomeResult.REFUSED, cause="gone")
    running.end("deleted")
    assert not run_cell(running).ended, "the rebuild may be ours"
    running.settle(timedelta(hours=2))
    assert run_cell(running).ended == "deleted"
