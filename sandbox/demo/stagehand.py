"""Does what acts ask for, on a world, through the doors real faults come by; waits on what the world shows from outside."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from runtime.kubernetes import Object
from sandbox.demo.world import World
from sandbox.errors import SandboxError
from sandbox.stage import processes
from sandbox.stage.node import StageNode
from schemas.records import IncidentState

# Generous: nothing waits longer than it must, and a busy laptop is slow, not broken.
UNDER_WAY: Final = 180.0
RECOVERED: Final = 300.0
FINISHED: Final = 300.0


@dataclass(frozen=True)
class Injected:
    """A fault that was let in."""

    told: str
    node: str
    """On which it shows; empty: on none."""
    pods: tuple[Object, ...]
    """Pods of the job just before."""


class Stagehand:
    """See `acts.Doors`."""

    def __init__(self, world: World, say: Callable[[str], None]) -> None:
        self._world = world
        self._stage = world.stage
        self._say = say
        self._node = ""
        self.injected: list[Injected] = []

    def wait_until_it_trains(self) -> None:
        """Until the job has saved something and every chip is told by its exporter."""
        self._stage.wait("the job's first checkpoint", self._world.job.saved_steps, UNDER_WAY)

    def node_of_the_job(self, *, reads_kernel_log: bool) -> StageNode:
        """The first in the order of ranks."""
        ranks = range(self._world.job.ranks)
        for node in (self._stage.node_of(self._world.job, rank) for rank in ranks):
            if node.reads_kernel_log == reads_kernel_log:
                self._node = node.name
                return node
        raise SandboxError("the job runs on no such node; right would be an act for which the nodes are left")

    def let_happen(self, told: str, fault: Callable[[], None]) -> None:
        """Say it first: what is seen comes within the second."""
        self.injected.append(Injected(told, self._node, tuple(self._stage.pods(self._world.job))))
        self._say(told)
        fault()

    def signal_to(self, rank: int, number: signal.Signals) -> None:
        """To the process itself, from outside its pod."""
        self._node = ""
        processes.send(processes.trainer_of(self._world.job.program, rank), number)

    def wait_for_recovery(self) -> None:
        """Closed, whatever its result: the checks judge that."""
        number = len(self.injected)
        self._stage.wait(f"the end of recovery {number}", lambda: self._is_closed(number), RECOVERED)
        job = self._world.job
        reached = max(start.step for start in job.starts()[-job.ranks :])
        self._stage.wait(
            "the job to save again", lambda: (saved := job.saved_steps()) and saved[-1] > reached, UNDER_WAY
        )

    def wait_for_the_end(self) -> str:
        """`Complete` or `Failed`, once the job has ended."""
        return self._stage.wait("the job's end", lambda: self._stage.job_ended(self._world.job), FINISHED)

    def _is_closed(self, number: int) -> bool:
        incidents = self._stage.records.incidents(self._world.run)
        return len(incidents) >= number and incidents[number - 1].state is IncidentState.CLOSED
