"""What an older release wrote is read as what a newer one writes; migrations broken off and batches written again count nothing twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from audit.migrate import FOLDER, migrate, read_migrations, statements_of
from audit.settings import StoreSettings
from audit.store import Store
from tests.audit.story import Story, in_place, put

pytestmark = pytest.mark.slow
BEFORE_TOTALS = 2
RUNS = 2
VIEWS = ("incidents", "attempts", "rto", "phases", "rpo", "productive_share", "cause_chain")
TABLES = "SELECT name FROM system.tables WHERE database = 'upgrade' AND engine LIKE '%MergeTree' AND name != 'schema_migrations'"


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    settings = StoreSettings(port=request.getfixturevalue("clickhouse").port, database="upgrade")
    with Store(settings, settings.migrator) as made:
        yield made
        made.command("DROP DATABASE upgrade")


@pytest.fixture
def story() -> Story:
    told = Story()
    told.release_default_rulebook()
    for number in range(RUNS):
        run = f"run-{number}"
        told.seen(run, -500)
        told.progress(run, 7, -1)
        told.checkpoint(run, "begin", 5, -60)
        in_place(told, run, f"inc-{number}", (2, 10 + number, 20, 25, 30, 300))
        told.checkpoint(run, "restored", 5, 20)
        told.ended(run, 900)
    return told


def read(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    return {view: store.rows(f"SELECT * FROM upgrade.{view} ORDER BY ALL") for view in VIEWS}


def now() -> datetime:
    return datetime.now(UTC)


def test_what_was_there_before_the_totals_is_in_them_once_however_often_it_comes(
    store: Store, story: Story, tmp_path: Path
) -> None:
    old, no_views = tmp_path / "old", tmp_path / "none"
    old.mkdir()
    no_views.mkdir()
    for file in sorted(FOLDER.glob("*.sql"))[:BEFORE_TOTALS]:
        shutil.copy(file, old)
    migrate(store, now, folder=old, views=no_views)
    put(store, story.records)
    for statement in statements_of(read_migrations()[BEFORE_TOTALS].text, "upgrade"):
        store.command(statement)  # and the migrator is killed before it has noted that they ran

    migrate(store, now)
    upgraded = read(store)
    for part in (
        story.records[::2],
        story.records[1::2],
    ):  # cut otherwise, so that no token says that it is known
        put(store, part)
    again = read(store)
    for (table,) in store.rows(TABLES):
        store.command(f"TRUNCATE TABLE upgrade.{table}")
    put(store, story.records[:5])
    put(store, story.records[5:])

    assert len(upgraded["incidents"]) == len(upgraded["attempts"]) == RUNS
    assert len(upgraded["rpo"]) == len(upgraded["productive_share"]) == RUNS
    assert again == upgraded
    assert read(store) == upgraded
