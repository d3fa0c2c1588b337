"""A real worker process with the toy core: `python -m tests.torture.toy_worker`. Settings come from the environment, as in production.

TOY_PAUSE is how many seconds each write of state is held back after its emits were confirmed, to widen the window in which a stop does harm.
TOY_TRAP names a folder: while it holds a file `armed`, each write of cells leaves a file `*.about` and waits, so that a test can stop the
process at that very point, and leaves `*.outcome` with what became of it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from runtime import logs
from runtime.settings import read_settings
from streams.ports import StateLog, StateRecord
from streams.processes import run_recovery
from streams.settings import StreamSettings
from tests.streams.toy_core import ToyCore

TRAPPED = 2.0
"""Seconds: enough to be stopped in."""


class SlowLog:
    """A state log that hesitates before it writes."""

    def __init__(self, log: StateLog, pause: float, trap: Trap | None) -> None:
        self._log = log
        self._pause = pause
        self._trap = trap

    async def open(self) -> Iterable[StateRecord]:
        """As the log behind it."""
        return await self._log.open()

    async def write(self, records: Sequence[StateRecord]) -> None:
        """Hesitate, or walk into the trap, then write."""
        if self._trap is None or not self._trap.is_armed() or len(records) == 1:
            await asyncio.sleep(self._pause)
            await self._log.write(records)
            return
        name = self._trap.spring()
        await asyncio.sleep(TRAPPED)
        try:
            await self._log.write(records)
        except Exception as error:
            self._trap.tell(name, type(error).__name__)
            raise
        self._trap.tell(name, "written")

    async def close(self) -> None:
        """As the log behind it."""
        await self._log.close()


class Trap:
    """Files by which a test and a process meet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def is_armed(self) -> bool:
        """Whether the test wants to stop the process."""
        return (self._folder / "armed").exists()

    def spring(self) -> str:
        """Say that a write is about to begin."""
        name = f"{os.getpid()}-{next(self._numbers)}"
        (self._folder / f"{name}.about").touch()
        return name

    def tell(self, name: str, outcome: str) -> None:
        """Say what became of the write."""
        part = self._folder / f"{name}.part"
        part.write_text(outcome, encoding="ascii")
        part.rename(self._folder / f"{name}.outcome")


def main() -> None:
    """Run until told to stop."""
    settings = read_settings(StreamSettings)
    logs.configure(settings.observe.log_level)
    pause = float(os.environ.get("TOY_PAUSE", "0"))
    trap = Trap(Path(os.environ["TOY_TRAP"])) if "TOY_TRAP" in os.environ else None
    run_recovery(settings, ToyCore(), wrap_log=lambda log: SlowLog(log, pause, trap))


if __name__ == "__main__":
    main()
