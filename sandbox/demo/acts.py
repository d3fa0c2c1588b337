"""What is played, as data and one small function an act: which fault comes in by which door, and what must come of it.

Each act begins with the job training on its three nodes and ends with the job training again; acts may be played alone or in any order that
leaves a node to spare.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from sandbox.stage.node import StageNode

PMU_HALTED: Final = 62
"""Xid 62, "internal micro-controller halted": a reset of the chip heals it. Another code than the second act's: the same on two chips of one
run within half a minute looks like software, and is not counted against a chip."""
GPU_STOPPED: Final = 46
"""Xid 46, "GPU timeout: stopped processing": healed by a reset as well."""
IN_PLACE: Final = "in_place_recovery"
ELSEWHERE: Final = "isolated_job_reschedule"
ANEW: Final = "unconditional_job_reschedule"


class Doors(Protocol):
    """What an act can do to the world, and wait for."""

    def node_of_the_job(self, *, reads_kernel_log: bool) -> StageNode:
        """A node on which a rank runs, whose agent reads the kernel log, or else has an exporter only."""
        ...

    def let_happen(self, told: str, fault: Callable[[], None]) -> None:
        """Say what is done, and do it."""
        ...

    def signal_to(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to the training process of a rank."""
        ...

    def wait_for_recovery(self) -> None:
        """Until the incident is closed and the job has trained on and saved a checkpoint."""
        ...


@dataclass(frozen=True)
class Act:
    """One act.

    Args:
        name: by which it is called.
        title: what it is about, for the headline.
        watch: what to look at, in one sentence.
        recoveries: strategies it must lead to, in order.
        play: does it.
    """

    name: str
    title: str
    watch: str
    recoveries: tuple[str, ...]
    play: Callable[[Doors], None]


def heals_in_place(doors: Doors) -> None:
    """A fault that a reset cures, seen by the exporter of the node."""
    node = doors.node_of_the_job(reads_kernel_log=False)
    doors.let_happen(
        f"scrape: the exporter of {node.name} shows Xid {PMU_HALTED} on chip {node.chips[0].uuid}",
        lambda: node.show_xid(PMU_HALTED),
    )
    doors.wait_for_recovery()


def third_equal_fault(doors: Doors) -> None:
    """The same fault of the same chip three times, seen in the kernel log."""
    node = doors.node_of_the_job(reads_kernel_log=True)
    for number in ("first", "second", "third"):
        doors.let_happen(
            f"kernel log of {node.name}: Xid {GPU_STOPPED} on chip {node.chips[0].uuid}, for the {number} time",
            lambda: node.xid(GPU_STOPPED),
        )
        doors.wait_for_recovery()


def exit_without_fault(doors: Doors) -> None:
    """The training code of one rank fails; no chip has a fault that explains it."""
    doors.let_happen(
        "signal: SIGUSR1 to the training process of rank 1, which ends with code 1 as at a fault of its own code",
        lambda: doors.signal_to(1, signal.SIGUSR1),
    )
    doors.wait_for_recovery()


ACTS: Final = (
    Act(
        "heals",
        "A chip fault that heals",
        "processes are stopped and started again, the chip is reset in between, pods and containers stay",
        (IN_PLACE,),
        heals_in_place,
    ),
    Act(
        "third",
        "The third equal fault of one chip",
        "twice it is healed in place; then its node gets no more work, and the job goes on elsewhere from its checkpoint",
        (IN_PLACE, IN_PLACE, ELSEWHERE),
        third_equal_fault,
    ),
    Act(
        "exit",
        "Exit code 1 and no hardware fault",
        "a moment is given to a hardware fault that would explain it; none comes, so the job is made anew, and no node is blamed",
        (ANEW,),
        exit_without_fault,
    ),
)
