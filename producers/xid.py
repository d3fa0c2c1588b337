"""Grammar of NVIDIA's kernel lines: Xid, SXid, the name of a chip, a chip that fell off the bus.

Guarantees: linear time whatever the line (RE2); only the text right behind the kernel's own prefix counts, so that a quotation is no fault. One
line is at most one fault. A driver that finds a GPU gone when it is loaded says so in three lines: the first names the device, the last says
that it is gone. An SXid is logged as three lines; the first, which says Fatal or Non-fatal, is the fault, and the two with `Severity`
and `Data` only describe it (NVIDIA/nvtrust issue 124 shows such a log).

The severity is the line's own word and decides only where the code table leaves the class to it (rules/default/tables/README.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import re2

from producers.chips import is_gpu_uuid, plain_bus
from schemas.signals import Severity

XID: Final = "xid"
SXID: Final = "sxid"
OFF_THE_BUS: Final = "79"
"""Xid of a GPU that fell off the bus; the driver's line without a number means the same (tables/README.md)."""

RECOVERY_ACTION: Final = "154"
NVLINK5: Final = frozenset(str(code) for code in range(144, 151))

_XID: Final = re2.compile(r"^NVRM: Xid \(([^ )]{4,24})(?: [^)]{0,32})?\): ([0-9]{1,4})(?:[, ](.*))?$")
_SXID: Final = re2.compile(
    r"^nvidia-[a-z]{2,16}[0-9]{1,4}: SXid \(([^ )]{4,24})\): ([0-9]{1,6}), (Fatal|Non-fatal)\b"
)
_SXID_DETAIL: Final = re2.compile(
    r"^nvidia-[a-z]{2,16}[0-9]{1,4}: SXid \([^ )]{4,24}\): [0-9]{1,6}, (?:Severity |Data \{)"
)
_NAMED: Final = re2.compile(r"^NVRM: GPU at ([^ ]{4,24}): (GPU-[0-9A-Fa-f-]{8,64})\s*$")
_OFF: Final = re2.compile(
    r"^NVRM: (?:The )?GPU (?:at )?([0-9A-Za-z:.]{4,24}?):? (?:GPU )?has fallen off the bus\b"
)
_ABSENT: Final = re2.compile(r"^NVRM: The NVIDIA GPU ([0-9A-Fa-f:.]{4,24})\s*$")
_ABSENT_END: Final = re2.compile(r"^\s{0,32}NVRM: fallen off the bus\b")
_FATAL: Final = re2.compile(r"(?i)^[A-Z0-9_]{1,32} {1,16}(non-?fatal|fatal)\b")
_ACTION: Final = re2.compile(r"to 0x[0-9A-Fa-f]{1,8} \(([^)]{1,40})\)")

_ACTIONS: Final = {
    "none": Severity.NOTICE,
    "drain p2p": Severity.MAJOR,
    "drain and reset": Severity.MAJOR,
    "gpu reset required": Severity.MAJOR,
    "node reboot required": Severity.CRITICAL,
}
"""What the driver asks for in Xid 154, as the severity the code tables expect."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the device on `bus`; `numbered` is False for a line that says it in words only."""

    namespace: str
    code: str
    bus: str
    severity: Severity | None = None
    numbered: bool = True


@dataclass(frozen=True, slots=True)
class Name:
    """The driver says which chip sits on a bus."""

    bus: str
    uuid: str


@dataclass(frozen=True, slots=True)
class Introduced:
    """The driver begins to say something about the device on `bus`, in the lines that follow."""

    bus: str


@dataclass(frozen=True, slots=True)
class GoneThere:
    """The device of the lines before fell off the bus."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that begins as a fault and goes on in a way this release does not know: counted, never guessed."""


Said = Fault | Name | Introduced | GoneThere | Unreadable


def read_text(text: str) -> Said | None:
    """What the text of one kernel line says; None for anything else."""
    if _ABSENT_END.match(text) is not None:
        return GoneThere()
    if text.startswith("NVRM: "):
        return _read_gpu(text)
    if ": SXid " in text and text.startswith("nvidia-"):
        return _read_switch(text)
    return None


def _read_gpu(text: str) -> Said | None:
    if text.startswith("NVRM: Xid"):
        return _read_xid(text)
    named = _NAMED.match(text)
    if named is not None:
        bus = plain_bus(named[1])
        return Name(bus, named[2]) if bus and is_gpu_uuid(named[2]) else None
    absent = _ABSENT.match(text)
    if absent is not None:
        bus = plain_bus(absent[1])
        return Introduced(bus) if bus else None
    off = _OFF.match(text)
    if off is None:
        return None
    bus = plain_bus(off[1].removesuffix(":"))
    return Fault(XID, OFF_THE_BUS, bus, numbered=False) if bus else Unreadable()


def _read_xid(text: str) -> Said:
    found = _XID.match(text)
    bus = plain_bus(found[1]) if found else None
    if found is None or bus is None:
        return Unreadable()
    code = str(int(found[2]))
    return Fault(XID, code, bus, _severity_of_xid(code, (found[3] or "").strip()))


def _severity_of_xid(code: str, said: str) -> Severity | None:
    if code == RECOVERY_ACTION:
        action = _ACTION.search(said)
        return _ACTIONS.get(action[1].strip().lower()) if action else None
    if code not in NVLINK5:
        return None
    fatal = _FATAL.match(said)
    return _severity_of_word(fatal[1]) if fatal else None


def _read_switch(text: str) -> Said | None:
    found = _SXID.match(text)
    if found is None:
        return None if _SXID_DETAIL.match(text) else Unreadable()
    bus = plain_bus(found[1])
    if bus is None:
        return Unreadable()
    return Fault(SXID, str(int(found[2])), bus, _severity_of_word(found[3]))


def _severity_of_word(word: str) -> Severity:
    return Severity.MAJOR if word.lower() == "fatal" else Severity.NOTICE
