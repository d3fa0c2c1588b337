"""End a run's open incident by its shortest safe end."""

from __future__ import annotations

import click

from relight.orders import checked_subject, give, order_options


@click.command()
@click.argument("subject")
@order_options
def command(subject: str, *, by: str, reason: str) -> None:
    """Cancel the open incident of SUBJECT (run/RUN-ID): processes that were stopped are started, a job that was suspended is resumed.

    \b
    relight cancel run/7f0c... --reason "we take it from here"
    """
    from schemas.mailbox import CancelIncidentOrder

    give(checked_subject(subject), CancelIncidentOrder(by=by, reason=reason))
