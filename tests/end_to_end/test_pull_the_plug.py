"""The control plane goes away, or all of relight is killed, for good or not: every incident ends right, one effect each."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Final

import pytest

from producers.settings import SupervisorSettings
from sandbox.control_plane import ControlPlane
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.commands import StepName
from tests.end_to_end.plots import (
    GPU_STOPPED,
    LONG_SEEDS,
    PLOTS,
    is_right,
    made_anew_once,
    suspensions,
)
from tests.end_to_end.processes import supervisor
from tests.end_to_end.seen import (
    FINISHED,
    IN_FLIGHT,
    REACHED,
    all_ranks,
    closed,
    containers,
    finished,
    nothing_is_open,
    reached,
    recovered,
    starts,
    train,
)

ETCD_STOPPED: Final = 20.0
HELD: Final = {"RELIGHT_VERDICT_WAIT": "15"}
"""So long an exit waits for a word that nobody will say."""
PROMISED: Final = SupervisorSettings().promise_lasts.total_seconds()
"""So long it waits when the agent had promised one just before it was killed."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def test_an_api_server_that_is_killed_while_a_job_is_made_anew_delays_it_and_changes_nothing(
    stage: Stage, job: TrainingJob, plane: ControlPlane
) -> None:
    job.ask("exit-0", step=40)
    run = train(stage, job)

    reached(stage, run, StepName.SUSPEND_JOB)
    plane.api_server.kill()
    stage.wait("the actuators to say that nobody answers", lambda: _unreachable(stage, run), REACHED)
    plane.api_server.start()
    recovered(stage, run)
    finished(stage, job)

    made_anew_once(stage, job)
    assert stage.isolated() == []


def test_an_etcd_that_stands_still_for_twenty_seconds_isolates_nobody(
    stage: Stage, job: TrainingJob, plane: ControlPlane
) -> None:
    run = train(stage, job)
    node = stage.node_of(job, 1)
    before = containers(stage.pods(job))
    node.behave(seconds=3.0)

    node.xid(GPU_STOPPED)
    reached(stage, run, StepName.HEAL_CHIPS)
    plane.etcd.suspend()
    time.sleep(ETCD_STOPPED)
    plane.etcd.resume()
    ended = closed(stage, run)
    finished(stage, job)

    assert is_right(ended)
    assert stage.isolated() == []
    assert containers(stage.pods(job)) == before
    assert len(node.resets()) == 1
    assert starts(job) == {("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job)}


@pytest.mark.soak
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_all_of_it_killed_for_good_at_any_moment_of_any_strategy(
    stage: Stage, seed: int, record_property: Callable[[str, object], None]
) -> None:
    """Every third round is of a recovery in place, every third of an isolated, every third of an unconditional reschedule."""
    name = list(PLOTS)[seed % len(PLOTS)]
    job = stage.job(f"for-good-{seed}", steps=160, environment=HELD)
    run = train(stage, job)
    before, node = containers(stage.pods(job)), stage.node_of(job, 1)

    PLOTS[name].begin(stage, job, node)
    time.sleep(random.Random(seed).uniform(0.0, PLOTS[name].lasts))
    stage.kill_relight()
    record_property("moment", f"{name}, suspensions {suspensions(stage, job)}")
    time.sleep(IN_FLIGHT)
    stage.note(stage.run("let-go", "--now"))
    finished(stage, job, within=FINISHED + PROMISED)

    if name == "in-place":  # the pods it had, and nobody's order outlives relight for long
        assert containers(stage.pods(job)) == before
        assert all(count[0] == "1" for count in starts(job))
    if suspensions(stage, job):
        assert suspensions(stage, job) == [True, False]
    stage.mend()
    stage.wait("what was open to be closed", lambda: nothing_is_open(stage, run), REACHED)
    if name == "in-place":
        assert stage.isolated() == []


@pytest.mark.parametrize(
    "moment", [StepName.SUSPEND_JOB, pytest.param(StepName.RESUME_JOB, marks=pytest.mark.soak)]
)
def test_all_of_it_killed_while_a_job_is_made_anew_and_started_again_makes_it_anew_once(
    stage: Stage, moment: StepName
) -> None:
    job = stage.job(f"all-at-{moment.value.replace('_', '-')}", steps=160)
    job.ask("exit-0", step=40)
    run = train(stage, job)

    reached(stage, run, moment)
    stage.kill_relight()
    stage.restart_relight()
    ended = closed(stage, run)
    finished(stage, job)

    assert is_right(ended)
    made_anew_once(stage, job)
    assert stage.isolated() == []


@pytest.mark.soak
def test_all_of_it_killed_for_good_between_suspend_and_resume_leaves_a_job_that_is_let_go_with_the_api_server_alone(
    stage: Stage, job: TrainingJob
) -> None:
    job.ask("exit-0", step=40)
    run = train(stage, job)
    slow = supervisor(stage, job, 2)

    slow.suspend()  # its pod takes its whole grace to end, so nothing is resumed before relight is gone
    stage.wait("the job to be suspended", lambda: suspensions(stage, job) == [True], REACHED)
    stage.kill_relight()
    slow.resume()
    early = stage.run("let-go", "--output", "json")
    asked_for_good = stage.run("let-go", "--now", "--output", "json")
    finished(stage, job)

    assert [json.loads(line)["became"] for line in early.splitlines()] == ["waits"]
    assert [json.loads(line)["became"] for line in asked_for_good.splitlines()] == ["resumed"]
    assert starts(job) == {
        ("1", "1"): sorted(all_ranks(job) * 2)
    }  # from its checkpoint, as Kubernetes would have gone on
    stage.mend()  # back after all: it finds the job ended, and closes what it had begun
    stage.wait("what was open to be closed", lambda: nothing_is_open(stage, run), REACHED)
    assert suspensions(stage, job) == [True, False]
    assert stage.isolated() == []


def _unreachable(stage: Stage, run: str) -> bool:
    return any(each.result == "unreachable" for each in stage.records.outcomes(run))
