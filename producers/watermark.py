"""Small files beside the segments: the watermark, the spool's id, the sources' states, and the lock.

The watermark is written in place into one of two slots, each with a checksum: 36 bytes without a sync, cheap enough for each round of
confirmations. A torn slot leaves the other one. An old watermark only means that some events are sent again, with the same origins.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from producers.errors import SpoolInUse

_SLOT: Final = struct.Struct("<QQQQ")
_SLOT_BYTES: Final = _SLOT.size + 4


class Watermark:
    """All below `acked` is confirmed; `untold` metrics were dropped and no gap has said so yet; below `removed` numbers were used."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.acked = 0
        self.untold = 0
        self.removed = 0
        self._turn = 0
        for slot in range(2):
            raw = os.pread(self._file, _SLOT_BYTES, slot * _SLOT_BYTES)
            if len(raw) < _SLOT_BYTES or zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:], "little"):
                continue
            turn, acked, untold, removed = _SLOT.unpack(raw[:-4])
            if turn > self._turn:
                self._turn, self.acked, self.untold, self.removed = turn, acked, untold, removed
        if os.fstat(self._file).st_size < 2 * _SLOT_BYTES:
            os.pwrite(
                self._file, bytes(2 * _SLOT_BYTES), 0
            )  # room is taken now: later a full disk cannot refuse it
            self.write()

    def write(self) -> None:
        """Keep the present values."""
        self._turn += 1
        body = _SLOT.pack(self._turn, self.acked, self.untold, self.removed)
        os.pwrite(self._file, body + zlib.crc32(body).to_bytes(4, "little"), (self._turn % 2) * _SLOT_BYTES)

    def sync(self) -> None:
        """Wait until the disk has the values."""
        os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class FolderLock:
    """One process a folder; the kernel lets go of it however the process ends."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise SpoolInUse(
                f"{path.parent} is in use by another process; right would be one node agent a state folder"
            ) from None

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._file)


def write_whole(path: Path, content: bytes, *, sync: bool) -> None:
    """Replace a file: a reader finds the old content or the new, never a part. Raises OSError when the disk is full."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new and removed names of a folder outlast a loss of power."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def read_spool_id(path: Path, boot_id: str) -> str | None:
    """The id, or None when there is none yet, or it was made before the machine was last started."""
    try:
        spool, boot = path.read_text(encoding="ascii").split()
    except (OSError, ValueError):  # not there, no ASCII, not two words
        return None
    return spool if boot == boot_id else None


def new_spool_id(path: Path, boot_id: str) -> str:
    """Make an id and keep it: on the disk before anything carries it."""
    made = secrets.token_hex(8)
    write_whole(path, f"{made} {boot_id}".encode(), sync=True)
    return made


StatesAfter = dict[str, tuple[int, Mapping[str, Any] | None]]
"""State by source, with the sequence number that was next when it was kept: the later one holds."""


def read_states(path: Path) -> StatesAfter | None:
    """States as they were last kept; None when the file is there and cannot be read."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        return {name: (int(after), state) for name, (after, state) in json.loads(raw).items()}
    except (ValueError, TypeError, AttributeError):
        return None


def write_states(path: Path, states: StatesAfter, *, sync: bool) -> None:
    """Keep states."""
    write_whole(path, json.dumps(states, separators=(",", ":")).encode(), sync=sync)
