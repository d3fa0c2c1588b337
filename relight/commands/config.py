"""Show each effective setting of a process, where it comes from, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from relight.tables import output_option, show

if TYPE_CHECKING:
    from runtime.settings import Settings

PROCESSES = ("router", "recovery", "node-agent", "watcher", "actuators", "audit")


@click.command()
@click.argument("process", type=click.Choice(PROCESSES))
@click.option(
    "--changed", is_flag=True, help="Only what differs from its default's source: what the environment sets."
)
@output_option
def command(process: str, *, changed: bool, output: str) -> None:
    """Show the settings PROCESS would run with in this environment. Secrets are not shown.

    \b
    relight config recovery
    relight config actuators --changed -o json

    Sources: `environment` (a variable RELIGHT_...) or `default`. Ends with 0, and with 1 when a setting is wrong, naming each.
    """
    from relight.settings_shown import shown
    from runtime.errors import SettingsConflict
    from runtime.settings import read_settings

    try:
        settings = read_settings(_kind(process))
    except SettingsConflict as conflict:
        raise click.ClickException(str(conflict)) from None
    rows = [
        (setting.variable, setting.value, setting.source, setting.meaning)
        for setting in shown(settings)
        if not changed or setting.source != "default"
    ]
    show(("setting", "value", "source", "meaning"), rows, output)


def _kind(process: str) -> type[Settings]:
    """Settings of a process, imported only when asked for."""
    if process in {"router", "recovery"}:
        from streams.settings import StreamSettings

        return StreamSettings
    if process == "node-agent":
        from relight.node_agent_settings import NodeAgentSettings

        return NodeAgentSettings
    if process == "watcher":
        from producers.cluster.settings import WatcherSettings

        return WatcherSettings
    if process == "actuators":
        from actuators.settings import ActuatorSettings

        return ActuatorSettings
    from audit.settings import AuditSettings

    return AuditSettings
