"""What goes wrong with a job in rounds that kill or stop a part of relight meanwhile, and what it must have come to, counted at the targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sandbox.stage.node import StageNode
from sandbox.stage.stage import Stage
from sandbox.stage.training_job import TrainingJob
from schemas.cluster import Desired, ProcessOrder
from schemas.records import Incident, IncidentResult
from tests.end_to_end.seen import all_ranks, starts

GPU_STOPPED: Final = 46  # "GPU timeout: stopped processing": self-heal by reset
LONG_SEEDS: Final = range(1000, 1030)


@dataclass(frozen=True)
class Plot:
    """Something that goes wrong with a job.

    Args:
        begin: lets it go wrong.
        check: what it must have come to.
        lasts: seconds from the fault to the end of the last step, on an idle machine: moments are drawn from these.
    """

    begin: Callable[[Stage, TrainingJob, StageNode], None]
    check: Callable[[Stage, TrainingJob, StageNode], None]
    lasts: float


def is_right(ended: Incident) -> bool:
    """Recovered; or the job came to its good end before it was known to be as fast as before."""
    succeeded = (IncidentResult.RUN_ENDED, "succeeded")
    return ended.result is IncidentResult.RECOVERED or (ended.result, ended.result_cause) == succeeded


def made_anew_once(stage: Stage, job: TrainingJob) -> None:
    """Suspended once, resumed once, and each rank started once before and once after."""
    assert suspensions(stage, job) == [True, False]
    assert starts(job) == {("1", "1"): all_ranks(job), ("2", "1"): all_ranks(job)}


def suspensions(stage: Stage, job: TrainingJob) -> list[bool]:
    """Whether the job was suspended, each time that changed."""
    return stage.effects.suspensions(stage.job_object(job)["metadata"]["uid"])


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
    assert suspensions(stage, job) == []
    assert stage.isolated() == []


def _moved_once(stage: Stage, job: TrainingJob, node: StageNode) -> None:
    """Tried in place, then isolated and made anew elsewhere."""
    assert len(node.resets()) == 1
    assert stage.effects.isolations(node.uid)[-1:] == [True]
    assert stage.isolated() == [node.name]
    made_anew_once(stage, job)
    assert node.name not in {pod["spec"]["nodeName"] for pod in stage.pods(job)}


def _made_anew_beside_nobody(stage: Stage, job: TrainingJob, node: StageNode) -> None:
    assert node.resets() == []
    assert stage.isolated() == []
    made_anew_once(stage, job)


PLOTS: Final = {
    "in-place": Plot(_fault, _restarted_once, lasts=2.0),
    "isolated": Plot(_fault_that_does_not_heal, _moved_once, lasts=4.0),
    "unconditional": Plot(_exit, _made_anew_beside_nobody, lasts=6.0),
}
"""By the strategy that ends it."""
