"""From kernel lines to chip faults: who the device is, and which two lines are one fault.

Guarantee: every Xid line and every SXid's first line is exactly one signal, with state `once`, whichever source read it; any other line is none.
When a GPU falls off the bus the driver logs Xid 79 and then says the same again without a number. That second line is no second fault: it is
left out when the first came within `SAME_LOSS`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from producers.chips import Chip, KnownChips, chip_ref
from producers.kernel_lines import KernelLine
from producers.xid import OFF_THE_BUS, XID, Fault, GoneThere, Introduced, Name, Said, Unreadable, read_text
from schemas.signals import ChipFault, FaultState, NodeRef

SAME_LOSS: Final = timedelta(seconds=5)
"""The two lines are logged within a millisecond; 5 s, since times of files have whole seconds and clocks are corrected."""

INTRODUCED_FOR: Final = 8
"""Kernel lines between the one that names a device and the one that says it is gone: two of the driver's, and room for others in between."""

LOSSES_KEPT: Final = 64
DETAIL: Final = 2000


class KernelFaults:
    """Reads kernel lines of one node, in order."""

    def __init__(self, node: NodeRef, chips: KnownChips, *, trust_programs: bool = False) -> None:
        """`trust_programs` takes what programs wrote to the log for the kernel's word: for drills only."""
        self._node = node
        self._chips = chips
        self._trust_programs = trust_programs
        self._lost: OrderedDict[str, datetime] = OrderedDict()
        self._introduced: tuple[str, int] | None = None
        self.unreadable = 0
        """Lines that begin as a fault and go on in an unknown way."""

    def read(self, line: KernelLine, at: datetime) -> ChipFault | None:
        """The fault a line tells of, if any; `at` is when the line was logged."""
        if not line.from_kernel and not self._trust_programs:
            return None
        said = self._with_its_device(read_text(line.text))
        match said:
            case Name():
                self._chips.learn(said.bus, said.uuid)
            case Unreadable():
                self.unreadable += 1
            case Fault() if not self._told_before(said, at):
                return self._fault(said, line.text)
        return None

    def state(self) -> dict[str, Any]:
        """What must outlive a restart; small and bounded."""
        return {
            "chips": self._chips.state(),
            "lost": {bus: at.isoformat() for bus, at in self._lost.items()},
            **({"introduced": list(self._introduced)} if self._introduced else {}),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Know again what was known before a restart."""
        self._chips.restore(state.get("chips", {}))
        for bus, at in state.get("lost", {}).items():
            self._note_loss(bus, datetime.fromisoformat(at))
        introduced = state.get("introduced")
        self._introduced = (str(introduced[0]), int(introduced[1])) if introduced else None

    def _with_its_device(self, said: Said | None) -> Said | None:
        """A line that says a device is gone, put together with the one that named it a few lines before."""
        bus, lines_left = self._introduced or ("", 0)
        self._introduced = (bus, lines_left - 1) if lines_left > 1 else None
        if isinstance(said, Introduced):
            self._introduced = (said.bus, INTRODUCED_FOR)
        if not isinstance(said, GoneThere):
            return said
        self._introduced = None
        return Fault(XID, OFF_THE_BUS, bus, numbered=False) if bus else Unreadable()

    def _told_before(self, fault: Fault, at: datetime) -> bool:
        if (fault.namespace, fault.code) != (XID, OFF_THE_BUS):
            return False
        if fault.numbered:
            self._note_loss(fault.bus, at)
            return False
        told = self._lost.get(fault.bus)
        return told is not None and abs(at - told) <= SAME_LOSS

    def _note_loss(self, bus: str, at: datetime) -> None:
        self._lost.pop(bus, None)
        self._lost[bus] = at
        while len(self._lost) > LOSSES_KEPT:
            self._lost.popitem(last=False)

    def _fault(self, fault: Fault, text: str) -> ChipFault:
        chip: Chip | None = self._chips.chip_at(fault.bus) if fault.namespace == XID else None
        return ChipFault(
            node=self._node,
            chip=chip_ref(fault.bus, chip),
            namespace=fault.namespace,
            code=fault.code,
            state=FaultState.ONCE,
            severity=fault.severity,
            product=chip.product if chip else None,
            detail=text[:DETAIL],
        )
