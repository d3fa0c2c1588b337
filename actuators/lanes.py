"""One lane a subject: its commands one after the other, those of different subjects at the same time.

Guarantees: order within a lane is that of `put`; a lane never runs twice at once; a subject with a thousand commands takes turns with all
others, one command a turn. An exception of the work ends nothing but that turn and is handed to `broke`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    """Lanes over an executor."""

    def __init__(
        self, executor: Executor, work: Callable[[T], None], broke: Callable[[BaseException], None]
    ) -> None:
        self._executor = executor
        self._work = work
        self._broke = broke
        self._lanes: dict[Hashable, deque[T]] = {}
        """Lanes that have something to do or are doing it."""
        self._busy = 0
        self._changed = threading.Condition()

    def put(self, lane: Hashable, item: T) -> None:
        """Queue an item in its lane."""
        with self._changed:
            waiting = self._lanes.get(lane)
            if waiting is not None:
                waiting.append(item)
                return
            self._lanes[lane] = deque([item])
        self._executor.submit(self._turn, lane)

    def drop(self, which: Callable[[T], bool]) -> int:
        """Take out what has not begun; how many that were."""
        dropped = 0
        with self._changed:
            for lane, waiting in self._lanes.items():
                kept = deque(item for item in waiting if not which(item))
                dropped += len(waiting) - len(kept)
                self._lanes[lane] = kept
        return dropped

    def settle(self, patience: float) -> bool:
        """Wait until nothing runs that had begun; what waits in lanes may begin meanwhile, so drop it first."""
        with self._changed:
            return self._changed.wait_for(lambda: self._busy == 0, patience)

    def _turn(self, lane: Hashable) -> None:
        with self._changed:
            waiting = self._lanes[lane]
            if not waiting:  # dropped
                del self._lanes[lane]
                return
            item = waiting.popleft()
            self._busy += 1
        try:
            self._work(item)
        except BaseException as error:  # noqa: BLE001 - whoever owns the lanes decides what it means
            self._broke(error)
        finally:
            with self._changed:
                self._busy -= 1
                more = bool(self._lanes[lane])
                if not more:
                    del self._lanes[lane]
                self._changed.notify_all()
        if more:
            self._executor.submit(self._turn, lane)
