"""Keep the record: bring ClickHouse up to date, write what stands in Kafka into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from audit.settings import AuditSettings


@click.group()
def command() -> None:
    """Keep the record in ClickHouse. Settings come from RELIGHT_STORE__HOST and the like; see `relight audit run --help`."""


@contextmanager
def prepare() -> Iterator[AuditSettings]:
    """Settings, logs, and refusals that people can read."""
    from audit.errors import AuditError
    from audit.settings import AuditSettings
    from runtime import logs
    from runtime.errors import ProcessError
    from runtime.settings import read_settings

    try:
        settings = read_settings(AuditSettings)
        logs.configure(settings.observe.log_level)
        yield settings
    except (ProcessError, AuditError) as error:
        raise click.ClickException(str(error)) from error


@command.command()
def migrate() -> None:
    """Make or bring up to date the tables and views, as the user `store.migrator`. Running it again changes nothing.

    \b
    RELIGHT_STORE__HOST=clickhouse relight audit migrate

    Ends with 0 when the schema is this release's, 1 when the store does not answer, refuses, or was migrated by a newer release.
    """
    from datetime import UTC, datetime

    from audit.migrate import migrate as bring_up
    from audit.store import Store

    with prepare() as settings, Store(settings.store, settings.store.migrator) as store:
        done = bring_up(store, lambda: datetime.now(UTC))
    for name in done:
        click.echo(f"applied {name}")
    click.echo(f"{settings.store.database} is up to date")


@command.command()
def run() -> None:
    """Write what stands in Kafka into ClickHouse until SIGTERM, as the user `store.writer`.

    \b
    RELIGHT_KAFKA__BOOTSTRAP=kafka:9092 RELIGHT_STORE__HOST=clickhouse relight audit run

    A store that is away is waited for, also at the start; Kafka keeps what comes. Health turns red at half of the shortest retention, which the
    broker is asked for. Ends with 0 after SIGTERM, 1 when the store refuses for good: a gap is worse than an alarm.
    """
    from audit.process import run_audit

    with prepare() as settings:
        run_audit(settings)
