"""Run the actuators: carry out what was decided, and say what became of it."""

from __future__ import annotations

import click


@click.command()
def command() -> None:
    """Run actuators until SIGTERM. Settings come from RELIGHT_*; any number of them share the work.

    RELIGHT_ACTING__DRY_RUN=true writes nothing; RELIGHT_ACTING__PAUSED=true stops, isolates and ends nothing.
    """
    from actuators.process import run_actuators
    from actuators.settings import ActuatorSettings
    from runtime import logs
    from runtime.errors import ProcessError
    from runtime.settings import read_settings
    from schemas.errors import SchemaError

    try:
        settings = read_settings(ActuatorSettings)
        logs.configure(settings.observe.log_level)
        run_actuators(settings)
    except (ProcessError, SchemaError) as error:
        raise click.ClickException(str(error)) from error
