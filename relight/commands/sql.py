"""Ask the record in SQL, as a reader with a time limit."""

from __future__ import annotations

import sys

import click

from relight.tables import output_option, show

CUT = 3
"""2 is click's for wrong usage."""


@click.command()
@click.argument("statement", required=False)
@output_option
def command(statement: str | None, *, output: str) -> None:
    """Run STATEMENT (or what comes by standard input) as the reader's user: it can read and nothing else, for 30 s and 100,000 rows.

    \b
    relight sql "SELECT strategy, rto_p50, rto_p95 FROM relight.rto_by_strategy"
    relight sql "SELECT * FROM relight.lemons LIMIT 10" -o json
    relight sql < question.sql

    What is longer is cut, and that is said. Ends with 0 when it was answered whole, 1 when the statement fails, 3 when the answer was cut.
    The views and their columns: docs/sql.md.
    """
    from relight.record import ROWS, reader

    asked = statement if statement is not None else sys.stdin.read()
    if not asked.strip():
        raise click.UsageError("no statement: give one as an argument or by standard input")
    with reader() as store:
        columns, rows = store.table(asked)
    show(columns, rows, output)
    if len(rows) >= ROWS:
        click.echo(f"cut after {len(rows):,} rows; ask for fewer, or with another client", err=True)
        raise SystemExit(CUT)
