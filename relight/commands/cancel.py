"""End a run's open incident by its shortest safe end."""

from __future__ import annotations

import click

from relight.orders import give, order_options


@click.command()
@click.argument("subject", metavar="RUN")
@order_options
def command(subject: str, *, by: str, reason: str) -> None:
    """Cancel the open incident of RUN (run/RUN-ID): processes that were stopped are started, a job that was suspended is resumed.

    \b
    relight cancel run/7f0c2a --reason "we take it from here"

    6 letters of the id and more are enough, as far as they are those of one.

    Ends with 0 when the broker has confirmed the order, 1 when it has not or when it is not clear who is meant, 2 for what is no run.
    """
    from relight.subjects import run_meant
    from schemas.mailbox import CancelIncidentOrder

    instead = "only runs have incidents. `relight release NODE-UID` ends what a node is held for"
    give(run_meant(subject, instead=instead), CancelIncidentOrder(by=by, reason=reason))
