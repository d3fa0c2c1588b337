"""Write the recovery report: one HTML file with RTO by phase and strategy and each incident's chain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from relight.progress import told_on_the_terminal
from schemas.wording import counted


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("relight-report.html"),
    show_default=True,
)
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="How far back.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 5000),
    default=200,
    show_default=True,
    help="Incidents shown one by one, newest first.",
)
def command(output: Path, *, days: float, limit: int) -> None:
    """Write the report of the last days into one HTML file: it needs no network, and runs nothing.

    \b
    relight report --days 7 -o last-week.html
    relight report --days 365 --limit 1000 -o year.html

    Ends with 0 when the file is written, also when there was no incident, and with 1 when the record does not answer.
    """
    from relight.record import reader
    from relight.report.content import read_content
    from relight.report.page import make_page

    now = datetime.now(UTC)
    with reader() as store, told_on_the_terminal("reading incidents") as told:
        content = read_content(
            store, since=now - timedelta(days=days), until=now, made_at=now, limit=limit, told=told
        )
    output.write_text(make_page(content), encoding="utf-8")
    click.echo(f"{output}: {counted(content.total, 'incident')}")
