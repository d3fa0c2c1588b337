"""Export the JSON Schemas of all messages, or check the exported ones."""

from __future__ import annotations

from pathlib import Path

import click

_FOLDER = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the schemas are; those of this release otherwise.",
)


@click.group()
def command() -> None:
    """JSON Schemas (2020-12), one a CloudEvents type."""


@command.command()
@_FOLDER
@click.option("--even-if-broken", is_flag=True, help="Write changes that break readers or writers, too.")
def export(folder: Path | None, *, even_if_broken: bool) -> None:
    """Bring the exported schemas up to date. Ends with 1, and writes nothing, when a change breaks somebody."""
    from schemas.export import FOLDER
    from schemas.export import export as write

    found = write(folder or FOLDER, even_if_broken=even_if_broken)
    for change in found:
        click.echo(str(change))
    broken = any(change.broken for change in found)
    if broken and not even_if_broken:
        raise click.ClickException("nothing was written: what is broken needs a new version of its type")
    click.echo(f"{len(found)} schemas written", err=True)


@command.command()
@_FOLDER
def check(folder: Path | None) -> None:
    """Compare the exported schemas with the models; ends with 1 when they differ."""
    from schemas.export import FOLDER, changes

    found = changes(folder or FOLDER)
    for change in found:
        click.echo(str(change), err=True)
    if found:
        raise SystemExit(1)
    click.echo("the exported schemas are up to date")
