"""Calls of many threads answered in lots: one of them answers for all that wait (design 8: reservations are granted in lots).

For work whose cost hardly grows with the number of items, such as counting all nodes to reserve one place or twenty. Alone a call is as quick as
without. Nobody waits for company: a lot is whatever came while the one before was answered. All of a lot go on at once, and whoever waits
longest answers the next: none has to take a turn only to find that it was answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from actuators.reply import OutOfTime

T = TypeVar("T")
Answer = Exception | None
"""What the caller is to raise, or None: granted."""


@dataclass(eq=False)
class _Waiting(Generic[T]):
    item: T
    told: threading.Event = field(default_factory=threading.Event)
    """It is answered, or its turn to answer has come."""
    is_answered: bool = False
    answer: Answer = None


class Lots(Generic[T]):
    """One for all threads of a process."""

    def __init__(self) -> None:
        self.left: object = None
        """What one lot leaves to the next: for `act` alone, which has the turn."""
        self._lock = threading.Lock()
        self._waiting: list[_Waiting[T]] = []
        self._is_taken = False
        """Somebody has the turn: it answers, or was told to."""

    def ask(self, item: T, act: Callable[[Sequence[T]], Sequence[Answer]], seconds: float) -> None:
        """Have `item` answered, by our `act` or by that of another thread. Raises the answer, or OutOfTime when no turn came.

        What `act` itself raises is the trouble of whoever called it: the others of its lot go on waiting and try for themselves.
        """
        mine = _Waiting(item)
        with self._lock:
            self._waiting.append(mine)
            if not self._is_taken:
                self._is_taken = True
                mine.told.set()
        if not mine.told.wait(max(0.0, seconds)) and self._leave(mine):
            raise OutOfTime("out_of_time", "other commands of this actuator were before it")
        if not mine.is_answered:
            self._answer(mine, act)
        if mine.answer is not None:
            raise mine.answer

    def _answer(self, mine: _Waiting[T], act: Callable[[Sequence[T]], Sequence[Answer]]) -> None:
        """With the turn, which goes on to the next whatever happens."""
        with self._lock:
            lot = [mine, *(waiting for waiting in self._waiting if waiting is not mine)]
        try:
            answered = list(zip(lot, act([waiting.item for waiting in lot]), strict=True))
        except BaseException:
            self._end(mine, ())
            raise
        self._end(mine, answered)

    def _end(self, mine: _Waiting[T], answered: Sequence[tuple[_Waiting[T], Answer]]) -> None:
        with self._lock:
            for waiting, answer in answered:
                waiting.answer, waiting.is_answered = answer, True
                waiting.told.set()
            self._waiting = [one for one in self._waiting if not (one.is_answered or one is mine)]
            self._pass_on()

    def _pass_on(self) -> None:
        self._is_taken = bool(self._waiting)
        if self._waiting:
            self._waiting[0].told.set()

    def _leave(self, mine: _Waiting[T]) -> bool:
        """Whether it could go; not when it was told in this very moment."""
        with self._lock:
            if mine.told.is_set():
                return False
            self._waiting.remove(mine)
            return True
