"""Whatever the store is told to suffer, it suffers just that, and what the audit writes stands in it once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from audit.errors import StoreAway
from audit.migrate import migrate
from audit.settings import AuditSettings, BatchSettings, StoreSettings
from audit.store import Store
from audit.writer import Writer
from sandbox.clickhouse import ClickHouse
from sandbox.clickhouse_faults import TOO_MUCH_MEMORY, WRONG_PASSWORD, Fault, Faults, Kind
from schemas.envelope import encode
from schemas.signals import ChipFault
from tests.schemas.samples import sample

ROWS = 5
DATABASE = "faults"
EVENT = encode(sample(ChipFault.TYPE))
_partitions = itertools.count()


class Said:
    """A Kafka message."""

    def __init__(self, partition: int, offset: int) -> None:
        self._partition, self._offset = partition, offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "signals.v1"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 2, round(datetime.now(UTC).timestamp() * 1000)

    def value(self) -> bytes:
        return EVENT

    def headers(self) -> list[tuple[str, bytes]]:
        return []


class OnePartition:
    """Hands its messages out once."""

    def __init__(self) -> None:
        self.number = next(_partitions)
        self.coming: list[Any] = [Said(self.number, offset) for offset in range(ROWS)]
        self.committed = 0

    def subscribe(self, topics: list[str], on_revoke: object = None) -> None:
        del topics, on_revoke

    def consume(self, num_messages: int = 1, timeout: float = 0) -> list[Any]:
        del num_messages, timeout
        came, self.coming = self.coming, []
        return came

    def assignment(self) -> list[TopicPartition]:
        return []

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Nothing more comes."""

    def resume(self, partitions: list[TopicPartition]) -> None:
        """As above."""

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert not asynchronous
        self.committed = max(place.offset for place in offsets)


@pytest.fixture(scope="module")
def settings(clickhouse: ClickHouse) -> StoreSettings:
    made = StoreSettings(port=clickhouse.port, database=DATABASE)
    with Store(made, made.migrator) as store:
        migrate(store, lambda: datetime.now(UTC))
    return made


@pytest.fixture
def store(clickhouse: ClickHouse, settings: StoreSettings) -> Iterator[Store]:
    with Store(settings, settings.writer) as writing:
        yield writing
        clickhouse.recover()


def writer(reader: OnePartition, store: Store) -> Writer:
    """Tries again at once, and never waits for others."""
    ticks = itertools.count(step=1000.0)
    batch = BatchSettings(rows=ROWS)
    return Writer(AuditSettings(batch=batch), reader, store, lambda: next(ticks))


def rows(store: Store, reader: OnePartition) -> int:
    return int(store.rows(f"SELECT count() FROM {DATABASE}.signals WHERE partition = {reader.number}")[0][0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        Fault(Kind.CUT_BEFORE, statements="INSERT", times=2),
        Fault(Kind.CUT_AFTER, statements="INSERT", times=2),
        Fault(Kind.REFUSE, statements="INSERT", times=2),
        Fault(Kind.REFUSE, statements="INSERT", status=500),
        Fault(Kind.REFUSE, statements="INSERT", status=502),
        Fault(Kind.REFUSE, statements="INSERT", status=504),
        TOO_MUCH_MEMORY,
        Fault(Kind.REFUSE, statements="INSERT", status=500, code=252, message="Too many parts"),
    ],
    ids=["cut before", "cut after", "503", "500", "502", "504", "no memory", "too many parts"],
)
def test_the_writer_survives_it_and_its_rows_stand_once(
    clickhouse: ClickHouse, store: Store, fault: Fault
) -> None:
    reader = OnePartition()
    writing = writer(reader, store)
    before = clickhouse.suffered()
    clickhouse.suffer(fault)

    away = False
    while reader.committed < ROWS:
        writing.turn()
        away = away or writing.away_since is not None

    assert away
    assert clickhouse.suffered() == before + fault.times
    assert rows(store, reader) == ROWS


@pytest.mark.slow
def test_a_statement_that_was_cut_after_it_ran_has_run_and_one_cut_before_has_not(
    clickhouse: ClickHouse, store: Store
) -> None:
    readers = {}
    for kind in (Kind.CUT_AFTER, Kind.CUT_BEFORE):
        readers[kind] = OnePartition()
        writing = writer(readers[kind], store)
        clickhouse.suffer(Fault(kind, statements="INSERT", times=0))
        writing.turn()
        assert readers[kind].committed == 0
        clickhouse.recover()

    assert rows(store, readers[Kind.CUT_AFTER]) == ROWS
    assert rows(store, readers[Kind.CUT_BEFORE]) == 0


