"""A fault that heals, seen in the kernel log of one node: processes restarted in place, on real Kafka, a real control plane, real processes."""

from __future__ import annotations

import pytest

from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.cluster import Desired, ProcessOrder
from schemas.commands import StepName
from schemas.signals import ProcessExit
from schemas.topics import SIGNALS
from tests.end_to_end.seen import containers, finished, recovered, train

GPU_STOPPED = 46  # "GPU timeout: stopped processing": self-heal by reset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


def test_a_fault_in_the_kernel_log_is_healed_in_place(stage: Stage, job: TrainingJob) -> None:
    run = train(stage, job)
    before = containers(stage.pods(job))
    node = stage.node_of(job, 1)
    told = len(stage.effects.repairs(node.uid))

    node.xid(GPU_STOPPED)
    incident = recovered(stage, run)
    finished(stage, job)

    assert incident.strategy == "in_place_recovery"
    assert incident.attempt == 1
    assert containers(stage.pods(job)) == before  # the same pods, the same containers, never restarted
    assert {restarts for _, _, restarts in before} == {0}
    _first, again = job.starts()[: job.ranks], job.starts()[job.ranks :]
    assert sorted(start.rank for start in again) == list(range(job.ranks))  # each once more, no more
    assert {(start.schedule_count, start.start_count) for start in again} == {("1", "2")}
    (resumed,) = {start.step for start in again}
    assert resumed > 0
    assert resumed % job.save_every == 0

    (reset,) = node.resets()  # one effect of the command, counted at the chip
    assert reset.holders == []
    ended = [event.time.timestamp() for event in stage.records.events(SIGNALS)
             if isinstance(event.data, ProcessExit) and event.data.placement.run == run and event.data.start == 1]  # fmt: skip
    assert len(ended) == job.ranks
    assert max(ended) < reset.at < reset.done < min(start.at for start in again)
    for pod_uid, _, _ in before:
        orders = [Desired.from_text(text) for text in stage.effects.orders(pod_uid)]
        assert [order.state for order in orders] == [ProcessOrder.STOP, ProcessOrder.RUN]
    assert len(stage.effects.repairs(node.uid)) - told == 1
    begun = [each.step for each in stage.records.commands(run) if each.action == "begin"]
    assert begun == [StepName.STOP_PROCESSES, StepName.HEAL_CHIPS, StepName.START_PROCESSES]
