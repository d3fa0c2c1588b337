"""Steps of the processes that run count, whatever was attempted since and restarted nothing; steps of processes that were replaced do not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from recovery.cells import RunCell
from schemas.commands import OutcomeResult, StepName
from schemas.ids import run_subject
from schemas.records import IncidentResult
from schemas.signals import Progress
from tests.recovery.world import HBM, World, always

MINUTE = timedelta(minutes=1)
REFUSED = always(OutcomeResult.REFUSED, cause="other_object")


def trains(**annotations: Any) -> World:
    return World(size=1).begin(**{"job_retry_num": "3", "hang_retry": "true", **annotations})


def step(running: World, number: int, *, attempt: int, ago: timedelta = timedelta(0)) -> None:
    (pod,) = running.pods.values()
    told = Progress(placement=running.where(pod), step=number, attempt=attempt)
    running.post(run_subject(running.run), told, time=running.now - ago)
    running.settle()


def furthest(running: World) -> int:
    cell = running.cells[run_subject(running.run)]["run"]
    assert isinstance(cell, RunCell)
    return cell.progress_step


def restarted_after_a_hang() -> World:
    running = trains()
    running.stall()
    running.settle(5 * MINUTE)
    running.stable()
    step(running, 1, attempt=1)
    assert running.counters.hang_chain == 1
    return running


def test_progress_after_a_recovery_that_restarted_nothing_breaks_the_row_of_hangs() -> None:
    running = restarted_after_a_hang()
    running.scripts[StepName.STOP_PROCESSES] = REFUSED
    running.fault(HBM)
    running.settle(MINUTE)
    assert running.incidents[-1].result is IncidentResult.CANCELLED
    assert running.counters.hang_chain == 1

    step(running, 2, attempt=0)
    assert running.counters.hang_chain == 1  # of processes that were replaced
    step(running, 2, attempt=1)
    assert running.counters.hang_chain == 0


def test_steps_of_a_job_made_anew_count_when_its_incident_is_long_forgotten() -> None:
    running = trains(job_unconditional_retry="true")
    running.exit(1)
    running.settle(2 * MINUTE)
    step(running, 1, attempt=0)
    running.settle(40 * MINUTE)
    assert running.incident is None

    step(running, 7, attempt=0)
    assert furthest(running) == 7


def test_steps_of_the_old_pods_that_come_when_the_incident_is_forgotten_do_not() -> None:
    running = trains(job_unconditional_retry="true")
    running.exit(1)
    running.settle(2 * MINUTE)
    running.settle(40 * MINUTE)
    assert running.incident is None

    step(running, 900, attempt=0, ago=timedelta(hours=1))
    assert furthest(running) < 900
