"""The three strategies of this release from fault to stable, each in one story."""

from __future__ import annotations

from datetime import timedelta

from schemas.records import IncidentResult, IncidentState
from tests.recovery.world import HBM, World

MINUTE = timedelta(minutes=1)


def test_a_fault_that_heals_restarts_the_processes_and_keeps_the_containers() -> None:
    world = World().begin(job_retry_num="3")
    world.fault(HBM)
    world.settle(MINUTE)
    assert world.begun() == ["stop_processes", "heal_chips", "start_processes"]
    assert world.incident is not None
    assert world.incident.state is IncidentState.STABILISING
    world.stable()
    assert world.incident.result is IncidentResult.RECOVERED
    assert world.counters.job_retries_used == 0
    assert world.counters.schedule_count == 1
    assert not world.held


def test_the_third_equal_fault_in_a_day_isolates_the_node_and_moves_the_job() -> None:
    world = World().begin(job_retry_num="3")
    for _ in range(2):
        world.fault(HBM)
        world.settle(MINUTE)
        world.stable()
    world.commands.clear()
    world.fault(HBM)
    world.settle(10 * MINUTE)
    assert world.begun() == ["find_spare", "suspend_job", "resume_job"]
    assert world.held == {"n1"}
    assert {pod.node for pod in world.pods.values()} == {"n2", "n3"}
    assert world.counters.job_retries_used == 1
    assert world.counters.schedule_count == 2


def test_an_exit_without_a_fault_makes_the_job_anew_and_the_fourth_in_a_row_fails_it() -> None:
    world = World().begin(job_retry_num="10", job_unconditional_retry="true")
    for number in range(3):
        world.exit(1)
        world.settle(MINUTE)
        assert world.counters.unconditional_chain == number + 1
        world.stable()
    world.exit(1)
    world.settle(MINUTE)
    assert world.begun()[-1] == "fail_job"
    assert world.incident is not None
    assert world.incident.result is IncidentResult.FAILED
    assert world.incident.cause == "user_code"
    assert world.counters.job_retries_used == 3
    assert not world.held
