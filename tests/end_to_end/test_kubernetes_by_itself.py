"""What people and Kubernetes do to a job while relight is at it: nobody is overruled or isolated for it, and the job ends as it should."""

from __future__ import annotations

import pytest

from runtime import paths
from runtime.errors import ApiNotFound
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.commands import StepName
from schemas.records import IncidentResult
from tests.end_to_end.processes import supervisor
from tests.end_to_end.seen import (
    REACHED,
    RECOVERED,
    all_ranks,
    closed,
    finished,
    incident,
    nothing_is_open,
    reached,
    starts,
    train,
)

GPU_STOPPED = 46  # "GPU timeout: stopped processing": self-heal by reset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


def test_a_pod_somebody_deletes_is_made_anew_and_the_job_goes_on_from_its_checkpoint(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    before = {pod["metadata"]["uid"] for pod in stage.pods(job)}

    _delete_pod(stage, job, 2)
    stage.wait("all ranks to train again", lambda: len(job.starts()) > job.ranks, RECOVERED)
    stage.wait("nothing to be open", lambda: nothing_is_open(stage, run), RECOVERED)
    finished(stage, job)

    _nobody_is_isolated(stage, run)
    ended = incident(stage, run)
    assert ended is None or ended.result is not IncidentResult.FAILED
    assert before != {pod["metadata"]["uid"] for pod in stage.pods(job)}
    assert all(start.step > 0 for start in job.starts()[job.ranks :])


def test_a_pod_somebody_deletes_while_processes_are_stopped_does_not_end_the_recovery(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    slow = supervisor(stage, job, 0)
    slow.suspend()  # the stop is not over before it is let go

    stage.node_of(job, 1).xid(GPU_STOPPED)
    reached(stage, run, StepName.STOP_PROCESSES)
    _delete_pod(stage, job, 2)
    slow.resume()
    ended = closed(stage, run)
    finished(stage, job)

    _nobody_is_isolated(stage, run)
    assert ended.result is not IncidentResult.FAILED


@pytest.mark.soak
def test_an_exit_the_teams_policy_would_fail_the_job_for_is_retried_first_where_they_switched_retries_on(
    stage: Stage,
) -> None:
    fails = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    job = stage.job("own-policy", failure_policy={"rules": [fails]})
    job.ask("exit-0", step=40)
    run = train(stage, job)

    finished(stage, job)

    assert closed(stage, run).result is not IncidentResult.FAILED
    assert starts(job) == {("1", "1"): all_ranks(job), ("2", "1"): all_ranks(job)}
    _nobody_is_isolated(stage, run)


def test_a_job_somebody_deletes_during_a_recovery_ends_it_and_nothing_is_made_anew(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    node = stage.node_of(job, 1)
    node.behave(seconds=3.0)

    node.xid(GPU_STOPPED)
    reached(stage, run, StepName.HEAL_CHIPS)
    stage.remove(job)
    ended = closed(stage, run)

    assert ended.result is IncidentResult.RUN_ENDED
    given = len(stage.records.commands(run))
    node.behave(seconds=0.2)
    other = stage.job(f"{job.name[:30]}-next", ranks=1)  # nobody waits for the one that is gone
    train(stage, other)
    finished(stage, other)
    assert len(stage.records.commands(run)) == given  # and nothing more is asked for it
    with pytest.raises(ApiNotFound):
        stage.job_object(job)
    assert starts(job) == {("1", "1"): all_ranks(job)}
    _nobody_is_isolated(stage, run)


@pytest.mark.soak  # what `make test` has of it is on a control plane without kubelets
def test_a_namespace_somebody_deletes_during_a_recovery_ends_it(stage: Stage) -> None:
    stage.api.create(paths.namespaces(), {"metadata": {"name": "short-lived"}})
    stage.wait("its service account", lambda: _has_account(stage, "short-lived"), 30.0)
    job = stage.job("in-a-short-lived-namespace", namespace="short-lived")
    run = train(stage, job)
    node = stage.node_of(job, 1)
    node.behave(seconds=15.0)  # less than the step has

    node.xid(GPU_STOPPED)
    reached(stage, run, StepName.HEAL_CHIPS)
    stage.api.delete(paths.namespaces("short-lived"))
    ended = closed(stage, run)
    node.behave(seconds=0.2)

    assert ended.result is IncidentResult.RUN_ENDED
    stage.wait("the namespace to be gone", lambda: not _exists(stage, "short-lived"), 60.0)
    assert starts(job) == {("1", "1"): all_ranks(job)}
    _nobody_is_isolated(stage, run)


def test_a_node_somebody_cordons_during_a_recovery_stays_cordoned_and_the_job_stays_on_it(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    node = stage.node_of(job, 1)
    node.behave(seconds=3.0)
    where = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in stage.pods(job)}

    node.xid(GPU_STOPPED)
    reached(stage, run, StepName.HEAL_CHIPS)
    stage.api.patch(paths.nodes(node.name), {"spec": {"unschedulable": True}}, manager="kubectl-cordon")
    assert closed(stage, run).result is IncidentResult.RECOVERED
    finished(stage, job)

    assert {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in stage.pods(job)} == where
    assert stage.api.get(paths.nodes(node.name))["spec"]["unschedulable"]
    _nobody_is_isolated(stage, run)


def test_a_taint_somebody_takes_off_is_their_word_and_is_not_set_again(
    stage: Stage, job: TrainingJob
) -> None:
    run = train(stage, job)
    bad = stage.node_of(job, 1)
    bad.behave(heals=False)

    before = len(stage.effects.isolations(bad.uid))

    bad.xid(GPU_STOPPED)
    stage.wait("the node to be isolated", lambda: stage.isolated() == [bad.name], REACHED)
    stage.release(bad)
    closed(stage, run)
    finished(stage, job)

    assert stage.effects.isolations(bad.uid)[before:] == [True, False]
    assert starts(job) == {("1", "1"): all_ranks(job), ("2", "1"): all_ranks(job)}


def _delete_pod(stage: Stage, job: TrainingJob, rank: int) -> None:
    """As `kubectl delete pod` does, with the pod's own grace."""
    pod = stage.pod(job, rank)["metadata"]
    stage.api.delete(paths.pods(pod["namespace"], pod["name"]))


def _nobody_is_isolated(stage: Stage, run: str) -> None:
    assert stage.isolated() == []
    assert StepName.ISOLATE_NODE not in {command.step for command in stage.records.commands(run)}


def _has_account(stage: Stage, namespace: str) -> bool:
    try:
        stage.api.get(f"{paths.namespaces(namespace)}/serviceaccounts/default")
    except ApiNotFound:
        return False
    return True


def _exists(stage: Stage, namespace: str) -> bool:
    try:
        stage.api.get(paths.namespaces(namespace))
    except ApiNotFound:
        return False
    return True
