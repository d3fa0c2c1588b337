"""The store, real as far as it can be had: ClickHouse's engine behind its own interface, the official client before it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from audit.errors import MigrationError, RowsRefused, StoreAway, StoreRefused
from audit.migrate import FOLDER, migrate, read_migrations
from audit.settings import StoreSettings
from audit.store import Store
from sandbox.clickhouse import ClickHouse
from schemas.catalogue import PAYLOADS
from schemas.envelope import encode
from tests.audit.story import Story, put
from tests.schemas.samples import sample

pytestmark = pytest.mark.slow


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def migrated(store_settings: StoreSettings) -> Iterator[StoreSettings]:
    with Store(store_settings, store_settings.migrator) as store:
        migrate(store, now)
        yield store_settings
        store.command(f"DROP DATABASE {store_settings.database}")


def count(settings: StoreSettings, table: str) -> int:
    with Store(settings, settings.reader) as store:
        return int(store.rows(f"SELECT count() FROM {settings.database}.{table}")[0][0])


def test_migrating_again_does_nothing(migrated: StoreSettings) -> None:
    with Store(migrated, migrated.migrator) as store:
        assert migrate(store, now) == []


def test_a_migration_that_was_changed_after_it_ran_is_refused(
    migrated: StoreSettings, tmp_path: Path
) -> None:
    (tmp_path / "0001_tables.sql").write_text("SELECT 1;\n")

    with (
        Store(migrated, migrated.migrator) as store,
        pytest.raises(MigrationError, match="changed after it ran"),
    ):
        migrate(store, now, folder=tmp_path)


def test_a_store_that_a_newer_release_migrated_is_refused(migrated: StoreSettings, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    newer = len(read_migrations()) + 1
    (tmp_path / f"{newer:04d}_newer.sql").write_text("SELECT 1;\n")

    with Store(migrated, migrated.migrator) as store:
        assert migrate(store, now, folder=tmp_path) == [f"{newer:04d} newer"]
        with pytest.raises(MigrationError, match="older than the store"):
            migrate(store, now)


def test_numbers_without_a_gap_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text("")
    (tmp_path / "0003_b.sql").write_text("")

    with pytest.raises(MigrationError, match="not numbered"):
        read_migrations(tmp_path)


def test_every_kind_of_message_is_taken_by_its_table(migrated: StoreSettings) -> None:
    story = Story()
    for payload in PAYLOADS:
        event = sample(payload.TYPE)
        record = story.tell(_topic(payload.TYPE), event.subject, event.data, 1)
        assert record.value != encode(event)
    with Store(migrated, migrated.writer) as store:
        put(store, story.records)

    tables = (
        "signals",
        "facts",
        "decisions",
        "incident_states",
        "commands",
        "outcomes",
        "mailbox",
        "rulebooks",
    )
    assert all(count(migrated, table) > 0 for table in tables)


def _topic(type_name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from schemas import topics  # noqa: PLC0415

    kind = type_name.split(".")[2]
    return topics.SIGNALS if kind in {"signal", "fact"} else topics.INBOX


def test_the_same_batch_again_is_the_same_rows(migrated: StoreSettings) -> None:
    story = Story()
    for at in range(5):
        story.fault("run-1", at)

    with Store(migrated, migrated.writer) as store:
        put(store, story.records)
        put(store, story.records)

    assert count(migrated, "signals") == 5


def test_a_batch_cut_otherwise_after_a_restart_is_the_same_rows_for_readers(migrated: StoreSettings) -> None:
    story = Story()
    for at in range(5):
        story.fault("run-1", at)

    with Store(migrated, migrated.writer) as store:
        put(store, story.records)
        put(store, story.records[2:])
        put(store, story.records[:3])

    assert count(migrated, "signals FINAL") == 5
    assert count(migrated, "signals_once") == 5


def test_an_event_that_a_stage_sent_twice_is_counted_once(migrated: StoreSettings) -> None:
    story = Story()
    story.fault("run-1", 0, id="same")
    story.fault("run-1", 1, id="same")

    with Store(migrated, migrated.writer) as store:
        put(store, story.records)

    assert count(migrated, "signals FINAL") == 2
    assert count(migrated, "signals_once") == 1
    with Store(migrated, migrated.reader) as store:
        assert store.rows(f"SELECT faults FROM {migrated.database}.lemons") == [(1,)]


def test_a_reader_cannot_write_and_a_writer_makes_nothing(migrated: StoreSettings) -> None:
    table = f"{migrated.database}.signals"
    with Store(migrated, migrated.reader) as store:
        for statement in (
            f"INSERT INTO {table} (cluster) VALUES ('x')",
            f"DROP TABLE {table}",
            "SELECT * FROM file('/etc/passwd', LineAsString)",
        ):
            with pytest.raises(StoreRefused):
                store.command(statement)
    with Store(migrated, migrated.writer) as store, pytest.raises(StoreRefused):
        store.command(f"ALTER TABLE {table} DELETE WHERE 1")


def test_a_reader_is_stopped_by_its_time_limit(migrated: StoreSettings) -> None:
    with (
        Store(migrated, migrated.reader, limits={"max_execution_time": 1}) as store,
        pytest.raises((StoreRefused, StoreAway)),
    ):
        store.rows("SELECT sum(sleepEachRow(1)) FROM numbers(5) SETTINGS max_block_size = 1")


def test_hostile_text_is_a_value_and_nothing_else(migrated: StoreSettings) -> None:
    story = Story()
    story.fault("x'; DROP TABLE signals; --\n\\0", 0)
    with Store(migrated, migrated.writer) as store:
        put(store, story.records)
    with Store(migrated, migrated.reader) as store:
        found = store.rows(
            f"SELECT count() FROM {migrated.database}.signals WHERE run = {{run:String}}",
            {"run": "x'; DROP TABLE signals; --\n\\0"},
        )

    assert found == [(1,)]


@pytest.mark.parametrize("value", ["far too much", 2**70, "\ud800"], ids=["text", "too large", "half a pair"])
def test_a_value_that_no_column_takes_is_the_row_s_own_fault(migrated: StoreSettings, value: object) -> None:
    column = "detail" if value == "\ud800" else "step"
    with Store(migrated, migrated.writer) as store, pytest.raises(RowsRefused):
        store.insert("signals", [column], [[value]], token=column)


def test_a_store_that_is_paused_is_away_and_one_that_comes_back_is_the_same(tmp_path: Path) -> None:
    with ClickHouse(tmp_path) as running:
        usual = StoreSettings(port=running.port)
        settings = usual.model_copy(update={"timeout": timedelta(seconds=2)})
        with Store(usual, usual.migrator) as store:
            migrate(store, now)
        with Store(settings, settings.migrator) as store:
            running.pause()
            with pytest.raises(StoreAway):
                store.rows("SELECT 1")
            running.resume()
            assert store.rows("SELECT 1") == [(1,)]
        running.kill()
        with pytest.raises(StoreAway):
            Store(settings, settings.reader)
        running.start()
        assert count(usual, "signals") == 0