@pytest.mark.slow
def test_an_insert_that_comes_late_beside_its_repetition_adds_nothing(
    clickhouse: ClickHouse, settings: StoreSettings, store: Store
) -> None:
    reader = OnePartition()
    late = Fault(Kind.DELAY, statements="INSERT", seconds=1.5)
    with Store(settings.model_copy(update={"timeout": timedelta(seconds=1)}), settings.writer) as hasty:
        writing = writer(reader, hasty)
        clickhouse.suffer(late)
        writing.turn()
        assert writing.away_since is not None
        while reader.committed < ROWS:
            writing.turn()

    time.sleep(late.seconds)  # by now it has come
    assert rows(store, reader) == ROWS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (WRONG_PASSWORD, "Authentication failed"),
        (
            Fault(Kind.REFUSE, times=0, status=404, code=81, message="Database does not exist"),
            "does not exist",
        ),
        (Fault(Kind.REFUSE, times=0, status=403, message="forbidden"), "HTTP status 403"),
    ],
    ids=["password", "database", "a balancer's 403"],
)
def test_what_somebody_must_put_right_is_told_and_waited_for(
    clickhouse: ClickHouse, store: Store, fault: Fault, said: str
) -> None:
    reader = OnePartition()
    writing = writer(reader, store)
    clickhouse.suffer(fault)
    for _ in range(2):
        writing.turn()
        assert said in (writing.refusal or "")
    assert reader.committed == 0
    clickhouse.recover()

    while reader.committed < ROWS:
        writing.turn()

    assert writing.refusal is None
    assert rows(store, reader) == ROWS


@pytest.mark.slow
def test_a_row_the_store_cannot_hold_is_a_dead_letter_with_its_bytes(
    clickhouse: ClickHouse, store: Store
) -> None:
    reader = OnePartition()
    writing = writer(reader, store)
    halves = 3  # of five rows the first two, of these the first
    clickhouse.suffer(
        Fault(Kind.REFUSE, statements="INSERT", times=halves, status=400, code=117, message="bad")
    )

    while reader.committed < ROWS:
        writing.turn()

    assert rows(store, reader) == ROWS - 1
    assert writing.refused_rows == 1
    found = store.rows(
        f"SELECT from_offset, reason, original FROM {DATABASE}.dead_letters WHERE partition = {reader.number}"
    )
    assert found == [(0, "refused_by_store", EVENT.decode())]


@pytest.mark.slow
def test_it_strikes_what_it_names_and_as_often_as_told(clickhouse: ClickHouse, store: Store) -> None:
    clickhouse.suffer(Fault(Kind.REFUSE, statements="INSERT", times=0))
    assert store.rows("SELECT 1") == [(1,)]

    clickhouse.suffer(Fault(Kind.REFUSE, statements="select", times=2))
    for _ in range(2):
        with pytest.raises(StoreAway, match="refused as told"):
            store.rows("SELECT 1")
    assert store.rows("SELECT 1") == [(1,)]


def test_of_several_faults_the_oldest_that_fits_strikes() -> None:
    faults = Faults()
    insert, any_statement = Fault(Kind.CUT_BEFORE, statements="INSERT"), Fault(Kind.DELAY, times=2)
    faults.add(insert)
    faults.add(any_statement)

    struck = [faults.strike(word) for word in ("SELECT", "INSERT", "INSERT", "INSERT")]

    assert [None if fault is None else fault.kind for fault in struck] == [
        Kind.DELAY,
        Kind.CUT_BEFORE,
        Kind.DELAY,
        None,
    ]


@pytest.mark.parametrize(
    "told",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"kind": "flood"}',
        b'{"kind": "delay", "seconds": -1}',
        b'{"kind": "delay", "x": 1}',
    ],
)
def test_what_is_no_fault_is_refused(told: bytes) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        Fault.from_json(told)


def test_a_fault_is_told_over_http_as_it_is() -> None:
    assert Fault.from_json(TOO_MUCH_MEMORY.to_json()) == TOO_MUCH_MEMORY
