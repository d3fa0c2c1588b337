"""Run the router: validates signals, stamps them, sends them to their mailboxes."""

from __future__ import annotations

import click


@click.command()
def command() -> None:
    """Run the router until SIGTERM. Settings come from RELIGHT_*; any number of routers share the work."""
    from relight.stream_processes import prepare
    from streams.processes import run_router

    with prepare() as settings:
        run_router(settings)
