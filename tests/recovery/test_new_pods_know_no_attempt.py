"""Pods of a new issue were given no order, so they say attempt 0: they are of now all the same, and late words of old pods are not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas.ids import run_subject
from schemas.records import IncidentResult, IncidentState
from schemas.signals import Milestone, MilestoneName, Progress
from tests.recovery.world import HBM, World

MINUTE = timedelta(minutes=1)


def rebuilt() -> World:
    """A run after an unconditional reschedule, becoming stable."""
    running = World().begin(job_retry_num="3", job_unconditional_retry="true")
    running.exit(1)
    running.settle(MINUTE)
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING
    return running


def say_stable(running: World, *, attempt: int | None, ago: timedelta = timedelta(0)) -> None:
    pod = next(iter(running.pods.values()))
    said = Milestone(placement=running.where(pod), name=MilestoneName.STABLE, attempt=attempt)
    running.post(run_subject(running.run), said, time=running.now - ago)
    running.settle()


@pytest.mark.parametrize("attempt", [0, None])
def test_a_new_pod_says_that_the_run_is_stable(attempt: int | None) -> None:
    running = rebuilt()
    say_stable(running, attempt=attempt)
    assert running.incident is not None
    assert running.incident.result is IncidentResult.RECOVERED


@pytest.mark.parametrize("attempt", [0, None])
def test_what_an_old_pod_said_before_the_restart_is_not_believed_of_the_new_ones(attempt: int | None) -> None:
    running = rebuilt()
    say_stable(running, attempt=attempt, ago=timedelta(minutes=30))
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING


def test_steps_of_new_pods_are_progress() -> None:
    running = rebuilt()
    pod = next(iter(running.pods.values()))
    for step in (100, 101):
        told = Progress(placement=running.where(pod), step=step, attempt=0)
        running.post(run_subject(running.run), told)
        running.settle()
    assert running.counters.last_resume_step == 100
    assert not running.counters.awaiting_first_step


def test_an_attempt_that_was_superseded_is_not_believed() -> None:
    running = World().begin(job_retry_num="3")
    for code in (HBM, "80E18005"):
        running.fault(code)
        running.settle(MINUTE)
    assert running.incident is not None
    assert running.incident.attempt == 2
    say_stable(running, attempt=1)
    assert running.incident.state is IncidentState.STABILISING


def test_in_place_every_pod_was_given_an_order_so_attempt_0_is_of_the_time_before() -> None:
    running = World().begin(job_retry_num="3")
    running.fault(HBM)
    running.settle(MINUTE)
    say_stable(running, attempt=0)
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING
