"""Which chip sits on a PCI bus: from the bus id a kernel line names to the identity that outlives a reboot.

Index and bus move when a board is lost; the UUID does not (recovery 0). The driver names it under `/proc/driver/nvidia/gpus`, and prints it into
the kernel log right before the first Xid of a chip. A chip that fell off the bus is no longer named, so what was known once is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import re2

from schemas.signals import ChipRef

KNOWN_KEPT: Final = 256
"""Chips remembered; a node has at most a few dozen, and a hostile log must not fill the memory."""

_BUS: Final = re2.compile(r"^(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2,4}):([0-9A-Fa-f]{2})(?:\.[0-7])?$")
_GPU_UUID: Final = re2.compile(r"^(?:GPU|MIG)-[0-9A-Fa-f-]{8,64}$")


@dataclass(frozen=True, slots=True)
class Chip:
    """Identity of one chip and the product it is, where the driver says so."""

    uuid: str
    product: str | None = None


class ChipResolver(Protocol):
    """Knows chips by their bus."""

    def chip_at(self, bus: str) -> Chip | None:
        """The chip on this bus (in the form of `plain_bus`), or None when nobody knows."""
        ...


def plain_bus(text: str) -> str | None:
    """One form for all spellings: `0000:05:00` for `PCI:0000:05:00.0`, `00000000:05:00.0` and `0005:00`; None when it is no bus.

    The function number is left out: GPUs are known by their device. Drivers before 2012 wrote `bus:device` without a domain.
    """
    found = _BUS.match(text.removeprefix("PCI:"))
    if found is None:
        return None
    domain, bus, device = found[1] or "0", found[2], found[3]
    if int(bus, 16) > 0xFF:  # noqa: PLR2004 - PCI has 256 buses a domain
        return None
    return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{device.lower()}"


def chip_ref(bus: str, chip: Chip | None) -> ChipRef:
    """The chip by its UUID, or by the bus where nobody knows better."""
    return ChipRef(id=chip.uuid if chip else f"bus:{bus}", bus=bus)


class KnownChips:
    """Chips that are given, that the log named, or that another resolver knows; the first of these that answers."""

    def __init__(self, given: Mapping[str, Chip] | None = None, resolver: ChipResolver | None = None) -> None:
        """`given` maps plain buses to chips (site configuration, tests)."""
        self._given = dict(given or {})
        self._resolver = resolver
        self._seen: OrderedDict[str, Chip] = OrderedDict()

    def chip_at(self, bus: str) -> Chip | None:
        """The chip on this bus, or None."""
        if bus in self._given:
            return self._given[bus]
        now = self._resolver.chip_at(bus) if self._resolver else None
        if now is not None:
            self._remember(bus, now)
        return now or self._seen.get(bus)

    def learn(self, bus: str, uuid: str) -> None:
        """The kernel log named a chip."""
        self._remember(bus, Chip(uuid))

    def state(self) -> dict[str, str]:
        """What was learnt, to be kept over a restart."""
        return {bus: chip.uuid for bus, chip in self._seen.items()}

    def restore(self, state: Mapping[str, str]) -> None:
        """Know again what was known before a restart."""
        for bus, uuid in state.items():
            self._remember(bus, Chip(uuid))

    def _remember(self, bus: str, chip: Chip) -> None:
        if self._seen.get(bus) == chip:
            return
        self._seen.pop(bus, None)
        self._seen[bus] = chip
        while len(self._seen) > KNOWN_KEPT:
            self._seen.popitem(last=False)


class NvidiaDriverChips:
    """Asks the NVIDIA driver's files, one a GPU: `<root>/<domain:bus:device.function>/information`."""

    def __init__(self, root: Path = Path("/proc/driver/nvidia/gpus")) -> None:
        self._root = root

    def chip_at(self, bus: str) -> Chip | None:
        """The chip on this bus; None without driver, or when the driver no longer knows (`GPU-????????-...`)."""
        try:
            text = (self._root / f"{bus}.0" / "information").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = dict(_field(line) for line in text.splitlines() if ":" in line)
        uuid = fields.get("GPU UUID", "")
        if not is_gpu_uuid(uuid):
            return None
        return Chip(uuid, fields.get("Model") or None)


def is_gpu_uuid(text: str) -> bool:
    """Whether this is an identity and not the question marks of a lost chip."""
    return _GPU_UUID.match(text) is not None


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()
