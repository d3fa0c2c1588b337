"""Look at job runs: counters, budgets and chains."""

from __future__ import annotations

from typing import Final

import click

from relight.tables import output_option, picked, show

_LISTED: Final = (
    "run",
    "name",
    "namespace",
    "paused",
    "job_retries_left",
    "pod_retries_left",
    "incidents",
    "last_incident",
)
_IDS: Final = ("run", "last_incident")


@click.command()
@click.argument("run", default="")
@click.option("--limit", default=50, show_default=True, help="At most so many, last seen first.")
@output_option
def command(run: str, *, limit: int, output: str) -> None:
    """List job runs with their counters and what is left of their budgets; RUN is an id, its beginning, or a job's name.

    \b
    relight jobs
    relight jobs llama-70b -o json

    Without RUN all of them, ids shortened to read at 100 columns; one that is asked for is shown whole, with the id that orders take. RUN may be
    6 letters of an id and more.

    A budget holds for the life of a run; a chain counts in a row and is broken by another cause. Ends with 0, also when there is none, and with
    1 when the record does not answer.
    """
    from relight.record import JOBS, ask, reader

    with reader() as store:
        columns, rows = ask(store, JOBS, run=run, limit=limit)
    if output == "json":
        show(columns, rows, output)
    elif run and len(rows) == 1:
        show(("what", "value"), zip(columns, rows[0], strict=True), output, title="job run")
    else:
        show(*picked(columns, rows, _LISTED), output, ids=_IDS)
