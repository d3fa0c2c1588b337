"""Release a node that relight holds, as a human: nothing is checked, what is pending is cancelled."""

from __future__ import annotations

import click

from relight.orders import checked_subject, give, order_options


@click.command()
@click.argument("node")
@order_options
def command(node: str, *, by: str, reason: str) -> None:
    """Release NODE, given by its UID (`relight nodes` and `kubectl get node -o yaml` show it): names are used again, UIDs are not.

    \b
    relight release 0b9e6c1e-... --reason "board replaced, burn-in passed"
    """
    from schemas.mailbox import ReleaseNodeOrder

    subject = node if node.startswith("node/") else f"node/{node}"
    give(checked_subject(subject), ReleaseNodeOrder(by=by, reason=reason))
