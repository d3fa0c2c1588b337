"""A real worker process that can be stopped at the worst moment: `python -m tests.torture.worker`. Settings come from the environment.

TORTURE_CORE is `relight` or `toy`. TORTURE_PAUSE is how many seconds each write of state is held back after its emits were confirmed, to widen
the window in which a stop does harm. TORTURE_TRAP names a folder: while it holds a file `armed`, each write of cells leaves a file `*.about`
and waits, so that a test can stop the process at that very point; once that file is gone it goes on, whatever was heard of the partition
meanwhile, and leaves `*.outcome` with what became of it. With the last outcome the process is gone: back in the group it would have the heir
load its state again, and with it mend what it had just broken.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from runtime import logs
from runtime.settings import read_settings
from streams.core import RelightCore
from streams.ports import StateLog, StateRecord
from streams.processes import run_recovery
from streams.settings import StreamSettings
from tests.streams.toy_core import ToyCore

LOOK_EVERY = 0.02


class SlowLog:
    """A state log that hesitates before it writes."""

    def __init__(self, log: StateLog, pause: float, trap: Trap | None) -> None:
        self._log = log
        self._pause = pause
        self._trap = trap
        self._under_way: set[asyncio.Task[None]] = set()

    async def open(self) -> Iterable[StateRecord]:
        """As the log behind it."""
        return await self._log.open()

    async def write(self, records: Sequence[StateRecord]) -> None:
        """Hesitate, or walk into the trap, then write."""
        if self._trap is None or not self._trap.is_armed() or len(records) == 1:
            await asyncio.sleep(self._pause)
            await self._log.write(records)
            return
        writing = asyncio.create_task(self._write_and_tell(self._trap, records))
        self._under_way.add(writing)
        await asyncio.shield(writing)  # who hears meanwhile that the partition is lost does not take it back

    async def close(self) -> None:
        """As the log behind it, when what is under way has come to its end."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._log.close()

    async def _write_and_tell(self, trap: Trap, records: Sequence[StateRecord]) -> None:
        name = trap.spring()
        while trap.is_armed():  # noqa: ASYNC110 - another process disarms it
            await asyncio.sleep(LOOK_EVERY)
        try:
            await self._log.write(records)
        except Exception as error:
            trap.tell(name, type(error).__name__)
            raise
        trap.tell(name, "written")


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
        if len(list(self._folder.glob("*.outcome"))) == len(list(self._folder.glob("*.about"))):
            os._exit(0)


def main() -> None:
    """Run until told to stop."""
    settings = read_settings(StreamSettings)
    logs.configure(settings.observe.log_level)
    pause = float(os.environ.get("TORTURE_PAUSE", "0"))
    trap = Trap(Path(os.environ["TORTURE_TRAP"])) if "TORTURE_TRAP" in os.environ else None
    core = RelightCore() if os.environ.get("TORTURE_CORE") == "relight" else ToyCore()
    run_recovery(settings, core, wrap_log=lambda log: SlowLog(log, pause, trap))


if __name__ == "__main__":
    main()
