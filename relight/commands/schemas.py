"""Export the JSON Schemas of all messages and the AsyncAPI document of all topics, or check the exported ones."""

from __future__ import annotations

from pathlib import Path

import click

from schemas.wording import counted

_FOLDER = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the schemas are; those of this release otherwise.",
)


@click.group()
def command() -> None:
    """JSON Schemas (2020-12), one a CloudEvents type, and the AsyncAPI 3 document of the topics they stand in."""


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
    click.echo(f"{counted(len(found), 'schema')} written", err=True)


@command.command()
@click.option(
    "--write",
    is_flag=True,
    help="Bring the kept copy up to date (schemas/asyncapi.json, which refers to the schemas beside it) and print nothing.",
)
def asyncapi(*, write: bool) -> None:
    """Print the AsyncAPI 3 document: topics, their messages with schemas, who writes and who reads.

    \b
    relight schemas asyncapi > relight.asyncapi.json

    It stands in one piece: no reference leads to another file.
    """
    from schemas.asyncapi import FILE, bundled, document, text

    if not write:
        click.echo(text(bundled()), nl=False)
        return
    FILE.write_text(text(document()), encoding="utf-8")
    click.echo(f"{FILE} is up to date", err=True)


@command.command()
@_FOLDER
def check(folder: Path | None) -> None:
    """Compare the exported schemas with the models, and the AsyncAPI document with the catalogue; ends with 1 when they differ."""
    from schemas.asyncapi import is_current
    from schemas.export import FOLDER, changes

    found = [str(change) for change in changes(folder or FOLDER)]
    if not is_current():
        found.append("the AsyncAPI document has changed; right would be `relight schemas asyncapi --write`")
    for change in found:
        click.echo(change, err=True)
    if found:
        raise SystemExit(1)
    click.echo("the exported schemas are up to date")
