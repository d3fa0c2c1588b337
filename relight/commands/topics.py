"""Create the topics, check them against the catalogue and prove the partitioner, or print what comes into one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from runtime.topics import TopicAdministration


@click.group()
def command() -> None:
    """Topics of the pipeline; the broker and the names come from RELIGHT_KAFKA__* and RELIGHT_TOPICS__*."""


@command.command()
def create() -> None:
    """Create what is missing. Never changes a topic that exists; may be repeated."""
    with _administration() as topics:
        made = topics.create()
        for name in made:
            click.echo(f"created {name}")
        if not made:
            click.echo("nothing to create")


@command.command()
@click.option(
    "--probe/--no-probe", default=True, help="Send keys to a topic made for it and see where they go."
)
def check(*, probe: bool) -> None:
    """Compare the broker's topics with the catalogue; ends with 1 when something differs."""
    with _administration() as topics:
        found = topics.differences() + (topics.probe_partitioner() if probe else [])
    for difference in found:
        click.echo(str(difference), err=True)
    if found:
        raise SystemExit(1)
    click.echo("topics are as the catalogue wants them" + ("; keys go by murmur2" if probe else ""))


@command.command()
@click.argument("topic")
@click.option("--from-start", is_flag=True, help="Everything that is kept, not only what comes from now on.")
@click.option("--for", "lasting", metavar="SECONDS", type=float, help="End when nothing came for so long.")
def tail(topic: str, *, from_start: bool, lasting: float | None) -> None:
    """Print what comes into TOPIC (such as decisions.v1), one JSON event a line. Reads only."""
    from runtime.errors import ProcessError
    from runtime.kafka import KafkaClients
    from runtime.settings import Settings, read_settings
    from runtime.topic_tail import tail as follow
    from schemas.errors import SchemaError

    try:
        settings = read_settings(Settings)
        clients = KafkaClients(settings.kafka, "relight-tail")
        clients.reach()
        patience = None if lasting is None else timedelta(seconds=lasting)
        for message in follow(clients, settings.topic(topic), from_start=from_start, lasting=patience):
            click.echo(message.value() or b"")
    except (ProcessError, SchemaError) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _administration() -> Iterator[TopicAdministration]:
    from runtime.errors import ProcessError
    from runtime.kafka import KafkaClients
    from runtime.settings import Settings, read_settings
    from runtime.topics import TopicAdministration
    from schemas.errors import SchemaError

    try:
        settings = read_settings(Settings)
        clients = KafkaClients(settings.kafka, "relight-topics")
        clients.reach()
        yield TopicAdministration(settings, clients)
    except (ProcessError, SchemaError) as error:
        raise click.ClickException(str(error)) from error
