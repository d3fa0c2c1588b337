"""Who may write checkpoints: the newest epoch that ever began, kept in one file beside them.

Guarantee: once a process of epoch n has begun, no process of a lower epoch publishes, however long it slept between looking and writing: the
look and the publishing rename happen under one lock of the file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.training.errors import Outdated

DIGITS = 20


class Fence:
    """The fence of one checkpoint folder, as seen by one process."""

    def __init__(self, folder: Path, epoch: int) -> None:
        self._file = folder / "fence"
        self.epoch = epoch

    def begin(self) -> None:
        """Shut out all lower epochs.

        Raises:
            Outdated: a higher one has begun.
        """
        with self._locked() as file:
            # One short write over the old number: there is no moment at which the file is empty.
            os.pwrite(file, f"{self.epoch:0{DIGITS}d}".encode("ascii"), 0)
            os.fsync(file)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Publish inside of this.

        Raises:
            Outdated: a higher epoch has begun.
        """
        with self._locked():
            yield

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            newest = _number(os.pread(file, DIGITS, 0))
            if newest > self.epoch:
                raise Outdated(f"epoch {newest} owns {self._file.parent}: epoch {self.epoch} must not write")
            yield file
        finally:
            os.close(file)  # unlocks


def _number(raw: bytes) -> int:
    """A new file shuts nobody out."""
    return int(raw) if raw.isdigit() else 0
