"""Files of the spool: append-only segments of frames, one class of signals each.

A frame is what one batch put in: a length, a checksum (CRC-32), and the records with their source and its state. It is there whole or not at
all: reading ends at the first frame that is cut short or fails its checksum, and what lies behind it counts as damaged. The name of a segment
says its first sequence number and its class, so that a folder can be put in order without opening a file.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from producers.disk import Disk
from producers.observation import SignalClass, State

SUFFIX: Final = ".seg"
LARGEST_FRAME: Final = 64 * 1024 * 1024
"""Bytes; a larger length in a file is damage."""

_PREFIX: Final = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Frame:
    """One batch on disk; its records are numbered from `sequence` on."""

    sequence: int
    source: str
    state: State | None
    records: tuple[tuple[bytes, bytes], ...]
    """(Kafka key, event) in order."""

    @property
    def last(self) -> int:
        """Number of the last record."""
        return self.sequence + len(self.records) - 1


@dataclass(frozen=True, slots=True)
class FrameAt:
    """Where a frame lies."""

    segment: Segment
    sequence: int
    count: int
    offset: int
    length: int

    @property
    def last(self) -> int:
        """Number of the last record."""
        return self.sequence + self.count - 1


@dataclass(eq=False, slots=True)
class Segment:
    """One file. `file` is open while it is written to."""

    path: Path
    kind: SignalClass
    first: int
    last: int
    size: int = 0
    file: int | None = field(default=None, repr=False)

    @classmethod
    def create(cls, folder: Path, kind: SignalClass, first: int, disk: Disk) -> Segment:
        """A new segment, open for appending."""
        path = folder / f"{first:020d}.{kind.value}{SUFFIX}"
        disk.remove(path)  # empty, or it would be known: a start that was killed before its first frame
        return cls(path, kind, first, first - 1, file=disk.create(path))

    def append(self, frame: Frame, raw: bytes, disk: Disk, *, sync: bool) -> FrameAt:
        """Write an encoded frame. Raises OSError, with the file as before, when the disk does not take it."""
        assert self.file is not None  # noqa: S101 - a closed segment is never appended to
        try:
            disk.write(self.file, raw)
            if sync:
                disk.sync(self.file)
        except OSError:
            disk.cut(self.path, self.size)
            raise
        place = FrameAt(self, frame.sequence, len(frame.records), self.size, len(raw))
        self.size += len(raw)
        self.last = frame.last
        return place

    def read(self, place: FrameAt) -> Frame | None:
        """Read one frame back; None when it is damaged."""
        with self.path.open("rb") as file:
            file.seek(place.offset)
            return decode_frame(file.read(place.length))

    def close(self) -> None:
        """No more appending."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


@dataclass(frozen=True, slots=True)
class Found:
    """A segment as it was found on disk; `damaged` counts the bytes at its end that cannot be read."""

    segment: Segment
    frames: tuple[tuple[FrameAt, Frame], ...]
    damaged: int


def encode_frame(frame: Frame) -> bytes:
    """Bytes of a frame: length, checksum, one line of JSON, the events one after the other."""
    head = {
        "sequence": frame.sequence,
        "source": frame.source,
        "state": frame.state,
        "records": [[key.decode(), len(value)] for key, value in frame.records],
    }
    body = json.dumps(head, separators=(",", ":")).encode() + b"\n" + b"".join(v for _, v in frame.records)
    return _PREFIX.pack(len(body), zlib.crc32(body)) + body


def decode_frame(raw: bytes) -> Frame | None:
    """Read what `encode_frame` wrote; None when it is damaged."""
    if len(raw) < _PREFIX.size:
        return None
    length, checksum = _PREFIX.unpack_from(raw)
    body = raw[_PREFIX.size : _PREFIX.size + length]
    if len(body) != length or zlib.crc32(body) != checksum:
        return None
    line, _, values = body.partition(b"\n")
    head: dict[str, Any] = json.loads(line)
    return Frame(head["sequence"], head["source"], head["state"], tuple(_cut(head["records"], values)))


def _cut(records: Sequence[tuple[str, int]], values: bytes) -> Iterator[tuple[bytes, bytes]]:
    begin = 0
    for key, size in records:
        yield key.encode(), values[begin : begin + size]
        begin += size


def find_segments(folder: Path) -> list[Found]:
    """Read all segments of a folder, in the order of their first number."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        first, _, kind = path.name.removesuffix(SUFFIX).partition(".")
        if first.isdecimal() and kind in set(map(str, SignalClass)):
            found.append(_find(path, SignalClass(kind), int(first)))
    return found


def _find(path: Path, kind: SignalClass, first: int) -> Found:
    segment = Segment(path, kind, first, first - 1)
    frames: list[tuple[FrameAt, Frame]] = []
    with path.open("rb") as file:
        while True:
            raw = file.read(_PREFIX.size)
            length = _PREFIX.unpack(raw)[0] if len(raw) == _PREFIX.size else 0
            if length > LARGEST_FRAME:
                break
            raw += file.read(length)
            frame = decode_frame(raw) if raw else None
            if frame is None:
                break
            frames.append(
                (FrameAt(segment, frame.sequence, len(frame.records), segment.size, len(raw)), frame)
            )
            segment.size += len(raw)
            segment.last = frame.last
    return Found(segment, tuple(frames), path.stat().st_size - segment.size)
