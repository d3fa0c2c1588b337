"""Lets faults into a world that somebody else keeps running, by the doors real ones come by; found by the file the world left in its folder.

Nothing is asked of the process that keeps it, but for a node's silence: it finds a mark in the node's folder and does what is marked.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sandbox.demo.world import WORLD_FILE
from sandbox.errors import SandboxError
from sandbox.stage import exporter, processes
from sandbox.stage.node import Chip, KernelLog
from sandbox.stage.simulated_chips import SimulatedChips
from sandbox.training.faults import ask_to_exit


@dataclass(frozen=True)
class Target:
    """A node of the world, as its file has it."""

    name: str
    kernel_log: str
    chips: tuple[Chip, ...]
    simulated: SimulatedChips
    silent: Path

    def chip(self, index: int) -> Chip:
        """One of its chips. Raises SandboxError with how many there are."""
        if not 0 <= index < len(self.chips):
            raise SandboxError(
                f"{self.name} has {len(self.chips)} chips, counted from 0; it has no chip {index}"
            )
        return self.chips[index]


class Faults:
    """The doors of one world."""

    def __init__(self, nodes: dict[str, Target], program: Path, ranks: int, asked: Path, ended: Path) -> None:
        self._nodes = nodes
        self._program = program
        self._ranks = ranks
        self._asked = asked
        self._ended = ended

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Of the world in this folder. Raises SandboxError when there is none."""
        try:
            told = json.loads((folder / WORLD_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise SandboxError(
                f"no world is in {folder}; right would be the folder of `relight sandbox up`, once it says that it runs"
            ) from error
        nodes = {name: _target(name, node) for name, node in told["nodes"].items()}
        return cls(nodes, Path(told["program"]), told["ranks"], Path(told["faults"]), Path(told["ended"]))

    def chip(self, node: str, index: int, code: int) -> str:
        """A line in the kernel log of a node, as the driver writes it. Returns what was done."""
        self._goes_on()
        target = self._node(node, self._reading())
        if not target.kernel_log:
            raise SandboxError(
                f"the agent of {node} reads no kernel log, it has an exporter; "
                f"right would be `scrape`, or one of {', '.join(self._reading())}"
            )
        chip = target.chip(index)
        target.simulated.fault(chip.uuid, str(code))
        KernelLog(Path(target.kernel_log), node).xid(chip, code)
        return f"kernel log of {node}: Xid {code} on chip {chip.uuid}"

    def scrape(self, node: str, index: int, series: str, value: float) -> str:
        """A value on the exporter's page of a node."""
        if series not in exporter.SERIES:
            raise SandboxError(
                f"the exporter shows no {series}; right would be one of {', '.join(exporter.SERIES)}"
            )
        self._goes_on()
        target = self._node(node, self._nodes)
        chip = target.chip(index)
        if series == exporter.XID and value:
            target.simulated.fault(chip.uuid, f"{value:g}")
        target.simulated.show(chip.uuid, series, value)
        return f"exporter of {node}: {series} is {value:g} on chip {chip.uuid}"

    def exit(self, rank: int, code: int) -> str:
        """A training process ends with a code at its next step. Refused where none runs: the wish would wait for one that is not meant."""
        self._known(rank)
        processes.trainer_of(self._program, rank)
        ask_to_exit(self._asked, rank, code)
        return f"rank {rank}: asked to end with code {code} at its next step"

    def kill(self, rank: int, number: signal.Signals) -> str:
        """A signal to a training process, from outside its pod."""
        self._known(rank)
        pid = processes.trainer_of(self._program, rank)
        processes.send(pid, number)
        return f"rank {rank}: {number.name} sent to process {pid}"

    def node(self, node: str, *, back: bool) -> str:
        """Kubelet and agent of a node say and do nothing, until they are let back."""
        target = self._node(node, self._nodes)
        if back:
            target.silent.unlink(missing_ok=True)
            return f"{node}: kubelet and agent are let back"
        self._goes_on()
        target.silent.touch()
        return f"{node}: kubelet and agent are silent; its processes go on"

    def _node(self, name: str, usable: Iterable[str]) -> Target:
        if name not in self._nodes:
            raise SandboxError(f"there is no node {name!r}; right would be one of {', '.join(usable)}")
        return self._nodes[name]

    def _goes_on(self) -> None:
        """Nothing comes of a fault of a job that has ended. Raises SandboxError with what can be done."""
        if self._ended.exists():
            how = self._ended.read_text(encoding="utf-8")
            raise SandboxError(
                f"the job has ended ({how}); right would be to end `relight sandbox up` and start it again"
            )

    def _known(self, rank: int) -> None:
        self._goes_on()
        if not 0 <= rank < self._ranks:
            raise SandboxError(f"the job has ranks 0 to {self._ranks - 1}, none is {rank}")

    def _reading(self) -> list[str]:
        return [node.name for node in self._nodes.values() if node.kernel_log]


def _target(name: str, told: dict[str, Any]) -> Target:
    chips = tuple(Chip(**chip) for chip in told["chips"])
    simulated = SimulatedChips(Path(told["simulated"]), [chip.uuid for chip in chips])
    return Target(name, told["kernel_log"], chips, simulated, Path(told["silent"]))
