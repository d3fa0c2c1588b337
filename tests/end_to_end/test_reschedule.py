"""A job that goes on elsewhere or anew: third equal fault isolates, plain exits are retried and given up; each effect once at its target."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime import paths
from runtime.kubernetes import Object
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import Start, TrainingJob
from schemas.cluster import EPOCH, HOLD, RETRIES_USED
from schemas.commands import StepName
from schemas.records import Decision, IncidentResult
from tests.end_to_end.seen import (
    FINISHED,
    RECOVERED,
    all_ranks,
    closed,
    decided,
    finished,
    recovered,
    starts,
    train,
)

GPU_STOPPED = 46  # "GPU timeout: stopped processing": self-heal by reset
RESCHEDULED = [StepName.SUSPEND_JOB, StepName.RESUME_JOB]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def test_the_third_equal_fault_of_a_chip_isolates_its_node_and_the_job_goes_on_elsewhere(
    stage: Stage, job: TrainingJob
) -> None:
    job.ask("hang-0", step=220)  # so that it does not end before its third fault
    run = train(stage, job)
    old = _uids(stage.pods(job))
    bad = stage.node_of(job, 1)
    told = {node.uid: len(stage.effects.isolations(node.uid)) for node in stage.nodes.values()}

    for number in (1, 2):
        bad.xid(GPU_STOPPED)
        _again(stage, run, number)
    bad.xid(GPU_STOPPED)
    decision = decided(stage, run, "isolated_job_reschedule")
    job.let_go("hang-0")
    recovered(stage, run)
    after = _pods_of_issue(stage, job, 2)
    finished(stage, job)

    assert (decision.rule, decision.row, decision.count) == ("same-fault-repeats", "4", 3)
    assert _used(decision) == (1, 0, 1)
    assert stage.isolated() == [bad.name]
    fresh = {uid: stage.effects.isolations(uid)[before:] for uid, before in told.items()}
    assert {uid: marks for uid, marks in fresh.items() if marks} == {bad.uid: [True]}
    assert stage.job_object(job)["metadata"]["annotations"][RETRIES_USED] == "1"
    _says_why(stage.api.get(paths.nodes(bad.name)), chip=bad.chips[0].uuid)
    assert len(bad.resets()) == 2  # the third was no more in place

    assert bad.name not in {pod["spec"]["nodeName"] for pod in after}
    assert len(after) == job.ranks
    assert not _uids(after) & old
    assert _suspensions(stage, job) == [True, False]
    assert starts(job) == {
        ("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job), ("1", "3"): all_ranks(job),
        ("2", "1"): all_ranks(job),
    }  # fmt: skip
    _from_a_checkpoint(job, _starts_of(job, "2"))
    assert _begun(stage, run)[-2:] == RESCHEDULED


def test_plain_exits_make_the_job_anew_and_the_fourth_in_a_row_fails_it_with_the_reason(stage: Stage) -> None:
    job = stage.job("plain-exits", steps=400)
    job.ask("exit-0", step=30)
    run = train(stage, job)

    for number in (1, 2, 3):
        stage.wait(f"reschedule {number}", lambda n=number: _verdicts(stage, run, n), RECOVERED)  # type: ignore[misc]
        job.ask("exit-0", step=30 * (number + 1))  # each time it gets farther: it is not no_progress
        stage.wait(f"issue {number + 1}", lambda n=number: _starts_of(job, str(n + 1)), RECOVERED)  # type: ignore[misc]
    failing = decided(stage, run, "fail_job")
    ended = closed(stage, run)
    assert stage.wait("the job's end", lambda: stage.job_ended(job), FINISHED) == "Failed"

    again = [each for each in stage.records.decisions(run) if each.verdict == "unconditional_job_reschedule"]
    assert [_used(each) for each in again] == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    assert (failing.rule, failing.row) == ("end-again-and-again", "10")
    assert _used(failing) == (3, 3, 4)
    assert (ended.result, ended.result_cause) == (IncidentResult.FAILED, "user_code")
    assert starts(job) == {(str(issue), "1"): all_ranks(job) for issue in (1, 2, 3, 4)}
    for issue in ("2", "3", "4"):
        _from_a_checkpoint(job, _starts_of(job, issue))
    assert _suspensions(stage, job) == [True, False] * 3
    assert stage.job_object(job)["metadata"]["annotations"][RETRIES_USED] == "3"
    assert _reasons(stage, job) >= {"SuspendingJob", "ResumingJob", "FailingJob"}
    assert stage.isolated() == []
    assert all(node.resets() == [] for node in stage.nodes.values())


def _again(stage: Stage, run: str, number: int) -> None:
    """Recovered in place for the so many-th time."""
    stage.wait(f"incident {number}", lambda: len(stage.records.incidents(run)) == number, RECOVERED)
    assert recovered(stage, run).strategy == "in_place_recovery"


def _verdicts(stage: Stage, run: str, number: int) -> bool:
    made = [each.verdict for each in stage.records.decisions(run)]
    return made.count("unconditional_job_reschedule") == number


def _used(decision: Decision) -> tuple[int, int, int]:
    """Budget, chain and the number of issues as a decision left them."""
    counters = decision.counters
    assert counters is not None
    return counters.job_retries_used, counters.unconditional_chain, counters.schedule_count


def _pods_of_issue(stage: Stage, job: TrainingJob, epoch: int) -> list[Object]:
    return [pod for pod in stage.pods(job) if pod["metadata"]["annotations"].get(EPOCH) == str(epoch)]


def _uids(pods: Sequence[Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def _suspensions(stage: Stage, job: TrainingJob) -> list[bool]:
    return stage.effects.suspensions(stage.job_object(job)["metadata"]["uid"])


def _begun(stage: Stage, run: str) -> list[StepName]:
    return [each.step for each in stage.records.commands(run) if each.action == "begin"]


def _starts_of(job: TrainingJob, schedule_count: str) -> list[Start]:
    return [start for start in job.starts() if start.schedule_count == schedule_count]


def _from_a_checkpoint(job: TrainingJob, again: Sequence[Start]) -> None:
    """All ranks went on from one step, and that one was saved."""
    (step,) = {start.step for start in again}
    assert step > 0
    assert step % job.save_every == 0


def _says_why(node: Object, *, chip: str) -> None:
    assert node["spec"]["unschedulable"]
    (text,) = [
        text for key, text in node["metadata"]["annotations"].items() if key.startswith(HOLD)
    ]  # one hold, one reason
    assert chip in text
    assert str(GPU_STOPPED) in text


def _reasons(stage: Stage, job: TrainingJob) -> set[str]:
    """What people read who describe the job."""
    uid = stage.job_object(job)["metadata"]["uid"]
    events = stage.api.list(paths.events(job.namespace)).items
    return {event["reason"] for event in events if (event.get("involvedObject") or {}).get("uid") == uid}
