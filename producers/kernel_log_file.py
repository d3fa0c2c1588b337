"""Source: a file of kernel log lines (`/var/log/kern.log`, saved dmesg output), for sites where `/dev/kmsg` cannot be read.

Guarantees: each complete line is read once, in order; its fault's id is derived from the file, the place in it and the line itself, so that
reading it again counts for nothing. Rotation by renaming is followed: the old file is read to its end first, also when it was renamed while we
were away and still lies beside the new one. What was rotated or cut off unread is told as a gap.

The line's tag `kernel:` is all that says who wrote it; whoever can write the file can fake it. Prefer `/dev/kmsg`, where nobody can.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import BinaryIO, Final

from producers.identity import Identity
from producers.kernel_faults import KernelFaults
from producers.kernel_lines import LONGEST_LINE, KernelLine, read_line
from producers.observation import Batch, Observation, Pace, SignalClass, State
from schemas.signals import SignalGap

LINES_A_BATCH: Final = 2000


class LineReader:
    """From lines with their place to observations; knows no files and no clock."""

    def __init__(
        self,
        identity: Identity,
        faults: KernelFaults,
        *,
        zone: tzinfo = UTC,
        boot: datetime | None = None,
        oldest: datetime | None = None,
    ) -> None:
        """Make a reader.

        Args:
            identity: the node the log is of.
            faults: reads the text of lines.
            zone: zone of times that name none.
            boot: when the clock of `[  123.456]` stamps stood at zero; None: such a line happened when it is read.
            oldest: faults before this are old news and left alone; None: none is.
        """
        self._identity = identity
        self._faults = faults
        self._zone = zone
        self._boot = boot
        self.oldest = oldest
        self.counts: Counter[str] = Counter()

    @property
    def faults(self) -> KernelFaults:
        """What reads the text of lines."""
        return self._faults

    def read(self, raw: bytes, place: str, now: datetime) -> Observation | None:
        """The fault of one line, if any; `place` says where it stands, unique for each line."""
        text = raw.decode("utf-8", errors="replace")
        line = read_line(text, zone=self._zone, now=now)
        stamp = self._stamp(line)
        before = self._faults.unreadable
        fault = self._faults.read(line, stamp or now)
        self.counts["kernel_lines"] += 1
        self.counts["fault_lines_unreadable"] += self._faults.unreadable - before
        if fault is None:
            return None
        if self.oldest is not None and stamp is not None and stamp < self.oldest:
            self.counts["faults_before_first_start"] += 1
            return None
        digest = hashlib.blake2b(raw, digest_size=8).hexdigest()
        return Observation(
            fault, self._identity.derive("line", place, digest), stamp or now, stamped=stamp is not None
        )

    def gap(self, what: str, place: str, now: datetime) -> Observation:
        """Lines were lost unread."""
        self.counts["kernel_log_gaps"] += 1
        gap = SignalGap(node=self._identity.node, lost_class="fault", reason=what)
        return Observation(gap, self._identity.derive("line-gap", place), now)

    def _stamp(self, line: KernelLine) -> datetime | None:
        if line.at is not None:
            return line.at
        if line.since_boot is not None and self._boot is not None:
            return self._boot + line.since_boot
        return None


@dataclass(slots=True)
class _OpenFile:
    """A file being read: what it is, and how far it was read."""

    file: BinaryIO
    inode: int
    offset: int

    @property
    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size


class KernelLogFile:
    """The source: follows one file."""

    def __init__(
        self,
        path: Path,
        reader: LineReader,
        now: Callable[[], datetime],
        *,
        look_every: timedelta,
        history: timedelta,
    ) -> None:
        """`history`: at the very first start, faults older than this are old news and left alone."""
        self._path = path
        self._reader = reader
        self._now = now
        self._look_every = look_every
        self._history = history
        self._open: _OpenFile | None = None
        self._found: list[Observation] = []
        self._moved = False
        self._pace = Pace()
        self.works = False

    @property
    def name(self) -> str:
        """By the file's path."""
        return f"kernel-log-file:{self._path}"

    def counts(self) -> dict[str, int]:
        """Lines and gaps since the last call."""
        counted = {name: number for name, number in self._reader.counts.items() if number}
        self._reader.counts.clear()
        return counted

    def restore(self, state: State | None) -> None:
        """Go on behind the cursor: in this file, or in the one it was renamed to."""
        self.close()
        self._found = []
        if state is None:
            self._reader.oldest = self._now() - self._history
            return
        self._reader.oldest = None
        self._reader.faults.restore(state)
        inode, offset = int(state["inode"]), int(state["offset"])
        for path in (self._path, *self._rotated()):
            opened = _opened(path)
            if opened is None:
                continue
            if opened.inode == inode and opened.size >= offset:
                opened.offset = offset
                self._open = opened
                return
            opened.file.close()
        self._found = [
            self._reader.gap(
                f"{self._path}: rotated away unread behind byte {offset}", f"{inode}/{offset}", self._now()
            )
        ]

    async def next(self) -> Batch:
        """Wait for lines and read what is there, at most `LINES_A_BATCH`. Raises OSError when the file cannot be read."""
        while True:
            found, moved = self._look()
            self._moved |= moved
            if found or (self._moved and self._pace.is_due(self._now())):
                self._moved = False
                self._pace.kept(self._now())
                return Batch(SignalClass.FAULT, tuple(found), self._state())
            if not moved:
                self._reader.oldest = None  # all that was there is read: from here on nothing is history
            await asyncio.sleep(0 if moved else self._look_every.total_seconds())

    def close(self) -> None:
        """Let go of the file."""
        self.works = False
        if self._open is not None:
            self._open.file.close()
            self._open = None

    def _state(self) -> State:
        opened = self._open
        place = {"inode": opened.inode, "offset": opened.offset} if opened else {"inode": 0, "offset": 0}
        return {**place, **self._reader.faults.state()}

    def _look(self) -> tuple[list[Observation], bool]:
        """Read on; True when the cursor moved."""
        if self._open is None:
            self._open = _opened(self._path)
        if self._open is None:
            self.works = False
            raise FileNotFoundError(f"{self._path} is not there or cannot be read")
        found, self._found = self._found, []
        self.works = True
        found += self._cut_off(self._open)
        more, moved = self._read_lines(self._open)
        if not moved and self._was_renamed(self._open):
            more, _ = self._read_lines(self._open, ended=True)
            self.close()
            self._open = _opened(self._path)
            moved = self._open is not None
            self.works = moved
        return found + more, moved

    def _cut_off(self, opened: _OpenFile) -> list[Observation]:
        if opened.size >= opened.offset:
            return []
        place = f"{opened.inode}/{opened.offset}/{self._now().isoformat()}"
        gap = self._reader.gap(
            f"{self._path}: cut off; what was written behind byte {opened.offset} is lost", place, self._now()
        )
        opened.offset = 0
        return [gap]

    def _read_lines(self, opened: _OpenFile, *, ended: bool = False) -> tuple[list[Observation], bool]:
        found, began = [], opened.offset
        opened.file.seek(began)
        for _ in range(LINES_A_BATCH):
            raw = opened.file.readline(LONGEST_LINE)
            if not raw:
                break
            if not raw.endswith(b"\n") and len(raw) < LONGEST_LINE and not ended:
                break  # still being written
            place = f"{self._path}/{opened.inode}/{opened.offset}"
            opened.offset += len(raw)
            seen = self._reader.read(raw.rstrip(b"\r\n"), place, self._now())
            if seen is not None:
                found.append(seen)
        return found, opened.offset != began

    def _was_renamed(self, opened: _OpenFile) -> bool:
        try:
            return self._path.stat().st_ino != opened.inode
        except OSError:
            return False  # renamed, and the new one is not there yet

    def _rotated(self) -> list[Path]:
        return sorted(
            path
            for path in self._path.parent.glob(f"{self._path.name}*")
            if path != self._path and path.suffix not in {".gz", ".xz", ".zst", ".bz2"}
        )


def _opened(path: Path) -> _OpenFile | None:
    try:
        file = path.open("rb", buffering=0x10000)
    except OSError:
        return None
    return _OpenFile(file, os.fstat(file.fileno()).st_ino, 0)
