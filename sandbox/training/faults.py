"""Faults on request, by files in a folder: `exit-2` ends rank 2 with code 1, `hang-2` lets it hang; the file's number is the step from which on.

An exit happens once (the file goes first), unless the file says `always`. A hang lasts as long as the file.
"""

from __future__ import annotations

import time
from pathlib import Path

LOOK_AGAIN = 0.1  # seconds


class Asked:
    """What is asked of one rank."""

    def __init__(self, folder: Path | None, rank: int) -> None:
        self._exit = None if folder is None else folder / f"exit-{rank}"
        self._hang = None if folder is None else folder / f"hang-{rank}"

    def to_exit(self, step: int) -> bool:
        """Whether this rank is to fail now."""
        if self._exit is None or not _is_due(self._exit, step):
            return False
        if "always" not in _words(self._exit):
            self._exit.unlink(missing_ok=True)
        return True

    def hang(self, step: int) -> None:
        """Do nothing while it is asked for."""
        while self._hang is not None and _is_due(self._hang, step):
            time.sleep(LOOK_AGAIN)


def _is_due(file: Path, step: int) -> bool:
    if not file.exists():
        return False
    numbers = [int(word) for word in _words(file) if word.isdigit()]
    return step >= (numbers[0] if numbers else 0)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").split()
    except OSError:
        return []
