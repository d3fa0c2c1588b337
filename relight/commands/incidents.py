"""Look at recoveries: which there were, and one with its whole chain."""

from __future__ import annotations

import click

from relight.tables import output_option, plain, show


@click.group()
def command() -> None:
    """Recoveries, open and closed, from the record in ClickHouse."""


@command.command("list")
@click.option("--run", default="", help="Only of this job run (its id).")
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

    Ends with 0, also when there is none, and with 1 when the record does not answer.
    """
    from relight.record import INCIDENTS, ask, reader

    with reader() as store:
        columns, rows = ask(store, INCIDENTS, run=run, node=node, open=only_open, limit=limit)
    show(columns, rows, output)


@command.command("show")
@click.argument("incident")
@output_option
def show_command(incident: str, *, output: str) -> None:
    """Show INCIDENT whole: what it was, how long each phase took, the chain from the evidence to the end, and what else was considered.

    \b
    relight incidents show 4f1c2a...
    relight incidents show 4f1c2a... -o json

    In the chain: evidence, decision (with its rule), command, write (one call to the API), outcome, milestone, state. As JSON one object a row:
    the incident, its phases, the chain, the decisions. Ends with 1 when there is no such incident or the record does not answer.
    """
    from relight.record import CHAIN, CONSIDERED, INCIDENT, PHASES, ask, reader

    with reader() as store:
        columns, rows = ask(store, INCIDENT, incident=incident)
        if not rows:
            raise click.ClickException(f"no incident {plain(incident)!r} in the record")
        if output == "json":
            for question in (INCIDENT, PHASES, CHAIN, CONSIDERED):
                show(*ask(store, question, incident=incident), "json")
            return
        show(("what", "value"), zip(columns, rows[0], strict=True), output, title="incident")
        for title, question in (
            ("phases", PHASES),
            ("from evidence to end", CHAIN),
            ("decisions, and what else was looked at", CONSIDERED),
        ):
            show(*ask(store, question, incident=incident), output, title=title)
