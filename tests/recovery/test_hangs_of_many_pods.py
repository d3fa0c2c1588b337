"""All pods of a run stand still when one does, and each node agent tells its own: what comes of it is one restart (recovery 1, row 7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from schemas.envelope import TimeQuality
from schemas.ids import run_subject
from schemas.signals import HangEvidence
from tests.recovery.world import BROKEN, World

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
ANNOTATED: dict[str, Any] = {"job_retry_num": "3", "hang_retry": "true"}


def stall_all(running: World, *, apart: timedelta) -> None:
    """Each pod's agent says so, the next one so much later; what is started after that has the next number."""
    still = running.now - 30 * MINUTE
    for number, pod in enumerate(running.pods.values()):
        stalled = HangEvidence(
            placement=running.where(pod),
            state="stalled",
            method="steps",
            last_progress=still,
            start=pod.starts,
        )
        running.post(run_subject(running.run), stalled, after=number * apart)
        pod.starts += 1


@pytest.mark.parametrize(
    "seconds", [0, 1, 3, 30], ids=["at once", "while they stop", "while they start", "after they started"]
)
def test_all_pods_of_a_run_that_stand_still_lead_to_one_restart(seconds: int) -> None:
    running = World(size=3).begin(**ANNOTATED)
    stall_all(running, apart=seconds * SECOND)
    running.settle(5 * MINUTE)

    assert running.begun() == ["stop_processes", "start_processes"]
    assert running.rules()[0] == "hang"
    assert set(running.rules()[1:]) <= {"merge"}
    assert running.counters.hang_chain == 1
    assert running.counters.job_retries_used == 0
    assert not running.held


def test_what_was_so_long_on_its_way_that_its_time_was_clamped_restarts_nobody() -> None:
    """What waited for a day in a spool has its arrival for a time (`streams.routing`)."""
    running = World(size=1).begin(**ANNOTATED)
    (pod,) = running.pods.values()
    stalled = HangEvidence(
        placement=running.where(pod),
        state="stalled",
        method="steps",
        last_progress=running.now - 30 * MINUTE,
        start=pod.starts,
    )
    running.post(run_subject(running.run), stalled, timequality=TimeQuality.CLAMPED)
    running.settle(5 * MINUTE)

    assert (running.rules(), running.begun()) == (["hang-too-old"], [])


def test_the_time_of_the_fault_is_the_last_progress_half_an_hour_ago() -> None:
    running = World().begin(**ANNOTATED)
    still = running.now - 30 * MINUTE
    stall_all(running, apart=SECOND)
    running.settle(MINUTE)

    assert {incident.fault_time for incident in running.incidents} == {still}


@pytest.mark.parametrize(
    ("minutes", "rules", "begun"),
    [(9, "hang", ["stop_processes", "start_processes"]), (11, "hang-too-old", [])],
)
def test_what_was_long_on_its_way_is_recorded_and_restarts_nobody(
    minutes: int, rules: str, begun: list[str]
) -> None:
    running = World(size=1).begin(**ANNOTATED)
    (pod,) = running.pods.values()
    told = running.now - minutes * MINUTE  # and then the broker was away
    stalled = HangEvidence(
        placement=running.where(pod),
        state="stalled",
        method="steps",
        last_progress=told - 30 * MINUTE,
        start=pod.starts,
    )
    running.post(run_subject(running.run), stalled, time=told)
    running.settle(5 * MINUTE)

    assert running.begun() == begun
    assert running.rules() == [rules]
    assert running.decisions[0].reason
    assert (running.decisions[0].verdict == "record") is (not begun)
    assert bool(running.incidents) is bool(begun)


def test_without_the_annotation_nobody_is_restarted_however_many_pods_stand_still() -> None:
    running = World(size=3).begin(job_retry_num="3")
    stall_all(running, apart=SECOND)
    running.settle(30 * MINUTE)

    assert running.begun() == []
    assert set(running.rules()) == {"hang-not-asked-for"}


def test_without_high_availability_it_is_only_recorded() -> None:
    running = World(size=3).begin(hang_retry="true")
    stall_all(running, apart=SECOND)
    running.settle(30 * MINUTE)

    assert running.begun() == []
    assert set(running.rules()) == {"ha-off"}


def test_pods_that_stand_still_beside_a_broken_chip_are_moved_not_restarted() -> None:
    running = World(size=2).begin(**ANNOTATED)
    running.fault(BROKEN)
    stall_all(running, apart=SECOND)
    running.settle(5 * MINUTE)

    assert running.begun() == ["suspend_job", "resume_job"]
    assert running.held == {"n1"}
