"""What goes wrong while processes are restarted in place: nobody healthy is harmed, nothing is done twice, and the job goes on where it can."""

from __future__ import annotations

import pytest

from sandbox.control_plane import ControlPlane
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import CONTAINER, TrainingJob
from schemas.commands import StepName
from schemas.records import IncidentResult
from tests.end_to_end.processes import supervisor, trainer
from tests.end_to_end.seen import (
    all_ranks,
    closed,
    containers,
    decided,
    finished,
    incident,
    reached,
    recovered,
    starts,
    train,
)

GPU_STOPPED = 46  # "GPU timeout: stopped processing": self-heal by reset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


def test_a_chip_that_does_not_heal_is_left_and_the_job_goes_on_elsewhere(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    bad = stage.node_of(job, 1)
    before = {pod["metadata"]["uid"] for pod in stage.pods(job)}
    bad.behave(heals=False)

    bad.xid(GPU_STOPPED)
    decision = decided(stage, run, "isolated_job_reschedule")
    closed(stage, run)
    finished(stage, job)

    assert "heal_chips" in decision.reason
    assert len(bad.resets()) == 1  # tried once, not again and again
    assert starts(job) == {("1", "1"): all_ranks(job), ("2", "1"): all_ranks(job)}
    after = [pod for pod in stage.pods(job) if pod["metadata"]["uid"] not in before]
    assert bad.name not in {pod["spec"]["nodeName"] for pod in after}


@pytest.mark.usefixtures("short_waits")
def test_a_pod_that_stays_silent_holds_the_recovery_up_and_isolates_nobody(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    before = containers(stage.pods(job))
    frozen = supervisor(stage, job, 2)
    frozen.suspend()

    stage.node_of(job, 1).xid(GPU_STOPPED)
    try:
        held = decided(stage, run, "hold")
        assert stage.node_of(job, 1).resets() == []  # nothing is healed under a process that may run
    finally:
        frozen.resume()
    recovered(stage, run)
    finished(stage, job)

    assert "1 pod is silent" in held.reason
    assert StepName.ISOLATE_NODE not in {command.step for command in stage.records.commands(run)}
    assert containers(stage.pods(job)) == before
    assert starts(job) == {("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job)}


@pytest.mark.usefixtures("short_waits")
def test_a_node_that_falls_silent_during_the_stop_is_taken_for_the_fault(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    silent = stage.node_of(job, 2)
    silent.agent.suspend()
    silent.kubelet.die()  # its processes go on, and nobody hears of them

    stage.node_of(job, 1).xid(GPU_STOPPED)
    decided(
        stage, run, "isolated_job_reschedule"
    )  # by its barrier or by the node's own condition, whichever is told first
    stage.wait("the suspend to be waited for", lambda: _looks(stage, run, StepName.SUSPEND_JOB) > 2, 60.0)

    found = incident(stage, run)
    assert found is not None
    assert found.nodes == (silent.name,)  # nobody else is taken for it
    # No second writer while the first may live: nobody is heard of that pod, so the job is not resumed.
    assert StepName.RESUME_JOB not in {command.step for command in stage.records.commands(run)}
    assert starts(job) == {("1", "1"): all_ranks(job)}

    silent.agent.resume()
    silent.kubelet.start()
    closed(stage, run)
    finished(stage, job)
    assert starts(job) == {("1", "1"): all_ranks(job), ("2", "1"): all_ranks(job)}


def test_while_the_api_is_silent_nothing_is_concluded_and_then_the_recovery_goes_on(
    stage: Stage, plane: ControlPlane
) -> None:
    job = stage.job(
        "silent-api", steps=600
    )  # it trains on meanwhile, and must not be finished before it is over
    run = train(stage, job)
    before = containers(stage.pods(job))
    node = stage.node_of(job, 1)
    plane.api_server.suspend()

    node.xid(GPU_STOPPED)
    reached(stage, run, StepName.STOP_PROCESSES)
    unreachable = stage.wait(
        "the actuators to say that nobody answers",
        lambda: [each for each in stage.records.outcomes(run) if each.result == "unreachable"],
        60.0,
    )
    plane.api_server.resume()
    recovered(stage, run)
    finished(stage, job)

    assert unreachable
    assert containers(stage.pods(job)) == before
    assert len(node.resets()) == 1
    assert starts(job) == {("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job)}


def test_a_rank_that_dies_by_itself_during_the_stop_is_started_again_with_the_others(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    before = containers(stage.pods(job))
    keeper = supervisor(stage, job, 2)
    dying = trainer(stage, job, 2)
    keeper.suspend()  # so that the stop is under way, and not over, when it happens
    stage.node_of(job, 1).xid(GPU_STOPPED)
    reached(stage, run, StepName.STOP_PROCESSES)

    dying.kill()
    keeper.resume()
    ended = recovered(stage, run)
    finished(stage, job)

    assert ended.strategy == "in_place_recovery"
    assert containers(stage.pods(job)) == before
    assert starts(job) == {("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job)}


def test_a_container_out_of_memory_is_an_end_without_a_hardware_fault(stage: Stage, job: TrainingJob) -> None:
    run = train(stage, job)
    pod = stage.pod(job, 2)["metadata"]

    stage.node_of(job, 2).kubelet.run_out_of_memory(pod["namespace"], pod["name"], CONTAINER)
    decision = decided(stage, run, "unconditional_job_reschedule")
    ended = closed(stage, run)
    finished(stage, job)

    assert decision.row == "10"
    assert ended.result is IncidentResult.RECOVERED
    assert all(node.resets() == [] for node in stage.nodes.values())
    assert starts(job)[("2", "1")] == all_ranks(job)


def _looks(stage: Stage, run: str, step: StepName) -> int:
    return sum(command.step is step and command.action == "look" for command in stage.records.commands(run))
