"""The control plane goes away, parts of relight are killed at any moment, or all of it for good: every incident ends right, one effect each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from sandbox.stage.node import StageNode
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.cluster import Desired, ProcessOrder
from schemas.commands import StepName
from schemas.records import Incident, IncidentResult
from tests.end_to_end.seen import (
    REACHED,
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

GPU_STOPPED: Final = 46  # "GPU timeout: stopped processing": self-heal by reset
ETCD_STOPPED: Final = 20.0
LONGEST: Final = 6.0
"""Seconds from the fault within which something is killed: longer than any of these recoveries takes on an idle machine."""
PARTS: Final = ("recovery", "router", "watcher", "actuators", "agent")
LONG_SEEDS: Final = range(1000, 1030)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def test_an_api_server_that_is_killed_while_a_job_is_made_anew_delays_it_and_changes_nothing(
    stage: Stage, job: TrainingJob
) -> None:
    job.ask("exit-0", step=40)
    run = train(stage, job)

    reached(stage, run, StepName.SUSPEND_JOB)
    stage.plane.api_server.kill()
    stage.wait("the actuators to say that nobody answers", lambda: _unreachable(stage, run), REACHED)
    stage.plane.api_server.start()
    recovered(stage, run)
    finished(stage, job)

    _made_anew_once(stage, job)
    assert stage.isolated() == []


def test_an_etcd_that_stands_still_for_twenty_seconds_isolates_nobody(stage: Stage, job: TrainingJob) -> None:
    run = train(stage, job)
    node = stage.node_of(job, 1)
    before = containers(stage.pods(job))
    node.behave(seconds=3.0)

    node.xid(GPU_STOPPED)
    reached(stage, run, StepName.HEAL_CHIPS)
    stage.plane.etcd.suspend()
    time.sleep(ETCD_STOPPED)
    stage.plane.etcd.resume()
    finished(stage, job)
    ended = closed(stage, run)

    assert _is_right(ended)
    assert stage.isolated() == []
    assert containers(stage.pods(job)) == before
    assert len(node.resets()) == 1
    assert starts(job) == {("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job)}


@dataclass(frozen=True)
class Plot:
    """Something that goes wrong with a job, and what it must have come to, counted at the targets."""

    begin: Callable[[Stage, TrainingJob, StageNode], None]
    check: Callable[[Stage, TrainingJob, StageNode], None]


def _fault(stage: Stage, job: TrainingJob, node: StageNode) -> None:
    del stage, job
    node.xid(GPU_STOPPED)


def _fault_that_does_not_heal(stage: Stage, job: TrainingJob, node: StageNode) -> None:
    node.behave(heals=False)
    _fault(stage, job, node)


def _exit(stage: Stage, job: TrainingJob, node: StageNode) -> None:
    del stage, node
    job.ask("exit-0")


def _restarted_once(stage: Stage, job: TrainingJob, node: StageNode) -> None:
    """In place: the same pods, each stopped once and started once, the chip reset once and under nobody."""
    (reset,) = node.resets()
    assert reset.holders == []
    assert starts(job) == {("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job)}
    for pod in stage.pods(job):
        orders = [Desired.from_text(text) for text in stage.effects.orders(pod["metadata"]["uid"])]
        told = dict.fromkeys((order.attempt, order.state) for order in orders)  # a stop may be renewed
        assert [state for _, state in told] == [ProcessOrder.STOP, ProcessOrder.RUN]
    assert _suspensions(stage, job) == []
    assert stage.isolated() == []


def _moved_once(stage: Stage, job: TrainingJob, node: StageNode) -> None:
    """Tried in place, then isolated and made anew elsewhere."""
    assert len(node.resets()) == 1
    assert stage.effects.isolations(node.uid)[-1:] == [True]
    assert stage.isolated() == [node.name]
    _made_anew_once(stage, job)
    assert node.name not in {pod["spec"]["nodeName"] for pod in stage.pods(job)}


def _made_anew_beside_nobody(stage: Stage, job: TrainingJob, node: StageNode) -> None:
    assert node.resets() == []
    assert stage.isolated() == []
    _made_anew_once(stage, job)


def _made_anew_once(stage: Stage, job: TrainingJob) -> None:
    assert _suspensions(stage, job) == [True, False]
    assert starts(job) == {("1", "1"): all_ranks(job), ("2", "1"): all_ranks(job)}


PLOTS: Final = (
    Plot(_fault, _restarted_once),
    Plot(_fault_that_does_not_heal, _moved_once),
    Plot(_exit, _made_anew_beside_nobody),
)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("part", "seed"), [("recovery", 16), ("watcher", 17), ("actuators", 9), ("agent", 8)]
)
def test_a_part_that_is_killed_at_any_moment_and_started_again(stage: Stage, part: str, seed: int) -> None:
    _round(stage, random.Random(seed), part)


@pytest.mark.soak
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_any_part_that_is_killed_at_any_moment_and_started_again(stage: Stage, seed: int) -> None:
    dice = random.Random(seed)
    _round(stage, dice, dice.choice(PARTS))


def _round(stage: Stage, dice: random.Random, part: str) -> None:
    plot, after = dice.choice(PLOTS), dice.uniform(0.0, LONGEST)
    # A router is given its partitions again when its group has given its predecessor up; the job outlasts that.
    steps = 400 if part == "router" else 160
    job = stage.job(f"plug-{part}-{int(after * 1000)}", steps=steps)
    run = train(stage, job)
    node = stage.node_of(job, 1)
    isolated_before = len(stage.effects.isolations(node.uid))
    victim = stage.programs[node.agent.name if part == "agent" else part]

    plot.begin(stage, job, node)
    time.sleep(after)
    victim.kill()
    victim.start()
    finished(stage, job)
    ended = closed(stage, run)

    assert _is_right(ended), f"{ended}{stage.story()}"
    assert len(stage.records.incidents(run)) == 1
    plot.check(stage, job, node)
    assert len(stage.effects.isolations(node.uid)) - isolated_before <= 1


@pytest.mark.soak
@pytest.mark.parametrize("seed", [5, *LONG_SEEDS])
def test_all_of_it_killed_for_good_at_any_moment_of_a_recovery_in_place(stage: Stage, seed: int) -> None:
    job = stage.job(f"for-good-{seed}", steps=160)
    run = train(stage, job)
    before = containers(stage.pods(job))

    stage.node_of(job, 1).xid(GPU_STOPPED)
    time.sleep(random.Random(seed).uniform(0.0, LONGEST))
    stage.kill_relight()
    finished(stage, job)

    assert (
        containers(stage.pods(job)) == before
    )  # the pods it had, and nobody's order outlives relight for long
    assert all(count[0] == "1" for count in starts(job))
    stage.mend()
    stage.wait("what was open to be closed", lambda: _nothing_is_open(stage, run), REACHED)
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
    finished(stage, job)

    assert _is_right(closed(stage, run))
    _made_anew_once(stage, job)
    assert stage.isolated() == []


def _unreachable(stage: Stage, run: str) -> bool:
    return any(each.result == "unreachable" for each in stage.records.outcomes(run))


def _is_right(ended: Incident) -> bool:
    """Recovered; or the job came to its good end before it was known to be as fast as before."""
    succeeded = (
        (IncidentResult.RUN_ENDED, "succeeded"),
        (IncidentResult.RELEASED, "refused: succeeded"),  # an actuator saw it before the watcher said so
    )
    return ended.result is IncidentResult.RECOVERED or (ended.result, ended.result_cause) in succeeded


def _suspensions(stage: Stage, job: TrainingJob) -> list[bool]:
    return stage.effects.suspensions(stage.job_object(job)["metadata"]["uid"])


def _nothing_is_open(stage: Stage, run: str) -> bool:
    found = incident(stage, run)
    return found is None or found.state == "closed"
