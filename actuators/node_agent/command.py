"""Runs an operator's command: a list, never a shell; a session of its own, killed whole at its limit; a bounded end of its output kept.

It holds a lock while it lives: an agent that was killed and started again can tell whether the command is still at work on the unit.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

LONGEST_OUTPUT: Final = 65_536
LOOK: Final = 0.05
"""Seconds between two looks whether it ended."""
KILL_WAIT: Final = 2.0
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How it went. `code` is None when it was killed at its limit or could not be started."""

    code: int | None
    output: str

    @property
    def told(self) -> str:
        """One line for people."""
        how = (
            "did not end in time, or could not be started" if self.code is None else f"ended with {self.code}"
        )
        last = self.output.strip().splitlines()[-1:] or [""]
        return f"{how} {last[0]}".strip()


def filled(argv: Sequence[str], unit: str, chips: Sequence[str]) -> list[str]:
    """The command for one unit."""
    return [part.replace("{unit}", unit).replace("{chips}", ",".join(chips)) for part in argv]


class UnitLock:
    """Held by whoever works on a unit; the kernel lets go of it with the last process that has it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> bool:
        """False while a command of an earlier start of the agent lives."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Nobody works on the unit any more, whatever the command has left running."""
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Forget it; a command that lives keeps it."""
        os.close(self.file)


async def run(
    argv: Sequence[str], limit: timedelta, output: Path, lock: UnitLock | None = None
) -> CommandEnd:
    """Run it to its end, or to the limit. Cancelled, a command with a lock is left to its end: half a reset is worse than a late one.

    Output goes to a file, not a pipe: a command that outlives us must not die of telling nobody.
    """
    environment = {"PATH": os.environ.get("PATH", _PATH), "LANG": "C.UTF-8"}
    try:
        with output.open("wb") as told:
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - the operator's command; starting one does not wait
                argv,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                pass_fds=() if lock is None else (lock.file,),
            )
    except (OSError, ValueError) as error:
        return CommandEnd(None, str(error))
    try:
        async with asyncio.timeout(limit.total_seconds()):
            while process.poll() is None:  # noqa: ASYNC110 - a process, which sets no event
                await asyncio.sleep(LOOK)
    except TimeoutError:
        _kill(process)
    except asyncio.CancelledError:
        if lock is None:
            _kill(process)
        raise
    killed = process.returncode == -signal.SIGKILL
    return CommandEnd(None if killed else process.returncode, _end_of(output))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # in the kernel for good: nobody can wait for that
        process.wait(KILL_WAIT)


def _end_of(output: Path) -> str:
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - LONGEST_OUTPUT))
            return file.read(LONGEST_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return ""
