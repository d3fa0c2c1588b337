"""Release a node that relight holds, as a human: nothing is checked, what is pending is cancelled."""

from __future__ import annotations

import contextlib

import click

from relight.orders import give, order_options
from relight.tables import plain
from schemas.ids import subject_name


@click.command()
@click.argument("node")
@order_options
def command(node: str, *, by: str, reason: str) -> None:
    """Release NODE, given by its UID or 6 letters of it and more (`relight nodes -o json` shows it): names are used again, UIDs are not.

    \b
    relight nodes --held
    relight release 0b9e6c1e-... --reason "board replaced, burn-in passed"

    The record is asked first: a name is refused with its UID, and what nobody holds is said. Ends with 0 when the broker has confirmed the
    order, 1 when it has not or when it is not clear which node is meant, 2 for wrong usage.
    """
    from relight.subjects import subject_meant
    from schemas.mailbox import ReleaseNodeOrder

    subject = subject_meant(f"node/{node.removeprefix('node/')}")
    _say_if_not_held(subject_name(subject))
    give(subject, ReleaseNodeOrder(by=by, reason=reason))


def _say_if_not_held(uid: str) -> None:
    """The order does not need the record: a store that is away must not keep a node isolated."""
    from relight.record import HOLDER, ask, reader

    with contextlib.suppress(click.ClickException), reader() as store:
        _, known = ask(store, HOLDER, node=uid)
        if known and not known[0][0]:
            click.echo(f"nothing in the record holds {plain(uid)}; the order is given all the same", err=True)
