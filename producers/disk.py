"""The few file operations the spool stands on, in one place so that a test can end the process between any two of them, or within one.

`replace` is atomic: a reader sees the old content or the new one, also after a loss of power.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Disk:
    """The real disk."""

    def write(self, file: int, data: bytes) -> None:
        """Write all of it, however many calls that takes."""
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]

    def sync(self, file: int) -> None:
        """Return when the content would survive a loss of power."""
        os.fdatasync(file)

    def create(self, path: Path) -> int:
        """A new, empty file, open for appending."""
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o640)

    def replace(self, path: Path, content: bytes) -> None:
        """Give the file this content, atomically and durably."""
        part = path.with_name(f"{path.name}.part")
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        file = self.create(part)
        try:
            self.write(file, content)
            self.sync(file)
        finally:
            os.close(file)
        self.rename(part, path)
        self.sync_folder(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        """Rename, replacing what is there."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens when it is gone."""
        path.unlink(missing_ok=True)

    def cut(self, path: Path, size: int) -> None:
        """Shorten a file."""
        os.truncate(path, size)

    def sync_folder(self, folder: Path) -> None:
        """Return when names in the folder would survive a loss of power."""
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
