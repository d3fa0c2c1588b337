"""Numbered migrations: plain SQL, run once each in order, remembered with a checksum. Views are made anew each time: they hold nothing.

A statement may run twice (ClickHouse has no transactions around DDL), so each is written to bear it. Two migrators at once end at the same
schema. A migration that was changed after it ran, and a store that a newer release migrated, are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from audit.errors import MigrationError
from audit.store import Store

FOLDER: Final = Path(__file__).parent / "migrations"
VIEWS: Final = Path(__file__).parent / "views"
_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS {db}.schema_migrations
(
    number UInt32,
    name String,
    checksum String,
    applied_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree ORDER BY number COMMENT 'migrations that ran'
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: `0001_tables.sql`."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Hash of what it says."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_migrations(folder: Path = FOLDER) -> list[Migration]:
    """All migrations in order. Raises MigrationError when a number is missing or given twice."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        number, _, name = path.stem.partition("_")
        found.append(Migration(int(number), name, path.read_text(encoding="utf-8")))
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise MigrationError(
            f"migrations in {folder} are not numbered 1, 2, 3, ...: {[m.number for m in found]}"
        )
    return found


def statements_of(text: str, database: str) -> list[str]:
    """Statements of a file, comments kept out of the way of splitting; `;` ends a statement at the end of a line."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    pieces = (piece.strip() for piece in kept.replace("{db}", database).split(";\n"))
    return [piece.rstrip(";") for piece in pieces if piece]


def migrate(
    store: Store, now: Callable[[], datetime], *, folder: Path = FOLDER, views: Path = VIEWS
) -> list[str]:
    """Bring the store up to this release; what was done. Raises MigrationError, StoreAway, StoreRefused."""
    database = store.database
    store.command(f"CREATE DATABASE IF NOT EXISTS {database}")
    store.command(_LEDGER.format(db=database))
    ran = store.rows(f"SELECT number, checksum FROM {database}.schema_migrations FINAL")  # noqa: S608 - a checked name
    done: dict[int, str] = dict(ran)
    migrations = read_migrations(folder)
    _check(done, migrations)
    told: list[str] = []
    for migration in migrations:
        if migration.number in done:
            continue
        for statement in statements_of(migration.text, database):
            store.command(statement)
        row = [[migration.number, migration.name, migration.checksum, now()]]
        columns = ("number", "name", "checksum", "applied_at")
        store.insert("schema_migrations", columns, row, token=f"migration-{migration.checksum}")
        told.append(f"{migration.number:04d} {migration.name}")
    for path in sorted(views.glob("*.sql")):
        for statement in statements_of(path.read_text(encoding="utf-8"), database):
            store.command(statement)
    return told


def _check(done: dict[int, str], migrations: list[Migration]) -> None:
    known = {migration.number: migration for migration in migrations}
    for number, checksum in sorted(done.items()):
        if number not in known:
            raise MigrationError(
                f"migration {number} ran here and this release does not know it: it is older than the store"
            )
        if known[number].checksum != checksum:
            raise MigrationError(
                f"migration {number} ({known[number].name}) was changed after it ran; a change is a new migration"
            )
