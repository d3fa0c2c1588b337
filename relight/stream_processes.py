"""What the commands `router` and `recovery` have in common: settings, logs, and refusals that people can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from runtime import logs
from runtime.errors import ProcessError
from runtime.settings import read_settings
from schemas.errors import SchemaError
from streams.settings import StreamSettings


@contextmanager
def prepare() -> Iterator[StreamSettings]:
    """Settings of a stream process, with logging set up; what it refuses to start for ends as one readable message."""
    try:
        settings = read_settings(StreamSettings)
        logs.configure(settings.observe.log_level)
        yield settings
    except (ProcessError, SchemaError) as error:
        raise click.ClickException(str(error)) from error
