"""Run the recovery stage: keeps the mailboxes' state and decides by the rules."""

from __future__ import annotations

import click


@click.command()
def command() -> None:
    """Run the recovery stage until SIGTERM. Settings come from RELIGHT_*; any number of workers share the partitions."""
    from relight.stream_processes import prepare
    from streams.core import RelightCore
    from streams.processes import run_recovery

    with prepare() as settings:
        run_recovery(settings, RelightCore())
