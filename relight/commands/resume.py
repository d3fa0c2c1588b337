"""End the pause of a run, or take a halted run or node up again from a resync."""

from __future__ import annotations

import click

from relight.orders import give, order_options


@click.command()
@click.argument("subject")
@order_options
def command(subject: str, *, by: str, reason: str) -> None:
    """Resume SUBJECT: a run that is paused (run/RUN-ID), or a run or node (node/NODE-UID) that is halted.

    Old news is looked at again before anything acts on it. Whatever is halted begins anew, from what is told of it next.

    \b
    relight resume run/7f0c2a --reason "maintenance is over"

    6 letters of the id and more are enough, as far as they are those of one.

    Ends with 0 when the broker has confirmed the order, 1 when it has not or when it is not clear who is meant, 2 for a subject that takes no
    orders.
    """
    from relight.subjects import subject_meant
    from schemas.mailbox import ResumeOrder

    give(subject_meant(subject), ResumeOrder(by=by, reason=reason))
