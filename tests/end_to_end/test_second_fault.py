"""A second fault, on another chip of the run, at each moment of a recovery in place: both chips are healed, no process runs under a reset."""

from __future__ import annotations

import pytest

from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.commands import StepName
from schemas.records import IncidentState
from tests.end_to_end.processes import supervisor
from tests.end_to_end.seen import (
    RECOVERED,
    all_ranks,
    closed,
    containers,
    finished,
    incident,
    reached,
    recovered,
    starts,
    train,
)

GPU_STOPPED = 46  # "GPU timeout: stopped processing"
PMU_HALTED = 62  # "internal micro-controller halted": another one that a reset heals; the same on two chips at once would look like software

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


@pytest.mark.parametrize("moment", [StepName.STOP_PROCESSES, StepName.HEAL_CHIPS, StepName.START_PROCESSES])
def test_a_second_fault_during(stage: Stage, job: TrainingJob, moment: StepName) -> None:
    run = train(stage, job)
    before = containers(stage.pods(job))
    first, second = stage.node_of(job, 1), stage.node_of(job, 2)
    slow = supervisor(stage, job, 0)
    first.behave(seconds=600.0)  # until it is told to be quicker

    if moment is StepName.STOP_PROCESSES:
        slow.suspend()  # the stop is not over before it is let go
    first.xid(GPU_STOPPED)
    if moment is StepName.START_PROCESSES:
        reached(stage, run, StepName.HEAL_CHIPS)
        slow.suspend()  # its processes are stopped, and it does not start them
        first.behave()
    reached(stage, run, moment)
    second.xid(PMU_HALTED)
    stage.wait("the second fault to be seen", lambda: len(_faults(stage, run)) == 2, 30.0)
    first.behave()
    slow.resume()
    recovered(stage, run)
    finished(stage, job)

    assert containers(stage.pods(job)) == before
    assert second.resets()
    assert all(reset.holders == [] for node in (first, second) for reset in node.resets())
    assert all(count[0] == "1" for count in starts(job))  # never a new issue
    assert all(ranks == all_ranks(job) for ranks in starts(job).values() if len(ranks) == job.ranks)


def test_a_second_fault_while_it_becomes_stable_is_a_new_attempt_of_the_same_incident(stage: Stage) -> None:
    job = stage.job("second-fault-stabilising", stable_within=0.0)  # never said to be stable
    run = train(stage, job)
    before = containers(stage.pods(job))
    first, second = stage.node_of(job, 1), stage.node_of(job, 2)

    first.xid(GPU_STOPPED)
    stage.wait(
        "the job to run again",
        lambda: (found := incident(stage, run)) is not None and found.state is IncidentState.STABILISING,
        60.0,
    )
    # Processes run before they train, and only who trained is seen to have started.
    stage.wait("all ranks to train", lambda: starts(job).get(("1", "2")) == all_ranks(job), RECOVERED)
    second.xid(PMU_HALTED)
    reached(stage, run, StepName.START_PROCESSES, attempt=2)
    stage.wait("all ranks to train again", lambda: starts(job).get(("1", "3")) == all_ranks(job), RECOVERED)
    finished(stage, job)
    ended = closed(stage, run)

    assert ended.attempt == 2
    assert len(stage.records.incidents(run)) == 1
    assert containers(stage.pods(job)) == before
    assert [len(node.resets()) for node in (first, second)] == [1, 1]
    assert starts(job) == {(("1"), str(count)): all_ranks(job) for count in (1, 2, 3)}


def _faults(stage: Stage, run: str) -> set[str | None]:
    return {decision.chip for decision in stage.records.decisions(run) if decision.chip}
