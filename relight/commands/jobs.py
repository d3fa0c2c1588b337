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

    A budget holds for the life of a run; a chain counts in a row and is broken by another cause. Ends with 0, also when there is none, and with
    1 when the record does not answer.
    """
    from relight.record import JOBS, ask, reader

    with reader() as store:
        columns, rows = ask(store, JOBS, run=run, limit=limit)
    show(columns, rows, output)
