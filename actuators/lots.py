"""Calls of many threads answered in lots: whoever has its turn answers for all that wait (design 8: reservations are granted in lots).

For work whose cost hardly grows with the number of items, such as reading all nodes to reserve one place or twenty. Alone a call is as quick as
without. Nobody waits for company: a lot is whatever came while the one before was answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from actuators.reply import OutOfTime

T = TypeVar("T")
Answer = Exception | None
"""What the caller is to raise, or None: granted."""


@dataclass(eq=False)
class _Waiting(Generic[T]):
    item: T
    is_answered: bool = False
    answer: Answer = None


class Lots(Generic[T]):
    """One for all threads of a process."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._queue = threading.Lock()
        self._waiting: list[_Waiting[T]] = []

    def ask(self, item: T, act: Callable[[Sequence[T]], Sequence[Answer]], seconds: float) -> None:
        """Have `item` answered, by our `act` or by that of another thread. Raises the answer, or OutOfTime when no turn came.

        What `act` itself raises is the trouble of whoever called it: the others of its lot go on waiting and try for themselves.
        """
        mine = _Waiting(item)
        with self._queue:
            self._waiting.append(mine)
        if not self._turn.acquire(timeout=max(0.0, seconds)):
            self._leave(mine)
            raise OutOfTime("out_of_time", "other commands of this actuator were before it")
        try:
            if not mine.is_answered:
                self._answer(mine, act)
        finally:
            self._leave(mine)
            self._turn.release()
        if mine.answer is not None:
            raise mine.answer

    def _answer(self, mine: _Waiting[T], act: Callable[[Sequence[T]], Sequence[Answer]]) -> None:
        with self._queue:
            lot = [mine, *(waiting for waiting in self._waiting if waiting is not mine)]
        answers = act([waiting.item for waiting in lot])
        with self._queue:
            for waiting, answer in zip(lot, answers, strict=True):
                waiting.answer, waiting.is_answered = answer, True
            self._waiting = [waiting for waiting in self._waiting if not waiting.is_answered]

    def _leave(self, mine: _Waiting[T]) -> None:
        with self._queue:
            self._waiting = [waiting for waiting in self._waiting if waiting is not mine]
