"""Look at nodes: isolated for what, since when, and the next step."""

from __future__ import annotations

from typing import Final

import click

from relight.tables import output_option, picked, show

_LISTED: Final = ("node", "held_for", "since", "answer", "incident", "next_step")
_IDS: Final = ("incident",)


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

    `next step` says what has to be done before a node is released. The list has what reads at 100 columns, ids shortened; a node that is asked
    for is shown whole, with the UID that orders take.

    Ends with 0, also when there is none, and with 1 when the record does not answer.
    """
    from relight.record import NODES, ask, reader

    with reader() as store:
        columns, rows = ask(store, NODES, node=node, held=held, limit=limit)
    if output == "json":
        show(columns, rows, output)
    elif node and len(rows) == 1:
        show(("what", "value"), zip(columns, rows[0], strict=True), output, title="node")
    else:
        show(*picked(columns, rows, _LISTED), output, ids=_IDS)
