"""Freeze the recovery of a run or a node, until it is resumed or a time has passed."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from relight.orders import give, order_options


@click.command()
@click.argument("subject")
@click.option(
    "--for",
    "lasting",
    metavar="DURATION",
    help="End by itself, such as 30m or 2h. Without it: until `relight resume`.",
)
@order_options
def command(subject: str, *, lasting: str | None, by: str, reason: str) -> None:
    """Pause SUBJECT: evidence is kept, clocks of its incident stand still, nothing acts.

    \b
    relight pause run/7f0c2a --reason "storage maintenance" --for 2h
    relight pause node/0b9e6c --reason "we look at it ourselves"

    SUBJECT is run/RUN-ID or node/NODE-UID, or 6 letters of the id and more, as far as they are those of one. `relight incidents list` and
    `relight jobs` show what is paused. Ends with 0 when the broker has confirmed the order, 1 when it has not or when it is not clear who is
    meant, 2 for a subject that takes no orders.
    """
    from datetime import timedelta

    from relight.subjects import subject_meant
    from runtime.settings import read_duration
    from schemas.mailbox import PauseOrder

    until = None
    if lasting is not None:
        try:
            duration = read_duration(lasting)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        until = datetime.now(UTC) + duration if isinstance(duration, timedelta) else None
    give(subject_meant(subject), PauseOrder(by=by, reason=reason, until=until))
