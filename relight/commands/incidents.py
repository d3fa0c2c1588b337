"""Look at recoveries: which there were, and one with its whole chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from relight.tables import output_option, picked, plain, show

_LISTED: Final = ("incident", "state", "strategy", "code", "node", "fault_time")
_IDS: Final = ("incident", "event_id", "trigger")


@click.group()
def command() -> None:
    """Recoveries, open and closed, from the record in ClickHouse."""


@command.command("list")
@click.option("--run", default="", help="Only of this job run (its id, or 6 letters of it and more).")
@click.option("--node", default="", help="Only those that began on this node (its name).")
@click.option("--open", "only_open", is_flag=True, help="Only those that are not closed.")
@click.option("--limit", default=50, show_default=True, help="At most so many, newest first.")
@output_option
def list_command(*, run: str, node: str, only_open: bool, limit: int, output: str) -> None:
    """List incidents, newest first.

    \b
    relight incidents list --open
    relight incidents list --node node-17 -o json
    relight incidents list --limit 500 -o json | jq -r 'select(.result == "failed") | .incident'

    The table has what reads at 100 columns, with ids shortened: `relight incidents show` takes them so and has the rest, as has `-o json`. In it
    `state` is the result of what is closed. Ends with 0, also when there is none, and with 1 when the record does not answer.
    """
    from relight.record import INCIDENTS, ask, reader

    with reader() as store:
        columns, rows = ask(store, INCIDENTS, run=run, node=node, open=only_open, limit=limit)
    if output == "json":
        show(columns, rows, output)
        return
    show(*picked(columns, [_as_it_stands(columns, row) for row in rows], _LISTED), output, ids=_IDS)


def _as_it_stands(columns: Sequence[str], row: Sequence[object]) -> Sequence[object]:
    """A row with one word for state, pause and result."""
    values = dict(zip(columns, row, strict=True))
    values["state"] = values["result"] or values["state"]
    if values["paused"]:
        values["state"] = f"{values['state']}, paused"
    return list(values.values())


@command.command("show")
@click.argument("incident")
@output_option
def show_command(incident: str, *, output: str) -> None:
    """Show INCIDENT whole: what it was, how long each phase took, the chain from the evidence to the end, and what else was considered.

    \b
    relight incidents show 4f1c2a09
    relight incidents show 4f1c2a09 -o json

    INCIDENT is an id, or 6 letters of it and more, as far as they are those of one. In the chain: evidence, decision (with its rule), command,
    write (one call to the API), outcome, milestone, state. `relight explain` takes the event id of an evidence or a decision, and every
    trigger. Attempts are counted within the incident, whatever the run had before; what all its incidents have used of the run's budgets stands
    apart. As JSON one object a row, ids whole: the incident, its run, its phases, the chain, the decisions. Ends with 1 when there is no such
    incident, when there are several, or when the record does not answer.
    """
    from relight.record import (
        BUDGETS,
        CHAIN,
        CONSIDERED,
        INCIDENT,
        LEAST,
        PHASES,
        ask,
        reader,
        whole_incident,
    )

    with reader() as store:
        whole = whole_incident(store, incident)
        if whole is None:
            hint = f"; the beginning of an id has {LEAST} letters or more" if len(incident) < LEAST else ""
            raise click.ClickException(f"no incident {plain(incident)!r} in the record{hint}")
        if output == "json":
            for question in (INCIDENT, BUDGETS, PHASES, CHAIN, CONSIDERED):
                show(*ask(store, question, incident=whole), "json")
            return
        for title, question in (("incident", INCIDENT), ("its run so far, with all its incidents", BUDGETS)):
            columns, rows = ask(store, question, incident=whole)
            for row in rows:  # the run is not there before it was seen
                show(("what", "value"), zip(columns, row, strict=True), output, title=title)
        for title, question in (
            ("phases", PHASES),
            ("from evidence to end", CHAIN),
            ("decisions, and what else was looked at", CONSIDERED),
        ):
            show(*ask(store, question, incident=whole), output, title=title, ids=_IDS)
