"""An event loop in which waiting costs nothing: when nothing is ready, the clock jumps to the next thing that is due."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Counts seconds from zero."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds = 0.0

    def time(self) -> float:
        """Virtual seconds."""
        return self._seconds

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready and scheduled:
            self._seconds = max(self._seconds, scheduled[0]._when)
        super()._run_once()  # type: ignore[misc]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time; fails when it leaves tasks behind that never end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    """Virtual seconds of the running loop."""
    return asyncio.get_running_loop().time()
