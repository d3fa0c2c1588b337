"""Relight killed as a whole: for good, and the jobs end as they would without it; or started again, and what it began is done once."""

from __future__ import annotations

import time

import pytest

from sandbox.stage.stage import Stage
from schemas.commands import StepName
from schemas.records import IncidentState
from schemas.signals import ProcessExit
from schemas.topics import SIGNALS
from tests.end_to_end.seen import (
    IN_FLIGHT,
    all_ranks,
    containers,
    finished,
    incident,
    nothing_is_open,
    reached,
    recovered,
    starts,
    train,
    under_way,
)

GPU_STOPPED = 46  # "GPU timeout: stopped processing": self-heal by reset
HELD = {"RELIGHT_VERDICT_WAIT": "15"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.mark.usefixtures("short_waits")
def test_killed_for_good_at_every_step_it_leaves_each_job_to_its_own_end(stage: Stage) -> None:
    """Four jobs of one rank, each at another step of its recovery, and then nobody is left to end any of them."""
    names = ("just-told", "healing", "held", "stabilising")
    jobs = {name: stage.job(f"gone-{name}", ranks=1, environment=HELD, stable_within=0.0) for name in names}
    for job in jobs.values():
        job.ask("hang-0", step=40)  # so that none ends before all are where they should be
    runs = {name: stage.submit(job) for name, job in jobs.items()}
    for job in jobs.values():
        under_way(stage, job)
    nodes = {name: stage.node_of(job, 0) for name, job in jobs.items()}
    before = {name: containers(stage.pods(job)) for name, job in jobs.items()}

    nodes["stabilising"].xid(GPU_STOPPED)
    stage.wait("it to run again", lambda: _is_stabilising(stage, runs["stabilising"]), 60.0)
    nodes["healing"].behave(seconds=600.0)
    nodes["healing"].xid(GPU_STOPPED)
    reached(stage, runs["healing"], StepName.HEAL_CHIPS)
    jobs["held"].ask("exit-0")
    jobs["held"].let_go("hang-0")
    stage.wait("its exit to be seen", lambda: _exits(stage, runs["held"]), 30.0)
    nodes["just-told"].xid(GPU_STOPPED)
    stage.kill_relight()
    time.sleep(IN_FLIGHT)
    ordered = {name: stage.effects.orders(before[name][0][0]) for name in names}
    for job in jobs.values():
        job.let_go("hang-0")

    for job in jobs.values():
        finished(stage, job)

    for name in ("just-told", "healing", "stabilising"):
        assert containers(stage.pods(jobs[name])) == before[name], name  # kept, whatever step they were at
    assert starts(jobs["healing"]) == {
        ("1", "1"): [0],
        ("1", "2"): [0],
    }  # by itself, when its order had run out
    assert starts(jobs["stabilising"]) == {("1", "1"): [0], ("1", "2"): [0]}
    ended = next(pod for pod in stage.pods(jobs["held"]) if pod["metadata"]["uid"] == before["held"][0][0])
    (status,) = ended["status"]["containerStatuses"]
    assert (
        status["state"]["terminated"]["exitCode"] == 1
    )  # its own code; what followed is Kubernetes' own policy
    assert {name: stage.effects.orders(before[name][0][0]) for name in names} == ordered

    stage.mend()  # back again: it finds the jobs ended, and closes what it had begun
    for name, run in runs.items():
        stage.wait(f"the incident of {name} to be closed", lambda run=run: nothing_is_open(stage, run), 60.0)  # type: ignore[misc]
    assert {name: stage.effects.orders(before[name][0][0]) for name in names} == ordered
    assert stage.isolated() == []  # nobody looked at the chip meanwhile, so nothing is concluded from that


@pytest.mark.parametrize("moment", [StepName.STOP_PROCESSES, StepName.HEAL_CHIPS, StepName.START_PROCESSES])
def test_killed_and_started_again_it_does_once_what_it_had_begun(stage: Stage, moment: StepName) -> None:
    # Long enough to be at work still when all of relight is back: nobody waits for relight here.
    job = stage.job(f"again-{moment.value.replace('_', '-')}", steps=700)
    run = train(stage, job)
    before = containers(stage.pods(job))
    node = stage.node_of(job, 1)

    node.xid(GPU_STOPPED)
    reached(stage, run, moment)
    stage.kill_relight()
    stage.restart_relight()
    recovered(stage, run)
    finished(stage, job)

    assert containers(stage.pods(job)) == before
    assert len(node.resets()) == 1
    assert starts(job) == {("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job)}
    assert [len(stage.effects.orders(uid)) for uid, _, _ in before] == [2] * job.ranks


def _is_stabilising(stage: Stage, run: str) -> bool:
    found = incident(stage, run)
    return found is not None and found.state is IncidentState.STABILISING


def _exits(stage: Stage, run: str) -> list[ProcessExit]:
    return [exit_ for exit_ in stage.records.of(ProcessExit, SIGNALS) if exit_.placement.run == run]
