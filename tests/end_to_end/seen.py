"""What end-to-end tests look at, in the words they assert."""

from __future__ import annotations

from runtime.kubernetes import Object
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.commands import Command, StepName
from schemas.records import Decision, Incident, IncidentResult, IncidentState

# Generous: on an idle machine each comes within seconds, and nothing waits longer than it must.
UNDER_WAY = 90.0
REACHED = 60.0
RECOVERED = 120.0
FINISHED = 120.0
IN_FLIGHT = 1.0
"""Seconds after which a write of a killed process has come to the API server and was seen there, or never does."""


def train(stage: Stage, job: TrainingJob) -> str:
    """Submit it and wait until it has saved something; returns the run."""
    run = stage.submit(job)
    under_way(stage, job)
    return run


def under_way(stage: Stage, job: TrainingJob) -> None:
    """It trains, and has saved something."""
    stage.wait(f"a checkpoint of {job.name}", job.saved_steps, UNDER_WAY)


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

    found = stage.wait("the incident to be closed", is_closed, RECOVERED)
    assert found is not None
    return found


def nothing_is_open(stage: Stage, run: str) -> bool:
    """Whether a run has no incident, or none that is not closed."""
    found = incident(stage, run)
    return found is None or found.state is IncidentState.CLOSED


def recovered(stage: Stage, run: str) -> Incident:
    """The newest incident, closed as recovered."""
    found = closed(stage, run)
    assert found.result is IncidentResult.RECOVERED, f"{found}{stage.story()}"
    return found


def finished(stage: Stage, job: TrainingJob, within: float = FINISHED) -> None:
    """It ran to its end, and every rank ended with the bits of a run that nobody disturbed.

    What is left of it is trained in a hurry: whatever is to happen while it trains has to have happened before.
    """
    job.ask("hurry")
    ended = stage.wait("the job's end", lambda: stage.job_ended(job), within)
    assert ended == "Complete", stage.story()
    assert job.results() == {job.expected_result()}, stage.story()


def reached(stage: Stage, run: str, step: StepName, attempt: int = 1) -> Command:
    """The command that begins a step, once it was given."""

    def given() -> Command | None:
        for command in stage.records.commands(run):
            if (command.step, command.action, command.attempt) == (step, "begin", attempt):
                return command
        return None

    found = stage.wait(f"{step.value} to begin", given, REACHED)
    assert found is not None
    return found


def decided(stage: Stage, run: str, verdict: str) -> Decision:
    """A decision with this verdict, once it was made."""

    def made() -> Decision | None:
        return next((each for each in stage.records.decisions(run) if each.verdict == verdict), None)

    found = stage.wait(f"the decision {verdict}", made, REACHED)
    assert found is not None
    return found


def starts(job: TrainingJob) -> dict[tuple[str, str], list[int]]:
    """Ranks that started, by (MA_SCHEDULE_CNT, MA_PROC_START_CNT)."""
    found: dict[tuple[str, str], list[int]] = {}
    for start in job.starts():
        found.setdefault((start.schedule_count, start.start_count), []).append(start.rank)
    return {counts: sorted(ranks) for counts, ranks in found.items()}


def all_ranks(job: TrainingJob) -> list[int]:
    """Every rank once."""
    return list(range(job.ranks))
