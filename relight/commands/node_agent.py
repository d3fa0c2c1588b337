"""Run the node agent: watches this node's chips and sends what it sees."""

from __future__ import annotations

import click


@click.command()
def command() -> None:
    """Run the node agent until SIGTERM. Settings come from RELIGHT_*; RELIGHT_CLUSTER, RELIGHT_NODE__NAME and RELIGHT_NODE__UID must be set."""
    from producers.agent_process import run_agent
    from producers.errors import ProducerError
    from producers.settings import AgentSettings
    from runtime import logs
    from runtime.errors import ProcessError
    from runtime.settings import read_settings

    try:
        settings = read_settings(AgentSettings)
        logs.configure(settings.observe.log_level)
        run_agent(settings)
    except (ProcessError, ProducerError) as error:
        raise click.ClickException(str(error)) from error
