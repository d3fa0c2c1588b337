"""Calls answered in lots: nobody is forgotten, nobody is answered twice, and one's trouble is not the others'."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from actuators.lots import Lots
from actuators.reply import Blocked, OutOfTime

LONG = 20.0


class Counter:
    """Answers a lot, slowly the first time, so that the others come meanwhile."""

    def __init__(self, refuse: frozenset[int] = frozenset(), break_first: bool = False) -> None:
        self.lots: list[list[int]] = []
        self.began = threading.Event()
        self.go_on = threading.Event()
        self._refuse = refuse
        self._break_first = break_first

    def __call__(self, lot: Sequence[int]) -> list[Exception | None]:
        self.lots.append(list(lot))
        if len(self.lots) == 1:
            self.began.set()
            assert self.go_on.wait(LONG)
            if self._break_first:
                raise OSError("the line broke")
        return [Blocked("guard", str(item)) if item in self._refuse else None for item in lot]


def ask_all(counter: Counter, items: range) -> dict[int, BaseException | None]:
    """The first begins; all others come while it is answered."""
    lots: Lots[int] = Lots()
    with ThreadPoolExecutor(len(items)) as pool:
        first = pool.submit(lots.ask, items[0], counter, LONG)
        assert counter.began.wait(LONG)
        rest = [pool.submit(lots.ask, item, counter, LONG) for item in items[1:]]
        while len(lots._waiting) < len(items):
            threading.Event().wait(0.001)
        counter.go_on.set()
        found = {item: asked.exception(LONG) for item, asked in zip(items, [first, *rest], strict=True)}
    assert lots._waiting == []
    return found


def test_whoever_comes_while_another_is_answered_is_answered_together() -> None:
    counter = Counter()

    assert set(ask_all(counter, range(8)).values()) == {None}
    assert [len(lot) for lot in counter.lots] == [1, 7]


def test_each_gets_its_own_answer() -> None:
    found = ask_all(Counter(refuse=frozenset({0, 3})), range(6))

    assert {item for item, error in found.items() if error is not None} == {0, 3}
    assert [str(error) for error in found.values() if error] == ["guard: 0", "guard: 3"]


def test_the_trouble_of_whoever_answers_is_its_own_and_the_others_try_for_themselves() -> None:
    found = ask_all(Counter(break_first=True), range(5))

    assert isinstance(found.pop(0), OSError)
    assert set(found.values()) == {None}


def test_a_turn_that_does_not_come_in_time_is_out_of_time_and_leaves_nothing_behind() -> None:
    counter = Counter()
    lots: Lots[int] = Lots()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lots.ask, 0, counter, LONG)
        assert counter.began.wait(LONG)
        with pytest.raises(OutOfTime):
            lots.ask(1, counter, 0.01)
        counter.go_on.set()
        first.result(LONG)

    lots.ask(2, counter, 0.0)
    assert counter.lots == [[0], [2]]
