"""The record: rows a second into the store, recovery times out of it, and how soon `relight --help` is there.

Writing: Kafka messages through the audit's own road (decode, place, batch, insert) beside a bare loop that inserts the same rows with the
same client. Both to the engine behind its HTTP interface on this machine. Reading: the views over 100,000 incidents beside the bare count of
the messages they are made of. The command line beside an interpreter that does nothing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from clickhouse_connect import get_client

from audit.batches import Batcher
from audit.migrate import migrate
from audit.rows import Record, place
from audit.settings import StoreSettings
from audit.store import INSERT_SETTINGS, Store
from benchmarks.audit_history import statements
from benchmarks.report import Row
from rules.compiled import content_of, hash_of
from rules.model import RulebookDocument
from rules.packaged import default_content
from sandbox.clickhouse import ClickHouse
from schemas.envelope import Payload, encode, make_event
from schemas.ids import derive_id, run_subject
from schemas.records import RulebookRelease
from schemas.signals import ChipFault, ChipRef, FaultState, NodeRef, Placement
from schemas.topics import RULEBOOKS, SIGNALS

INCIDENTS: Final = 100_000
MESSAGES: Final = 40_000
BATCH: Final = 10_000
ROUNDS: Final = 3
ASKED: Final = 5
"""How often each view is asked; the least counts, since what else the machine does only adds."""
START: Final = datetime(2026, 3, 1, tzinfo=UTC)
VIEWS: Final = {
    "incidents": "SELECT count(), max(fault_time), uniq(result) FROM {db}.incidents",
    "attempts": "SELECT count(), max(decided_at), uniq(strategy) FROM {db}.attempts",
    "rto": "SELECT count(), sum(rto_seconds), uniq(outcome) FROM {db}.rto",
    "rto_by_strategy": "SELECT * FROM {db}.rto_by_strategy",
    "phases": "SELECT strategy, phase, quantile(0.5)(seconds), count() FROM {db}.phases GROUP BY strategy, phase",
    "rpo": "SELECT count(), sum(rpo_steps), sum(rpo_seconds) FROM {db}.rpo",
    "cause_chain of one incident": "SELECT * FROM {db}.cause_chain WHERE incident = (SELECT any(incident) FROM {db}.incident_totals)",
}
AIM_SECONDS: Final = "1 s"


def rows() -> list[Row]:
    """Writing, reading, and the command line."""
    with _store() as (store, settings):
        return [*_writing(store, settings), *_reading(store), *_help()]


@contextmanager
def _store() -> Iterator[tuple[Store, StoreSettings]]:
    with tempfile.TemporaryDirectory() as folder, ClickHouse(Path(folder)) as running:
        settings = StoreSettings(port=running.port, database="bench", timeout=timedelta(minutes=5))
        with Store(settings, settings.migrator) as store:
            migrate(store, lambda: datetime.now(UTC))
            yield store, settings


def _writing(store: Store, settings: StoreSettings) -> list[Row]:
    """In turns, so that what else the machine does hits both."""
    ours, bare, only = [], [], []
    for turn in range(ROUNDS):
        records = list(_faults(first=turn * MESSAGES))
        begun = time.monotonic()
        blocks = list(_blocks(records))
        only.append(time.monotonic() - begun)
        ours.append(_timed(partial(_insert, store, blocks)) + only[-1])
        bare.append(_timed(partial(_insert_bare, settings, blocks)))
    rate, loop, made = (MESSAGES / median(took) for took in (ours, bare, only))
    reference = f"the same rows, bare client: {loop:,.0f}/s"
    return [
        Row("audit", f"rows into the store, batches of {BATCH:,}", rate, "rows/s", reference, loop / rate),
        Row("audit", "of it, messages to rows", made, "rows/s"),
    ]


def _faults(first: int) -> Iterator[Record]:
    for number in range(first, first + MESSAGES):
        signal = ChipFault(
            node=NodeRef(uid=f"uid-{number % 500}", name=f"node-{number % 500}"),
            chip=ChipRef(id=f"SN-{number % 4000}"),
            namespace="ascend",
            code="80E01801",
            state=FaultState.ONCE,
            placement=Placement(run=f"run-{number % 100}"),
        )
        yield _record(SIGNALS.name, number, run_subject(f"run-{number % 100}"), signal)


def _record(topic: str, offset: int, subject: str, payload: Payload) -> Record:
    at = START + timedelta(milliseconds=offset)
    identity = derive_id(topic, offset)
    event = make_event(payload, id=identity, source="/bench", subject=subject, time=at, cluster="lab")
    return Record(topic, 0, offset, at, encode(event), {})


def _blocks(records: list[Record]) -> Iterator[Any]:
    batcher = Batcher(records[0].topic, 0)
    for record in records:
        batcher.add(record.offset, record.arrived, place(record), 0.0)
        if batcher.count >= BATCH:
            yield from batcher.cut()
    yield from batcher.cut()


def _insert(store: Store, blocks: list[Any]) -> None:
    for block in blocks:
        store.insert(block.table, block.columns, block.rows, token=block.token)


def _insert_bare(settings: StoreSettings, blocks: list[Any]) -> None:
    client = get_client(host=settings.host, port=settings.port, username="writer", compress=False)
    for block in blocks:
        again = {**INSERT_SETTINGS, "insert_deduplication_token": uuid.uuid4().hex}
        client.insert(
            f"{settings.database}.{block.table}", block.rows, column_names=list(block.columns), settings=again
        )
    client.close()


def _reading(store: Store) -> Iterator[Row]:
    content = content_of(RulebookDocument.model_validate(default_content()))
    rulebook = hash_of(content)
    release = RulebookRelease(rulebook=rulebook, released_by="bench", released_at=START, content=content)
    _insert(store, list(_blocks([_record(RULEBOOKS.name, 0, f"rulebook/{rulebook}", release)])))
    for statement in statements(store.database):
        store.command(statement, {"count": INCIDENTS, "rulebook": rulebook})
    tables = ("incident_states", "decisions", "commands", "outcomes", "facts", "signals")
    messages = sum(int(store.rows(f"SELECT count() FROM {store.database}.{table}")[0][0]) for table in tables)  # noqa: S608 - names of ours
    through = "UNION ALL ".join(
        f"SELECT sum(cityHash64(event_id)) FROM {store.database}.{table} "  # noqa: S608 - names of ours
        for table in tables
    )
    bare = min(_timed(lambda: store.rows(through)) for _ in range(ASKED))
    for name, question in VIEWS.items():
        asked = question.replace("{db}", store.database)
        took = min(_timed(partial(store.rows, asked)) for _ in range(ASKED))
        what = f"{name} over {INCIDENTS:,} incidents" if "one" not in name else name
        yield Row(
            "audit",
            what,
            took,
            "s",
            f"once through {messages:,} messages: {bare:.2f} s",
            took / bare,
            AIM_SECONDS,
        )


def _help() -> list[Row]:
    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    ours = [_timed(lambda: run("-m", "relight.cli", "--help")) for _ in range(7)]
    bare = [_timed(lambda: run("-c", "pass")) for _ in range(7)]
    took, nothing = median(ours), median(bare)
    return [
        Row("audit", "relight --help", took, "s", f"python -c pass: {nothing:.3f} s", took / nothing, "0.3 s")
    ]


def _timed(do: Callable[[], object]) -> float:
    begun = time.monotonic()
    do()
    return time.monotonic() - begun
