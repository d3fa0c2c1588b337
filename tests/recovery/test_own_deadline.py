"""A job that its team gave so long and no longer: when its deadline passed it is over, whatever is under way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from recovery.run import DEADLINE
from schemas.commands import Command, OutcomeResult, StepName
from schemas.envelope import Payload
from schemas.facts import RunEnded
from schemas.ids import run_subject
from schemas.records import IncidentResult, IncidentState
from tests.recovery.world import HBM, World, always

MINUTE = timedelta(minutes=1)
SAID = f"{DEADLINE}: Job was active longer than specified deadline"


def world() -> World:
    return World().begin(job_retry_num="5", job_unconditional_retry="true")


def fail(running: World, detail: str = SAID) -> None:
    ended = RunEnded(run=running.run, object_uid="job-1", how="failed", detail=detail)
    running.post(run_subject(running.run), ended)
    running.settle(MINUTE)


def test_a_job_whose_own_deadline_passed_is_not_made_anew() -> None:
    running = world()

    fail(running)

    assert running.begun() == []
    assert running.incident is None
    assert running.counters.job_retries_used == 0
    assert running.rules()[-1] == "own-deadline"


def test_a_job_that_failed_otherwise_is_made_anew() -> None:
    running = world()

    fail(running, "BackoffLimitExceeded: Job has reached the specified backoff limit")

    assert running.begun()[:1] == ["suspend_job"]


def test_a_recovery_under_way_when_it_passes_is_taken_back() -> None:
    running = world()
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
    running.fault(HBM)
    running.settle(timedelta(seconds=10))

    fail(running)

    assert running.begun() == ["stop_processes", "heal_chips"]
    assert [each.step for each in running.commands if each.action == "cancel"] == [StepName.HEAL_CHIPS]
    assert running.incidents[-1].state is IncidentState.CLOSED
    assert running.incidents[-1].result is IncidentResult.RUN_ENDED


def last_resort(running: World, order: Command) -> Iterator[tuple[str, Payload, timedelta]]:
    """What `fail_job` does with what does not end by itself: a deadline of one second."""
    if order.action == "begin":
        ended = RunEnded(run=running.run, object_uid="job-1", how="failed", detail=SAID)
        yield order.subject, ended, timedelta(seconds=1)
        yield running.answer(order, OutcomeResult.PENDING)
    else:
        yield running.answer(order)


def test_a_deadline_that_we_set_to_fail_the_job_is_the_end_we_asked_for() -> None:
    running = world()
    running.scripts[StepName.FAIL_JOB] = last_resort
    for _ in range(3):
        running.exit(1)
        running.settle(MINUTE)
        running.stable()
    running.exit(1)
    running.settle(5 * MINUTE)

    assert running.begun()[-1] == "fail_job"
    assert "own-deadline" not in running.rules()
    assert running.incidents[-1].result is IncidentResult.FAILED
