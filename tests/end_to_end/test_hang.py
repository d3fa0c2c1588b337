"""A rank that hangs: its node's agent sees it by the steps it no longer tells, and all ranks are restarted in their containers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.commands import StepName
from schemas.signals import HangEvidence
from schemas.topics import SIGNALS
from tests.end_to_end.seen import all_ranks, containers, decided, finished, recovered, starts, train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


def test_a_rank_that_hangs_is_seen_by_its_silence_and_all_are_restarted_in_place(
    stage: Stage, job: TrainingJob
) -> None:
    job = replace(
        job,
        environment={**job.environment, "MA_HANG_DETECT_TIME": "0.1"},
        annotations={**job.annotations, "fault-tolerance/hang-retry": "true"},
    )
    job.ask("hang-1", step=60)
    run = train(stage, job)
    before = containers(stage.pods(job))

    decision = decided(stage, run, "hang_restart")
    job.let_go("hang-1")
    recovered(stage, run)
    finished(stage, job)

    told = [event.data for event in stage.records.events(SIGNALS) if isinstance(event.data, HangEvidence)]
    ours = [seen for seen in told if seen.placement.run == run]
    assert {(seen.state, seen.method, seen.start) for seen in ours} == {("stalled", "steps", 1)}
    assert (decision.rule, decision.row) == ("hang", "7")
    assert decision.counters is not None
    assert (decision.counters.hang_chain, decision.counters.job_retries_used) == (1, 0)
    assert starts(job) == {("1", "1"): all_ranks(job), ("1", "2"): all_ranks(job)}
    assert containers(stage.pods(job)) == before
    begun = [each.step for each in stage.records.commands(run) if each.action == "begin"]
    assert begun == [StepName.STOP_PROCESSES, StepName.START_PROCESSES]
    assert job.results() == {job.expected_result()}
