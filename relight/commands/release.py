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
    relight nodes --held
    relight release 0b9e6c1e-... --reason "board replaced, burn-in passed"

    The record is asked first: a name is refused with its UID, and what nobody holds is said. Ends with 0 when the broker has confirmed the
    order, 1 when it has not or NODE is a name, 2 for wrong usage.
    """
    from schemas.mailbox import ReleaseNodeOrder

    uid = node.removeprefix("node/")
    subject = checked_subject(f"node/{uid}")
    _look_up(uid)
    give(subject, ReleaseNodeOrder(by=by, reason=reason))


def _look_up(uid: str) -> None:
    """Say what the record knows of it. The order does not need the record: a store that is away must not keep a node isolated."""
    from relight.record import HOLDER, ask, reader
    from relight.tables import plain

    try:
        with reader() as store:
            _, known = ask(store, HOLDER, node=uid)
    except click.ClickException as away:
        click.echo(f"the record was not asked who holds it: {plain(away.format_message())}", err=True)
        return
    held = {row_uid: held_for for _, row_uid, held_for in known}
    if uid in held:
        if not held[uid]:
            click.echo(f"nothing in the record holds {plain(uid)}; the order is given all the same", err=True)
        return
    if held:
        others = ", ".join(plain(other) for other in held)
        raise click.ClickException(f"{plain(uid)} is the name of a node; right would be its UID: {others}")
    click.echo(f"the record knows no node {plain(uid)}; the order is given all the same", err=True)
