"""Faults on request, by files in a folder: `exit-2` ends rank 2, `hang-2` lets it hang. The file's number is the step from which on.

An exit happens once (the file goes first), unless the file says `always`; it is code 1, or as the file says (`code=3`). A hang lasts as long as
the file. `hurry` is no fault: while it is there, steps take no longer than they must.
"""

from __future__ import annotations

import time
from pathlib import Path

LOOK_AGAIN = 0.1  # seconds
CODE = "code="


class Asked:
    """What is asked of one rank."""

    def __init__(self, folder: Path | None, rank: int) -> None:
        self._exit = None if folder is None else folder / f"exit-{rank}"
        self._hang = None if folder is None else folder / f"hang-{rank}"
        self._hurry = None if folder is None else folder / "hurry"

    def exit_code(self, step: int) -> int | None:
        """The code this rank is to fail with now; None: it is not to fail."""
        if self._exit is None or not _is_due(self._exit, step):
            return None
        words = _words(self._exit)
        if "always" not in words:
            self._exit.unlink(missing_ok=True)
        codes = [int(word.removeprefix(CODE)) for word in words if word.startswith(CODE)]
        return codes[0] if codes else 1

    def hang(self, step: int) -> None:
        """Do nothing while it is asked for."""
        while self._hang is not None and _is_due(self._hang, step):
            time.sleep(LOOK_AGAIN)

    def to_hurry(self) -> bool:
        """Whether a step is to take no time."""
        return self._hurry is not None and self._hurry.exists()


def ask_to_exit(folder: Path, rank: int, code: int) -> None:
    """Ask a rank to fail with a code at its next step."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"exit-{rank}").write_text(f"{CODE}{code}", encoding="utf-8")


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
