"""Look whether everything relight stands on is as it should be: topics, versions, store, clocks, rights."""

from __future__ import annotations

import click

from relight.tables import output_option, show

CHECKS = ("versions", "topics", "store", "rights")


@click.command()
@click.option("--only", multiple=True, type=click.Choice(CHECKS), help="Only this check; may be repeated.")
@output_option
def command(only: tuple[str, ...], *, output: str) -> None:
    """Check the broker's topics and partitioner, versions, the store and its schema, nodes' clocks, rights and bounds on the cluster.

    \b
    relight doctor
    relight doctor --only topics --only store -o json

    Reads only (but for a probe topic that is removed again). Ends with 0 when all is well or, as it says, not known; 1: something is bad.
    """
    from relight.checkup import Verdict, look

    found = look(only)
    show(
        ("check", "verdict", "detail"), [(one.check, one.verdict.value, one.detail) for one in found], output
    )
    if any(one.verdict is Verdict.BAD for one in found):
        raise SystemExit(1)
