"""What end-to-end tests look at, in the words they assert."""

from __future__ import annotations

from runtime.kubernetes import Object
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.records import Incident, IncidentResult, IncidentState

UNDER_WAY = 60.0
RECOVERED = 90.0
FINISHED = 90.0


def train(stage: Stage, job: TrainingJob) -> str:
    """Submit it and wait until it has saved something; returns the run."""
    run = stage.submit(job)
    stage.wait(f"a checkpoint of {job.name}", job.saved_steps, UNDER_WAY)
    return run


def containers(pods: list[Object]) -> list[tuple[str, str, int]]:
    """Pod UID, container id and restarts of each pod: what stays the same when containers are kept."""
    return [
        (pod["metadata"]["uid"], status["containerID"], status["restartCount"])
        for pod in pods
        for status in pod["status"]["containerStatuses"]
    ]


def incident(stage: Stage, run: str) -> Incident | None:
    """The newest incident of a run."""
    found = stage.records.incidents(run)
    return found[-1] if found else None


def closed(stage: Stage, run: str) -> Incident:
    """The newest incident of a run, once it is closed."""

    def is_closed() -> Incident | None:
        found = incident(stage, run)
        return found if found is not None and found.state is IncidentState.CLOSED else None

    return stage.wait("the incident to be closed", is_closed, RECOVERED) or _never()


def recovered(stage: Stage, run: str) -> Incident:
    """The newest incident, closed as recovered."""
    found = closed(stage, run)
    assert found.result is IncidentResult.RECOVERED, f"{found}{stage.story()}"
    return found


def finished(stage: Stage, job: TrainingJob) -> None:
    """It ran to its end, and every rank ended with the bits of a run that nobody disturbed."""
    ended = stage.wait("the job's end", lambda: stage.job_ended(job), FINISHED)
    assert ended == "Complete", stage.story()
    assert job.results() == {job.expected_result()}, stage.story()


def _never() -> Incident:
    raise AssertionError("a wait ended without a result")
