"""Freeze the recovery of a run, until it is resumed or a time has passed.

A node is not paused: its holds are decided in its own mailbox, repairs of its chips in those of the runs on it, so an order to the node
would keep only half of what it says. What serves in its place is said instead.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import click

from relight.orders import give, order_options

INSTEAD_FOR_A_NODE: Final = (
    "only runs are paused. To keep relight off a node: the label relight.dev/protected on it (it is never isolated), `kubectl cordon` "
    "(no new pods), `relight pause run/RUN-ID` for each run on it (nothing is begun for its faults, no chip repaired); or, for all nodes, "
    "RELIGHT_ACTING__PAUSED=true on the actuators"
)


@click.command()
@click.argument("subject", metavar="RUN")
@click.option(
    "--for",
    "lasting",
    metavar="DURATION",
    help="End by itself, such as 30m or 2h. Without it: until `relight resume`.",
)
@order_options
def command(subject: str, *, lasting: str | None, by: str, reason: str) -> None:
    """Pause RUN: evidence is kept, clocks of its incident stand still, nothing new is begun.

    \b
    relight pause run/7f0c2a --reason "storage maintenance" --for 2h

    RUN is run/RUN-ID, or 6 letters of the id and more, as far as they are those of one. `relight incidents list` and `relight jobs` show what
    is paused. A node is not paused: the label relight.dev/protected keeps it from being isolated, a pause of the runs on it from being repaired.

    Ends with 0 when the broker has confirmed the order, 1 when it has not or when it is not clear who is meant, 2 for what is no run.
    """
    from datetime import timedelta

    from relight.subjects import run_meant
    from runtime.settings import read_duration
    from schemas.mailbox import PauseOrder

    until = None
    if lasting is not None:
        try:
            duration = read_duration(lasting)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        until = datetime.now(UTC) + duration if isinstance(duration, timedelta) else None
    give(run_meant(subject, instead=INSTEAD_FOR_A_NODE), PauseOrder(by=by, reason=reason, until=until))
