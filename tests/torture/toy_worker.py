"""A real worker process with the toy core: `python -m tests.torture.toy_worker`. Settings come from the environment, as in production.

TOY_PAUSE is how many seconds each transaction is held back after its emits were confirmed, to widen the window in which a stop does harm.
TOY_MARK names a file that is written when a transaction is about to begin while TOY_ARMED exists: where a test stops the process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from runtime import logs
from runtime.settings import read_settings
from streams.ports import StateLog, StateRecord
from streams.processes import run_recovery
from streams.settings import StreamSettings
from tests.streams.toy_core import ToyCore


class SlowLog:
    """A state log that hesitates before it writes."""

    def __init__(self, log: StateLog, pause: float) -> None:
        self._log = log
        self._pause = pause

    async def open(self) -> Iterable[StateRecord]:
        """As the log behind it."""
        return await self._log.open()

    async def write(self, records: Sequence[StateRecord]) -> None:
        """Hesitate, say so if asked to, then write."""
        armed, mark = os.environ.get("TOY_ARMED", ""), os.environ.get("TOY_MARK", "")
        if armed and Path(armed).exists() and len(records) > 1:
            Path(mark).write_text(str(os.getpid()), encoding="ascii")
            await asyncio.sleep(2.0)
        elif self._pause:
            await asyncio.sleep(self._pause)
        await self._log.write(records)

    async def close(self) -> None:
        """As the log behind it."""
        await self._log.close()


def main() -> None:
    """Run until told to stop."""
    settings = read_settings(StreamSettings)
    logs.configure(settings.observe.log_level)
    pause = float(os.environ.get("TOY_PAUSE", "0"))
    run_recovery(settings, ToyCore(), wrap_log=lambda log: SlowLog(log, pause))


if __name__ == "__main__":
    main()
