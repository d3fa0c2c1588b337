"""A node of the stage: its kubelet, its node agent, its kernel log and its chips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sandbox.kubelet import Kubelet
from sandbox.stage import exporter
from sandbox.stage.program import Program
from sandbox.stage.simulated_chips import Reset, SimulatedChips

FIRST_BUS: Final = 5


@dataclass(frozen=True)
class Chip:
    """A GPU: where it sits, and who it is."""

    bus: str
    uuid: str


def chips_of(node: str, count: int) -> tuple[Chip, ...]:
    """Chips of a node, the same for the same name."""
    number = sum(node.encode()) % 10_000
    return tuple(
        Chip(
            bus=f"0000:{FIRST_BUS + index:02x}:00",
            uuid=f"GPU-{number:08d}-0000-4000-8000-{index:012d}",
        )
        for index in range(count)
    )


class KernelLog:
    """A file the node's kernel would write, as `/var/log/kern.log`."""

    def __init__(self, path: Path, host: str) -> None:
        self.path = path
        self._host = host
        path.touch()

    def write(self, text: str) -> None:
        """One line, now."""
        stamp = datetime.now(UTC).isoformat(timespec="microseconds")
        with self.path.open("a", encoding="utf-8") as log:
            log.write(f"{stamp} {self._host} kernel: {text}\n")

    def name_chips(self, chips: Sequence[Chip]) -> None:
        """What the driver says when it is loaded."""
        for chip in chips:
            self.write(f"NVRM: GPU at PCI:{chip.bus}: {chip.uuid}")

    def xid(self, chip: Chip, code: int) -> None:
        """A fault of a chip, as the driver says it: its name, then the code."""
        self.name_chips([chip])
        self.write(f"NVRM: Xid (PCI:{chip.bus}): {code}, pid=4711, name=python3, Ch 00000008")


@dataclass
class StageNode:
    """One node with everything that is on it."""

    name: str
    uid: str
    folder: Path
    kubelet: Kubelet
    agent: Program
    log: KernelLog
    chips: tuple[Chip, ...]
    simulated: SimulatedChips
    reads_kernel_log: bool = True
    """Its agent does; otherwise it knows of faults what the exporter shows."""

    def xid(self, code: int, chip: int = 0) -> None:
        """A fault of one of its chips: the code stands on the chip, and the kernel log says so."""
        self.simulated.fault(self.chips[chip].uuid, str(code))
        self.log.xid(self.chips[chip], code)

    def show_xid(self, code: int, chip: int = 0) -> None:
        """The same, seen by an exporter and not in the kernel log."""
        self.simulated.fault(self.chips[chip].uuid, str(code))
        self.simulated.show(self.chips[chip].uuid, exporter.XID, code)

    def behave(self, chip: int = 0, *, heals: bool = True, seconds: float = 0.2) -> None:
        """Whether a reset cures a chip, and how long it takes."""
        self.simulated.behave(self.chips[chip].uuid, heals=heals, seconds=seconds)

    def resets(self, chip: int = 0) -> list[Reset]:
        """Resets of a chip, as it saw them."""
        return self.simulated.resets(self.chips[chip].uuid)

    def mend(self) -> None:
        """A kubelet that is there, and chips without a fault that heal."""
        self.kubelet.start()
        self.kubelet.resume_heartbeats()
        for chip in self.chips:
            self.simulated.mend(chip.uuid)

    def close(self) -> None:
        """End the kubelet and its pods; the agent is a program of the stage."""
        self.kubelet.stop()
