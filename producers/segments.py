"""Segments of the spool: files of records, each with its length and checksum, written only at their end.

Guarantees: a record is read whole or not at all. A span that holds no valid record is found by its checksum and skipped to the next valid one,
so that one bad byte costs one record. A record is one batch: a line that says where it came from, then one line an event.

The checksum is CRC-32 from the standard library: it guards against torn writes and bad disks, not against people.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from producers.observation import SignalClass

MAGIC: Final = b"RLS1"
_HEADER: Final = struct.Struct("<4sIIQIB")
"""Magic, checksum of all that follows, bytes of the payload, first sequence number, how many of them, class."""

_CHECKED_FROM: Final = 8
HEADER_BYTES: Final = _HEADER.size
LARGEST_RECORD: Final = 16 * 1024 * 1024
_SUFFIX: Final = ".segment"
_VOID: Final = 255
_CLASSES: Final = {1: SignalClass.FAULT, 2: SignalClass.EXIT, 3: SignalClass.METRIC}
_NUMBERS: Final = {kind: number for number, kind in _CLASSES.items()}

Write = Callable[[int, bytes], int]


class Lane(Enum):
    """Two rows of segments, so that metrics can be dropped without touching what must be kept."""

    KEPT = "kept"
    METRIC = "metric"


def lane_of(kind: SignalClass) -> Lane:
    """Faults and exits are kept; metrics may go."""
    return Lane.METRIC if kind is SignalClass.METRIC else Lane.KEPT


@dataclass(frozen=True, slots=True)
class Record:
    """One batch as it stands in a file. `kind` is None where a damaged span was blotted out."""

    offset: int
    size: int
    first: int
    count: int
    kind: SignalClass | None
    payload: bytes

    @property
    def last(self) -> int:
        """Sequence number of its last event; one below `first` when it holds none."""
        return self.first + self.count - 1


@dataclass(frozen=True, slots=True)
class Damage:
    """A span without a valid record; `tail`: nothing valid follows it."""

    offset: int
    size: int
    tail: bool


def frame(kind: SignalClass, first: int, count: int, payload: bytes) -> bytes:
    """Bytes of one record."""
    return _frame(_NUMBERS[kind], first, count, payload)


def _frame(kind: int, first: int, count: int, payload: bytes) -> bytes:
    tail = _HEADER.pack(MAGIC, 0, len(payload), first, count, kind)[_CHECKED_FROM:] + payload
    return MAGIC + zlib.crc32(tail).to_bytes(4, "little") + tail


def read_at(file: int, offset: int, end: int) -> Record | Damage | None:
    """The record at `offset`, the damaged span there, or None at the end."""
    if offset >= end:
        return None
    header = os.pread(file, HEADER_BYTES, offset)
    if len(header) == HEADER_BYTES:
        length = _HEADER.unpack(header)[2]
        if header.startswith(MAGIC) and length <= LARGEST_RECORD and offset + HEADER_BYTES + length <= end:
            record = _parse(header + os.pread(file, length, offset + HEADER_BYTES), offset)
            if record is not None:
                return record
    return _damage(os.pread(file, end - offset, offset), offset)


def _parse(raw: bytes, offset: int) -> Record | None:
    _, checksum, length, first, count, kind = _HEADER.unpack_from(raw)
    if len(raw) != HEADER_BYTES + length or zlib.crc32(raw[_CHECKED_FROM:]) != checksum:
        return None
    return Record(offset, len(raw), first, count, _CLASSES.get(kind), raw[HEADER_BYTES:])


def _damage(rest: bytes, offset: int) -> Damage:
    at = rest.find(MAGIC, 1)
    while at >= 0 and len(rest) - at >= HEADER_BYTES:
        length = _HEADER.unpack_from(rest, at)[2]
        if _parse(rest[at : at + HEADER_BYTES + length], offset + at) is not None:
            return Damage(offset, at, tail=False)
        at = rest.find(MAGIC, at + 1)
    return Damage(offset, len(rest), tail=True)


def blot_out(file: int, damage: Damage) -> bool:
    """Turn a damaged span into a valid record that says nothing, so that it is told only once; False when it is too short."""
    if damage.size < HEADER_BYTES:
        return False
    rest = os.pread(file, damage.size - HEADER_BYTES, damage.offset + HEADER_BYTES)
    os.pwrite(file, _frame(_VOID, 0, 0, rest), damage.offset)
    return True


@dataclass(frozen=True, slots=True)
class Head:
    """First line of a record: the source, its state after the batch, the Kafka keys, when it was spooled (Unix seconds)."""

    source: str
    state: dict[str, Any] | None
    keys: tuple[str, ...]
    at: float


def pack(head: Head, values: Sequence[bytes]) -> bytes:
    """Payload of a record; an event's JSON has no line breaks, so lines keep them apart."""
    first = {"source": head.source, "state": head.state, "keys": list(head.keys), "at": head.at}
    return b"\n".join((json.dumps(first, separators=(",", ":")).encode(), *values))


def unpack(payload: bytes) -> tuple[Head, list[bytes]]:
    """The head and the events of a record."""
    first, *values = payload.split(b"\n")
    head = json.loads(first)
    return Head(head["source"], head["state"], tuple(head["keys"]), head["at"]), values


@dataclass(slots=True)
class Segment:
    """One file; `last` is the highest sequence number in it, `counts` its events by class."""

    path: Path
    lane: Lane
    first: int
    file: int
    size: int = 0
    last: int = -1
    counts: dict[SignalClass, int] = field(default_factory=dict)

    def note(self, record: Record) -> None:
        """Count a record that stands in the file."""
        if record.kind is None:
            return
        self.last = max(self.last, record.last)
        self.counts[record.kind] = self.counts.get(record.kind, 0) + record.count

    def append(self, kind: SignalClass, first: int, count: int, payload: bytes, write: Write) -> None:
        """Write one record behind the last. On OSError (disk full) nothing of it is left behind."""
        raw = frame(kind, first, count, payload)
        done = 0
        os.lseek(self.file, self.size, os.SEEK_SET)
        try:
            while done < len(raw):
                done += write(self.file, raw[done:])
        except OSError:
            os.ftruncate(self.file, self.size)
            raise
        self.note(Record(self.size, len(raw), first, count, kind, b""))
        self.size += len(raw)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.file)


def open_segment(path: Path) -> Segment:
    """Open a file by its name, without reading it."""
    lane, _, first = path.stem.partition("-")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return Segment(path, Lane(lane), int(first), file, size=os.fstat(file).st_size)


def new_segment(folder: Path, lane: Lane, first: int) -> Segment:
    """Make an empty segment whose first event will be `first`."""
    return open_segment(folder / f"{lane.value}-{first:020d}{_SUFFIX}")


def found_segments(folder: Path) -> list[Path]:
    """Segment files in order of their first sequence number."""
    return sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stem.partition("-")[2])
