"""Real parts on this machine, to try things on: a Kafka broker of one's own."""

from __future__ import annotations

from pathlib import Path

import click

MARK = ".relight-sandbox"
"""Says that a folder is the sandbox's to empty."""


@click.group()
def command() -> None:
    """Real parts for trying things. They end with this command, and what they keep lies in FOLDER."""


@command.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--env-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the settings here once it serves.",
)
def kafka(folder: Path, env_file: Path | None) -> None:
    """Run one real Kafka broker on a free loopback port until Ctrl-C.

    FOLDER is made, or was used for this before; what an earlier broker left in it is removed. A folder with anything else in it is refused.
    """
    import signal

    from sandbox import kafka_jars
    from sandbox.kafka_server import KafkaBroker

    claim(folder)
    kafka_jars.fetch()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with KafkaBroker(folder) as broker:
            lines = settings_of(broker.bootstrap)
            click.echo(lines)
            if env_file is not None:
                env_file.write_text(lines + "\n", encoding="utf-8")
            click.echo("serving; Ctrl-C ends it", err=True)
            signal.pause()
    except KeyboardInterrupt:
        click.echo("ended", err=True)


def claim(folder: Path) -> None:
    """Make the folder ours, unless it holds what others put there: a broker's start removes data."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / MARK
    if not mark.exists() and any(folder.iterdir()):
        raise click.UsageError(
            f"{folder} is not empty and no sandbox was in it before; right would be a folder that does not exist yet"
        )
    mark.touch()


def settings_of(bootstrap: str) -> str:
    """Settings for a single broker, as lines a shell can source."""
    return "\n".join(
        f"export {name}={value}"
        for name, value in {
            "RELIGHT_CLUSTER": "try",
            "RELIGHT_KAFKA__BOOTSTRAP": bootstrap,
            "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
            "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
            "RELIGHT_TOPICS__PARTITIONS": "4",
        }.items()
    )
