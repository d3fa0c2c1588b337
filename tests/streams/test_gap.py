"""A partition whose messages were deleted unread: each of its subjects is told once, people once for all."""

from __future__ import annotations

from recovery.interface import NOTHING, Advance, Cells, Delivery
from schemas import topics
from schemas.commands import Command, StepName
from schemas.mailbox import PartitionGap
from tests.streams.bench import Bench, sent_to
from tests.streams.fakes import CLUSTER, FakeMessage, event, message
from tests.streams.toy_core import ToyCell, ToyCore, ToyRulebook, fault

GAP = PartitionGap(first_lost=2, first_kept=9)


class Listening(ToyCore):
    """The toy, which counts what it is told of gaps."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def advance(self, cells: Cells, delivery: Delivery, rulebook: ToyRulebook) -> Advance:
        """Count gaps in the cell's count."""
        if not isinstance(delivery.event.data, PartitionGap):
            return super().advance(cells, delivery, rulebook)
        self.told.append(delivery.event.id)
        cell = cells.get("toy")
        if not isinstance(cell, ToyCell):
            return NOTHING
        if cell.last == ("stubborn",):
            raise ValueError("cannot bear a gap")
        return Advance({"toy": ToyCell(count=cell.count + 100)})


def ask(offset: int, subject: str, name: str = "") -> FakeMessage:
    return message(offset, event(fault("count"), subject, id=name or f"e{offset}"))


def gap(offset: int) -> FakeMessage:
    return message(offset, event(GAP, "partition/0"))


def test_every_subject_of_the_partition_is_told_once_in_the_same_group() -> None:
    bench = Bench(Listening())
    bench.apply(ask(0, "run/a"), ask(1, "node/n"))

    group = bench.apply(ask(2, "run/new"), gap(9))

    assert [bench.toy(subject).count for subject in ("run/a", "node/n", "run/new")] == [101, 101, 101]
    assert len(sent_to(group.sends, topics.INBOX)) == 0


def test_subjects_of_every_cluster_are_told_whatever_the_gap_calls_its_own() -> None:
    bench = Bench(Listening())
    bench.apply(ask(0, "run/a"))
    unnamed = message(9, event(GAP, "partition/0", cluster="unnamed"))

    bench.apply(unnamed)

    assert bench.toy("run/a").count == 101


def test_the_same_gap_tells_in_the_same_words_again() -> None:
    core = Listening()
    bench = Bench(core)
    bench.apply(ask(0, "run/a"), ask(1, "run/b"))

    first = [send.value for send in bench.handle(gap(9)).sends]
    told, core.told = core.told, []
    second = [send.value for send in bench.handle(gap(9)).sends]

    assert first == second
    assert told == core.told
    assert len(set(told)) == 2


def test_people_are_told_once_for_the_partition_however_many_subjects() -> None:
    bench = Bench(Listening())
    bench.apply(*(ask(number, f"run/{number}") for number in range(20)))

    commands = [sent.data for sent in sent_to(bench.apply(gap(29)).sends, topics.COMMANDS)]

    (notice,) = commands
    assert isinstance(notice, Command)
    assert (notice.step, notice.subject) == (StepName.NOTIFY, "partition/0")
    assert notice.reason.startswith("7 messages")


def test_a_subject_that_cannot_bear_it_is_halted_alone() -> None:
    bench = Bench(Listening())
    bench.apply(ask(0, "run/a"), ask(1, "run/b", "stubborn"))

    bench.apply(gap(9))

    assert set(bench.memory.halted) == {(CLUSTER, "run/b")}
    assert bench.toy("run/a").count == 101


def test_halted_subjects_are_not_told() -> None:
    core = Listening()
    bench = Bench(core)
    bench.apply(ask(0, "run/b", "stubborn"))
    bench.apply(gap(9))
    core.told.clear()

    bench.apply(gap(19))

    assert core.told == []
