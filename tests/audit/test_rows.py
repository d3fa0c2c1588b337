"""Which table a message goes to, and what stands in its row."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from audit import rows
from audit.migrate import FOLDER
from audit.rows import KEPT_OF_UNREADABLE, Placed, Record, place, unreadable
from schemas.catalogue import PAYLOADS
from schemas.envelope import encode
from schemas.errors import DecodeError
from schemas.facts import Fact
from schemas.mailbox import Tick
from schemas.signals import Checkpoint, Signal
from tests.schemas.samples import sample

ARRIVED = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
TABLES = (FOLDER / "0001_tables.sql").read_text(encoding="utf-8")
LATER = (FOLDER / "0002_columns.sql").read_text(encoding="utf-8")


def columns_of(table: str) -> set[str]:
    found = re.search(rf"{{db}}\.{table}\n\((.*?)\n\)\nENGINE", TABLES, re.DOTALL)
    assert found, table
    columns = {
        line.split()[0] for line in found[1].strip().splitlines() if not line.strip().startswith("INDEX")
    }
    added = re.search(rf"ALTER TABLE {{db}}\.{table}\n(.*?);", LATER, re.DOTALL)
    return columns | set(re.findall(r"ADD COLUMN IF NOT EXISTS (\w+)", added[1] if added else ""))


def put(value: bytes | None, topic: str = "signals.v1", **headers: bytes) -> Placed | None:
    named = {f"relight.{name}": said for name, said in headers.items()}
    return place(Record(topic, 3, 41, ARRIVED, value, named))


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
def test_every_payload_has_a_table_with_exactly_its_columns(payload: Any) -> None:
    placed = put(encode(sample(payload.TYPE)))

    if payload is Tick:
        assert placed is None
        return
    assert placed is not None
    assert set(placed.row) <= columns_of(placed.table)
    unset = columns_of(placed.table) - set(placed.row)
    assert not unset, f"columns of {placed.table} that nothing fills: {unset}"
    assert (placed.row["topic"], placed.row["partition"], placed.row["offset"]) == ("signals.v1", 3, 41)


@pytest.mark.parametrize(
    "payload", [p for p in PAYLOADS if issubclass(p, (Signal, Fact))], ids=lambda p: p.TYPE
)
def test_the_router_s_copy_in_the_inbox_is_not_a_second_row(payload: Any) -> None:
    assert put(encode(sample(payload.TYPE)), topic="inbox.v1") is None


@pytest.mark.parametrize("raw", [b"", b"\xff", b"{}", b'{"type":"dev.relight.signal.x.v9"}', b'{"a":' * 3000])
def test_what_nobody_can_read_is_told_apart(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        put(raw)


def test_a_tombstone_has_no_row() -> None:
    assert put(None, topic="incidents.v1") is None


def test_a_dead_letter_keeps_its_bytes_and_says_where_it_came_from() -> None:
    placed = put(
        b"\xff<script>",
        topic="deadletters.v1",
        reason=b"unreadable",
        stage=b"router",
        topic_=b"",
        partition=b"2",
        offset=b"77",
    )

    assert placed is not None
    assert placed.table == "dead_letters"
    assert placed.row["original"] == "\\xff<script>"
    assert (placed.row["reason"], placed.row["from_partition"], placed.row["from_offset"]) == (
        "unreadable",
        2,
        77,
    )
    assert placed.row["bytes"] == 9


def test_a_dead_letter_without_headers_is_kept_all_the_same() -> None:
    placed = put(b"x", topic="deadletters.v1", offset=b"\xb2")

    assert placed is not None
    assert (placed.row["reason"], placed.row["from_offset"]) == ("", 0)


def test_what_only_the_audit_could_not_read_keeps_its_bytes_and_its_place() -> None:
    record = Record("decisions.v1", 3, 41, ARRIVED, b"\xff" * (KEPT_OF_UNREADABLE + 1), {})

    row = unreadable(record, "no JSON").row

    assert set(row) == columns_of("dead_letters")
    assert (row["stage"], row["reason"], row["detail"]) == ("audit", "unreadable", "no JSON")
    assert (row["from_topic"], row["from_partition"], row["from_offset"]) == ("decisions.v1", 3, 41)
    assert (row["bytes"], row["original"].count("\\xff")) == (KEPT_OF_UNREADABLE + 1, KEPT_OF_UNREADABLE)


@pytest.mark.parametrize("step", [2**63, 10**30])
def test_numbers_of_others_are_brought_into_range(step: int) -> None:
    event = sample(Checkpoint.TYPE)
    said = event.model_copy(update={"data": event.data.model_copy(update={"step": step})})

    placed = put(encode(said), topic="external-signals.v1")

    assert placed is not None
    assert placed.row["step"] == 2**63 - 1


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("9999-12-31T23:59:59-14:00", datetime(2299, 12, 31, tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", datetime(1900, 1, 1, tzinfo=UTC)),
        ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ],
)
def test_times_of_others_are_brought_into_range_since_no_client_could_read_them(
    said: str, kept: datetime
) -> None:
    raw = json.loads(encode(sample(Checkpoint.TYPE)))

    placed = put(json.dumps(raw | {"time": said}).encode(), topic="external-signals.v1")

    assert placed is not None
    assert placed.row["event_time"] == kept


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
def test_every_number_of_a_message_has_a_range(payload: Any) -> None:
    placed = put(encode(sample(payload.TYPE)))
    if placed is None:
        return
    numbers = {name for name, value in placed.row.items() if type(value) is int}

    assert numbers - set(rows._RANGES) <= {"partition", "offset", "exit_signal"}  # Kafka's own; 1 to 64


def test_trust_is_the_topic_s_whatever_the_message_says() -> None:
    placed = put(encode(sample(Checkpoint.TYPE)), topic="external-signals.v1")

    assert placed is not None
    assert placed.row["trust"] == "external"


@pytest.mark.parametrize("payload", [p for p in PAYLOADS if not issubclass(p, Signal)], ids=lambda p: p.TYPE)
def test_others_cannot_tell_what_we_decided_or_did(payload: Any) -> None:
    with pytest.raises(DecodeError, match="no signal"):
        put(encode(sample(payload.TYPE)), topic="external-signals.v1")
