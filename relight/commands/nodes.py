"""Look at nodes: isolated for what, since when, and the next step."""

from __future__ import annotations

import click

from relight.tables import output_option, show


@click.command()
@click.argument("node", default="")
@click.option("--held", is_flag=True, help="Only nodes that are held.")
@click.option("--limit", default=200, show_default=True, help="At most so many, by name.")
@output_option
def command(node: str, *, held: bool, limit: int, output: str) -> None:
    """List nodes and why they are held; NODE is a name, all without it.

    \b
    relight nodes --held
    relight nodes node-17
    relight nodes --held -o json | jq -r .node_uid

    `next step` says what has to be done before a node is released.

    Ends with 0, also when there is none, and with 1 when the record does not answer.
    """
    from relight.record import NODES, ask, reader

    with reader() as store:
        columns, rows = ask(store, NODES, node=node, held=held, limit=limit)
    show(columns, rows, output)
