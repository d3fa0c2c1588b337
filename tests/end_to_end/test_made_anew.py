"""A pod that Kubernetes counted as failed: resuming would wait for its back-off, so the job goes on in a new object, as the same run."""

from __future__ import annotations

import pytest

from actuators.jobs import manifest_store
from actuators.jobs.manifest import REBUILT_FROM
from runtime import paths
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.cluster import EPOCH, RUN
from schemas.records import IncidentResult
from tests.end_to_end import processes
from tests.end_to_end.seen import all_ranks, closed, decided, finished, starts, train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def test_a_pod_that_was_counted_failed_leads_to_a_new_object_of_the_same_run(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    old = stage.job_object(job)["metadata"]
    supervisor, trainer = processes.supervisor(stage, job, 1), processes.trainer(stage, job, 1)

    supervisor.kill()  # nobody is left who could hold the container
    trainer.kill()
    decision = decided(stage, run, "unconditional_job_reschedule")
    ended = closed(stage, run)
    new = stage.job_object(job)["metadata"]
    finished(stage, job)

    assert decision.row == "10"
    assert ended.result is IncidentResult.RECOVERED
    assert new["uid"] != old["uid"]
    assert (new["annotations"][RUN], new["annotations"][EPOCH]) == (run, "2")
    assert new["annotations"][REBUILT_FROM] == old["uid"]
    assert starts(job) == {("1", "1"): all_ranks(job), ("2", "1"): all_ranks(job)}
    (step,) = {start.step for start in job.starts() if start.schedule_count == "2"}
    assert step > 0, "from its checkpoint"
    kept = [item["metadata"]["name"] for item in stage.api.list(paths.config_maps(job.namespace)).items]
    assert manifest_store.name_for(run) not in kept
    assert len(stage.records.incidents(run)) == 1
    assert stage.isolated() == []
