"""Look at job runs: counters, budgets and chains."""

from __future__ import annotations

import click

from relight.tables import output_option, show


@click.command()
@click.argument("run", default="")
@click.option("--limit", default=50, show_default=True, help="At most so many, last seen first.")
@output_option
def command(run: str, *, limit: int, output: str) -> None:
    """List job runs with their counters and what is left of their budgets; RUN is an id or a job's name, all without it.

    \b
    relight jobs
    relight jobs llama-70b -o json
    """
    from relight.record import JOBS, ask, reader

    with reader() as store:
        columns, rows = ask(store, JOBS, run=run, limit=limit)
    show(columns, rows, output)
