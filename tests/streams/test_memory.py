"""What is confirmed comes back from the state log as it was; what somebody else wrote there is noticed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas.mailbox import ResumeOrder
from streams.errors import StateUnreadable
from streams.memory import Memory
from streams.ports import StateRecord
from streams.state_records import (
    OWNER_KEY,
    POSITION_KEY,
    Position,
    cell_key,
    halted_key,
    read_key,
)
from tests.streams.bench import Bench
from tests.streams.fakes import CLUSTER, START, event, message
from tests.streams.toy_core import NAP, ToyCore, fault

RUN = "run/r"


def restored(records: list[StateRecord]) -> Memory:
    memory = Memory(ToyCore())
    memory.restore(records)
    return memory


def test_everything_comes_back() -> None:
    bench = Bench()
    group = bench.apply(
        *(
            message(number, event(fault(detail), f"run/r{number}", id=f"e{number}"), seconds=number)
            for number, detail in enumerate(["count", "arm", "raise"])
        )
    )
    position = (POSITION_KEY, Position(first=0, next=group.next, now=group.now).encode())

    memory = restored([*group.records.items(), position])

    assert (memory.position, memory.now) == (3, START + timedelta(seconds=2))
    assert list(memory.subjects()) == list(bench.memory.subjects())
    assert all(memory.cells_of(subject) == bench.memory.cells_of(subject) for subject in memory.subjects())
    assert memory.halted == bench.memory.halted
    assert memory.cell_count == bench.memory.cell_count == 2
    assert [entry.cell for entry in memory.due.ready(START + timedelta(seconds=1) + NAP)] == ["toy"]


def test_a_resume_that_is_told_again_after_a_restart_is_known() -> None:
    bench = Bench()
    broken = message(0, event(fault("raise"), RUN, id="e0"))
    resume = event(ResumeOrder(by="somebody", reason="mended"), RUN, id="order")
    records = dict(bench.apply(broken, message(1, resume)).records)
    records |= bench.apply(message(2, event(fault("raise"), RUN, id="e2"))).records

    again = Bench()
    again.memory.restore(list(records.items()))
    again.apply(message(3, resume))

    assert again.memory.resumes == ((CLUSTER, RUN, "order"),)
    assert set(again.memory.halted) == {(CLUSTER, RUN)}


def test_the_last_record_of_a_key_wins_and_a_tombstone_deletes() -> None:
    old, new, gone = (ToyCore().encode_cell(Bench().toy(RUN)) for _ in range(3))
    first, second = cell_key((CLUSTER, RUN), "toy"), cell_key((CLUSTER, "run/other"), "toy")

    memory = restored([(first, old), (second, gone), (first, new), (second, None)])

    assert list(memory.subjects()) == [(CLUSTER, RUN)]


def test_an_empty_log_knows_no_position() -> None:
    memory = restored([])

    assert memory.position is None
    assert memory.rulebook.hash == "none"


def test_records_of_a_later_release_and_claims_are_passed_over() -> None:
    memory = restored([(b'["invented","later"]', b"?"), (OWNER_KEY, b"{}")])

    assert list(memory.subjects()) == []


@pytest.mark.parametrize("key", [b"", b"plain", b"[1]", b'{"a":1}', b"\xff"])
def test_a_topic_that_holds_something_else_is_refused(key: bytes) -> None:
    with pytest.raises(StateUnreadable, match="something else"):
        restored([(key, b"value")])


@pytest.mark.parametrize("text", ["a/b", "a\x00b", '","', "run/r\n", "ä", "[]"])
def test_no_text_in_a_subject_or_a_name_can_pass_for_another(text: str) -> None:
    assert read_key(cell_key((CLUSTER, text), "x")) == ["cell", CLUSTER, text, "x"]
    assert read_key(cell_key((CLUSTER, "x"), text)) == ["cell", CLUSTER, "x", text]
    assert read_key(halted_key((CLUSTER, text))) == ["halted", CLUSTER, text]


def test_each_position_says_where_it_began() -> None:
    position = Position(first=3, next=9, now=START)

    assert b'"from":3' in position.encode()
    assert Position.model_validate_json(position.encode()) == position


def test_a_subject_without_cells_is_forgotten() -> None:
    bench = Bench()
    bench.apply(message(0, event(fault("count"), RUN)))

    group = bench.handle(message(1, event(fault("quiet"), RUN)))
    group.subjects[CLUSTER, RUN] = {}
    bench.memory.commit(group, wall=START)

    assert list(bench.memory.subjects()) == []
    assert bench.memory.cell_count == 0
