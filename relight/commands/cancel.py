"""End a run's open incident by its shortest safe end."""

from __future__ import annotations

import click

from relight.orders import give, order_options


@click.command()
@click.argument("subject")
@order_options
def command(subject: str, *, by: str, reason: str) -> None:
    """Cancel the open incident of SUBJECT (run/RUN-ID): processes that were stopped are started, a job that was suspended is resumed.

    \b
    relight cancel run/7f0c2a --reason "we take it from here"

    6 letters of the id and more are enough, as far as they are those of one.

    Ends with 0 when the broker has confirmed the order, 1 when it has not or when it is not clear who is meant, 2 for a subject that takes no
    orders.
    """
    from relight.subjects import subject_meant
    from schemas.mailbox import CancelIncidentOrder

    give(subject_meant(subject), CancelIncidentOrder(by=by, reason=reason))
