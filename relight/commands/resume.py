"""End a pause, or take a halted subject up again from a resync."""

from __future__ import annotations

import click

from relight.orders import checked_subject, give, order_options


@click.command()
@click.argument("subject")
@order_options
def command(subject: str, *, by: str, reason: str) -> None:
    """Resume SUBJECT (run/RUN-ID or node/NODE-UID): old news is looked at again before anything acts on it.

    \b
    relight resume run/7f0c... --reason "maintenance is over"
    """
    from schemas.mailbox import ResumeOrder

    give(checked_subject(subject), ResumeOrder(by=by, reason=reason))
