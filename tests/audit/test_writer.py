"""The writer: commits behind the store, repeats a batch as it was, waits for a store that is away."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from audit import batches
from audit.errors import RowsRefused, StoreAway, StoreRefused
from audit.settings import AuditSettings, BatchSettings
from audit.writer import Writer
from schemas.envelope import encode
from schemas.mailbox import Tick
from schemas.signals import ChipFault
from tests.schemas.samples import sample

MARCH = datetime(2026, 3, 31, 23, 59, tzinfo=UTC)
EVENT = encode(sample(ChipFault.TYPE))


class Said:
    """A Kafka message."""

    def __init__(
        self, offset: int, *, partition: int = 0, at: datetime = MARCH, value: bytes = EVENT
    ) -> None:
        self._offset, self._partition, self._at, self._value = offset, partition, at, value

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "signals.v1"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 2, round(self._at.timestamp() * 1000)

    def value(self) -> bytes:
        return self._value

    def headers(self) -> list[tuple[str, bytes]]:
        return []


class Consumer:
    """Hands out what the test says."""

    def __init__(self) -> None:
        self.coming: list[Said] = []
        self.committed: list[tuple[int, int]] = []
        self.paused = False
        self.revoke: Callable[..., None] = lambda *_: None

    def subscribe(self, topics: list[str], on_revoke: Callable[..., None] = lambda *_: None) -> None:
        self.topics, self.revoke = topics, on_revoke

    def consume(self, num_messages: int = 1, timeout: float = 0) -> list[Any]:
        del num_messages, timeout
        if self.paused:
            return []
        came, self.coming = self.coming, []
        return came

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("signals.v1", 0)]

    def pause(self, partitions: list[TopicPartition]) -> None:
        del partitions
        self.paused = True

    def resume(self, partitions: list[TopicPartition]) -> None:
        del partitions
        self.paused = False

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert not asynchronous
        self.committed += [(place.partition, place.offset) for place in offsets]


class Table:
    """A store that does what the test says."""

    def __init__(self) -> None:
        self.inserts: list[tuple[str, str, int]] = []
        self.failing: Exception | None = None
        self.bad: set[int] = set()
        """Offsets whose rows are refused."""
        self.letters: list[dict[str, object]] = []

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, token: str
    ) -> None:
        assert all(len(row) == len(columns) for row in rows)
        if self.failing is not None:
            raise self.failing
        named = [dict(zip(columns, row, strict=True)) for row in rows]
        if table == "dead_letters":
            self.letters += named
        elif self.bad & {row["offset"] for row in named}:
            raise RowsRefused("a value out of range")
        self.inserts.append((table, token, len(rows)))


class World:
    def __init__(self, rows: int = 100) -> None:
        self.now = 1000.0
        self.consumer, self.table = Consumer(), Table()
        settings = AuditSettings(batch=BatchSettings(rows=rows, wait=timedelta(seconds=1)))
        self.writer = Writer(settings, self.consumer, self.table, lambda: self.now)

    def later(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.writer.turn()


def paused(world: World) -> bool:
    return world.consumer.paused


def state(world: World) -> tuple[bool, str | None]:
    """Whether the store is away, and what it says for refusing."""
    return world.writer.away_since is not None, world.writer.refusal


def test_rows_wait_for_others_and_are_committed_only_when_they_stand() -> None:
    world = World()
    world.consumer.coming = [Said(7), Said(8)]
    world.writer.turn()
    assert not world.table.inserts
    assert not world.consumer.committed

    world.later()

    assert world.table.inserts == [("signals", "signals:signals.v1:0:7-8", 2)]
    assert world.consumer.committed == [(0, 9)]


def test_a_full_batch_does_not_wait() -> None:
    world = World(rows=2)
    world.consumer.coming = [Said(0), Said(1)]

    world.writer.turn()

    assert world.table.inserts


def test_a_month_s_end_cuts_a_batch_since_an_insert_is_whole_within_one_part_only() -> None:
    world = World()
    world.consumer.coming = [
        Said(0),
        Said(1, at=MARCH + timedelta(minutes=2)),
        Said(2, at=MARCH + timedelta(minutes=3)),
    ]
    world.writer.turn()
    world.later()

    assert [token for _, token, _ in world.table.inserts] == [
        "signals:signals.v1:0:0-0",
        "signals:signals.v1:0:1-2",
    ]


def test_large_messages_make_more_batches_since_one_that_no_server_takes_would_be_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "MOST_BYTES", 2 * len(EVENT) + 1)
    world = World()
    world.consumer.coming = [Said(offset) for offset in range(5)]
    world.writer.turn()
    world.later()

    assert [token for _, token, _ in world.table.inserts] == [
        "signals:signals.v1:0:0-1",
        "signals:signals.v1:0:2-3",
        "signals:signals.v1:0:4-4",
    ]
    assert world.consumer.committed[-1] == (0, 5)


def test_partitions_are_batched_apart() -> None:
    world = World()
    world.consumer.coming = [Said(0), Said(5, partition=1)]
    world.writer.turn()
    world.later()

    assert sorted(world.consumer.committed) == [(0, 1), (1, 6)]


def test_a_store_that_is_away_is_waited_for_with_the_same_batch_and_nothing_is_committed() -> None:
    world = World()
    world.consumer.coming = [Said(0), Said(1)]
    world.table.failing = StoreAway("down")
    world.writer.turn()
    world.later()
    assert world.writer.away_since is not None
    assert world.writer.oldest == MARCH.timestamp()

    world.later(0.5)
    assert paused(world)
    world.table.failing = None
    world.later(0.1)  # not yet time
    assert not world.table.inserts
    world.later(60)

    assert world.table.inserts == [("signals", "signals:signals.v1:0:0-1", 2)]
    assert world.consumer.committed == [(0, 2)]
    assert not paused(world)
    assert world.writer.oldest is None


def test_tries_become_rarer_up_to_a_bound() -> None:
    world = World()
    world.consumer.coming = [Said(0)]
    world.table.failing = StoreAway("down")
    world.writer.turn()
    tries = []
    for _ in range(200):
        before = world.writer._try_at
        world.later()
        if world.writer._try_at != before:
            tries.append(world.now)

    gaps = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert gaps[0] < gaps[3]
    assert max(gaps) <= 31


def test_what_the_store_refuses_is_tried_again_until_somebody_has_acted_and_nothing_is_lost() -> None:
    world = World()
    world.consumer.coming = [Said(0)]
    world.table.failing = StoreRefused("no such table")
    world.writer.turn()
    world.later()

    assert state(world) == (True, "no such table")
    assert not world.consumer.committed
    world.later(0.5)
    assert paused(world)

    world.table.failing = StoreAway("down")
    world.later(60)
    assert state(world) == (True, None)

    world.table.failing = None
    world.later(60)
    assert state(world) == (False, None)
    assert world.table.inserts == [("signals", "signals:signals.v1:0:0-0", 1)]
    assert world.consumer.committed == [(0, 1)]


def test_a_row_that_no_store_takes_is_a_dead_letter_and_its_neighbours_stand() -> None:
    world = World()
    world.consumer.coming = [Said(offset) for offset in range(5)]
    world.table.bad = {3}
    world.writer.turn()
    world.later()

    assert world.table.inserts == [
        ("signals", "signals:signals.v1:0:0-4a", 2),
        ("signals", "signals:signals.v1:0:0-4ba", 1),
        ("dead_letters", "signals:signals.v1:0:0-4bbadead", 1),
        ("signals", "signals:signals.v1:0:0-4bbb", 1),
    ]
    (letter,) = world.table.letters
    assert letter["from_offset"] == letter["offset"] == 3
    assert letter["reason"] == "refused_by_store"
    assert letter["original"] == EVENT.decode()
    assert (world.writer.refused_rows, world.writer.written["signals"]) == (1, 4)
    assert world.consumer.committed == [(0, 5)]
    assert world.writer.refusal is None


def test_a_dead_letter_that_no_store_takes_is_an_alarm_and_not_forgotten() -> None:
    world = World()
    world.consumer.coming = [Said(0)]
    world.table.failing = RowsRefused("none at all")
    world.writer.turn()
    world.later()

    assert world.writer.refusal == "none at all"
    assert not world.consumer.committed


def test_what_this_release_cannot_read_is_a_dead_letter_and_is_passed() -> None:
    world = World()
    world.consumer.coming = [Said(0, value=b"\xff"), Said(1)]
    world.writer.turn()
    world.later()

    assert world.writer.unreadable == 1
    assert world.table.inserts == [
        ("dead_letters", "dead_letters:signals.v1:0:0-1", 1),
        ("signals", "signals:signals.v1:0:0-1", 1),
    ]
    assert world.consumer.committed == [(0, 2)]


def test_messages_without_a_row_move_the_position_too() -> None:
    world = World()
    world.consumer.coming = [Said(0, value=encode(sample(Tick.TYPE)))]
    world.writer.turn()
    world.later()

    assert not world.table.inserts
    assert world.consumer.committed == [(0, 1)]


def test_the_age_of_what_is_missing_is_that_of_what_is_held_however_long_others_keep_coming() -> None:
    world = World()
    for second in range(600):
        now = MARCH - timedelta(hours=2) + timedelta(seconds=second)
        world.consumer.coming = [Said(second, partition=second % 7, at=now)]
        world.later(0.3)

        assert world.writer.oldest is not None
        assert now.timestamp() - world.writer.oldest <= 7


def test_partitions_that_come_while_the_store_is_away_are_paused_too() -> None:
    world = World()
    world.consumer.coming = [Said(0)]
    world.table.failing = StoreAway("down")
    world.writer.turn()
    world.later()
    world.later()
    assert world.consumer.paused
    world.consumer.resume([])  # the group gave us others: they come unpaused
    world.consumer.coming = [Said(0, partition=1)]

    world.later()

    assert world.consumer.paused
    assert world.consumer.coming


def test_rows_of_a_partition_that_went_to_another_member_are_left_to_it() -> None:
    world = World()
    world.consumer.coming = [Said(0), Said(9, partition=1)]
    world.writer.turn()

    world.consumer.revoke(None, [TopicPartition("signals.v1", 0)])
    world.later()

    assert world.consumer.committed == [(1, 10)]
    assert [token for _, token, _ in world.table.inserts] == ["signals:signals.v1:1:9-9"]


def test_the_last_batch_is_written_at_a_stop() -> None:
    world = World()
    world.consumer.coming = [Said(0)]
    world.writer.turn()

    world.writer.flush()

    assert world.consumer.committed == [(0, 1)]


def test_a_stop_without_a_store_says_so_and_commits_nothing() -> None:
    world = World()
    world.consumer.coming = [Said(0)]
    world.table.failing = StoreAway("down")
    world.writer.turn()

    with pytest.raises(StoreAway):
        world.writer.flush()
    assert not world.consumer.committed


def test_the_state_log_is_not_read() -> None:
    assert "state.v1" not in World().consumer.topics
