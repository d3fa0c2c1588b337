"""The training process of a rank as the machine has it, found from outside: what a signal is sent to. Reads `/proc` only."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from sandbox.errors import SandboxError


def trainer_of(program: Path, rank: int) -> int:
    """Process id of a rank's training process. Raises SandboxError when it does not run."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _runs(process, str(program)) and _rank(process) == str(rank):
            return int(process.name)
    raise SandboxError(f"rank {rank} has no training process now; it may be starting: try again in a moment")


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to it. Raises SandboxError when it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError as error:
        raise SandboxError(f"process {pid} ended before {number.name} could be sent; try again") from error


def _runs(process: Path, program: str) -> bool:
    """Whether it is the interpreter of the program: a shell or a supervisor names the program too, among others."""
    words = [word for word in _words(process / "cmdline")[1:] if not word.startswith("-")]
    return bool(words) and words[0] == program


def _rank(process: Path) -> str:
    name = "JOB_COMPLETION_INDEX="
    return next((word[len(name) :] for word in _words(process / "environ") if word.startswith(name)), "")


def _words(file: Path) -> list[str]:
    try:
        return file.read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []  # it ended, or belongs to somebody else
