"""A node of which nobody hears any more: replaced, with no second writer, while a process on it still lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.commands import StepName
from tests.end_to_end.processes import runs, trainer
from tests.end_to_end.seen import REACHED, RECOVERED, all_ranks, finished, incident, starts, train

SILENT_FOR = "10s"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


@contextmanager
def actuators_that_presume_quickly(stage: Stage) -> Iterator[None]:
    """Seconds for the five minutes after which a silent node is presumed gone. What is presumed is the same."""
    usual = stage.programs.pop("actuators")
    usual.kill()
    quick = stage.program(
        "actuators-presuming",
        "actuators",
        says=("partitions taken up", 1),
        RELIGHT_ACTING__SILENT_NODE__AFTER=SILENT_FOR,
        RELIGHT_ACTING__SILENT_NODE__HEARD_WITHIN=SILENT_FOR,
    )
    stage.programs[quick.name] = quick
    try:
        quick.start()
        yield
    finally:
        quick.kill()
        del stage.programs[quick.name]
        stage.programs["actuators"] = usual


def test_a_node_nobody_hears_is_replaced_and_its_old_process_never_writes_again(
    stage: Stage, job: TrainingJob
) -> None:
    with actuators_that_presume_quickly(stage):
        run = train(stage, job)
        dead = stage.node_of(job, 0)
        old_pods = {pod["metadata"]["uid"] for pod in stage.pods(job)}
        before = len(stage.effects.isolations(dead.uid))
        old = trainer(stage, job, 0)
        old.suspend()  # it hears of nothing: neither that its peers are gone nor that it is told to end
        dead.agent.suspend()
        dead.kubelet.die()

        stage.wait("all ranks to train elsewhere", lambda: ("2", "1") in _whole(job), RECOVERED)
        lived = old.is_running()
        old.resume()
        stage.wait("the old process to end", lambda: not runs(old), REACHED)  # while the new ones train
        finished(stage, job)

    assert lived  # the one writer of the old epoch was there all the time, and was kept out
    assert {line["epoch"] for line in job.said("finished")} == {2}
    assert starts(job) == {("1", "1"): all_ranks(job), ("2", "1"): all_ranks(job)}
    found = incident(stage, run)
    assert found is not None
    assert (found.strategy, found.nodes) == ("isolated_job_reschedule", (dead.name,))
    assert stage.effects.isolations(dead.uid)[before:] == [True]
    assert stage.isolated() == [dead.name]
    after = stage.pods(job)
    assert not {pod["metadata"]["uid"] for pod in after} & old_pods
    assert dead.name not in {pod["spec"]["nodeName"] for pod in after}
    said = [
        effect
        for outcome in stage.records.outcomes(run)
        if outcome.step is StepName.SUSPEND_JOB
        for effect in outcome.effects
    ]
    assert sum("presumed gone" in effect for effect in said) == 1, (
        said
    )  # the decision to force is in the record


def _whole(job: TrainingJob) -> list[tuple[str, str]]:
    """Counts under which every rank has started."""
    return [counts for counts, ranks in starts(job).items() if ranks == all_ranks(job)]
