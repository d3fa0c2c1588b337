"""Check, show and release rulebooks; print the schema for editors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from relight.signature import by_option
from schemas.wording import agreeing, counted

if TYPE_CHECKING:
    from relight.rulebook_release import Releases
    from rules.check import Report
    from rules.model import RulebookDocument
    from schemas.records import RulebookRelease

OK: Final = 0
ERRORS: Final = 1
WARNINGS: Final = 3
"""Exit with --strict when nothing is worse than a warning; 2 is click's for wrong usage."""

_Command = TypeVar("_Command", bound=Callable[..., None])


def _folders(command: _Command) -> _Command:
    """Arguments that name a rulebook."""
    argument = click.argument(
        "folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(exists=True, path_type=Path)
    )
    option = click.option(
        "--without-default",
        is_flag=True,
        help="Take the first FOLDER as the base instead of the rulebook that ships with relight.",
    )
    return argument(option(command))


@click.group()
def command() -> None:
    """Rulebooks: the default one, with FOLDERs (or single files) laid over it in the order they are named."""


@command.command()
@_folders
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="End with 3 when there are warnings.")
def check(folders: tuple[Path, ...], *, without_default: bool, form: str, strict: bool) -> None:
    """Tell everything that is wrong, with its place. Ends with 0, 1 (errors) or 3 (warnings, --strict)."""
    report = _check(folders, without_default=without_default)
    _tell(report, form)
    raise SystemExit(_exit_code(report, strict=strict))


@command.command()
@_folders
@click.option("--codes", is_flag=True, help="Show the rows of code tables as well.")
@click.option("--changes", is_flag=True, help="Show only what the FOLDERs change of the base.")
def show(folders: tuple[Path, ...], *, without_default: bool, codes: bool, changes: bool) -> None:
    """Print the effective rulebook: what stands when all FOLDERs are laid over each other."""
    document = _document(_check(folders, without_default=without_default))
    if changes:
        from rules.difference import differences

        base = _document(_check(folders[:1] if without_default else (), without_default=without_default))
        for line in differences(base, document):
            click.echo(line)
        return
    from rules.effective import as_yaml

    click.echo(as_yaml(document, codes=codes), nl=False)


@command.command()
def schema() -> None:
    """Print the JSON Schema (2020-12) of a rulebook file, for editors."""
    import json

    from rules.schema import rulebook_schema

    click.echo(json.dumps(rulebook_schema(), indent=2))


@command.command()
@_folders
@click.option("--bootstrap", help="Broker, host:port; RELIGHT_KAFKA__BOOTSTRAP otherwise.")
@click.option("--cluster", help="Id of the cluster; RELIGHT_CLUSTER otherwise.")
@by_option("Who releases it; recorded with the release.")
@click.option(
    "--patience", type=click.FloatRange(1, 600), default=30, show_default=True, help="Seconds to wait."
)
@click.option("--strict", is_flag=True, help="Do not release when there are warnings; ends with 3.")
@click.option("--dry-run", is_flag=True, help="Check and tell what would change; write nothing.")
def release(
    folders: tuple[Path, ...],
    *,
    without_default: bool,
    bootstrap: str | None,
    cluster: str | None,
    by: str,
    patience: float,
    strict: bool,
    dry_run: bool,
) -> None:
    """Check, publish, and switch every partition to the rulebook. May be repeated; ends with 1 when one is missing."""
    report = _check(folders, without_default=without_default)
    document = _document(report)
    if report.warnings:
        _tell(report, "text")
    if strict and report.warnings:
        raise SystemExit(WARNINGS)
    with _releases(bootstrap, cluster, timedelta(seconds=patience)) as releases:
        newest = releases.newest()
        again = _tell_changes(newest, document)
        if dry_run:
            return
        now = datetime.now(UTC)
        if newest is None or not again:
            newest = releases.publish(document, by=by, now=now)
            click.echo(f"published {newest.rulebook}")
        switched = releases.switch(newest, by=by, now=now)
    told = len(switched.confirmed)
    click.echo(
        f"{counted(told, 'partition')} {agreeing(told, 'was', 'were')} told to decide by {newest.rulebook}"
    )
    for number, why in sorted(switched.missing.items()):
        click.echo(f"partition {number}: {why}", err=True)
    if switched.missing:
        raise click.ClickException("some partitions were not told; release again, repeating it is harmless")


def _check(folders: tuple[Path, ...], *, without_default: bool) -> Report:
    from rules.check import check as check_folders
    from rules.loader import DEFAULT

    if without_default and not folders:
        raise click.UsageError("--without-default needs a FOLDER")
    today = datetime.now(UTC).date()
    if without_default:
        return check_folders(folders, today=today)
    return check_folders([DEFAULT, *folders], names=["default"], today=today)


def _tell(report: Report, form: str) -> None:
    from rules.report import as_data, as_text

    if form == "json":
        import json

        click.echo(json.dumps(as_data(report.findings), indent=2))
        return
    if report.findings:
        click.echo(as_text(report.findings))
    rules = f"; {counted(len(report.document.rules), 'rule')}" if report.document else ""
    found = f"{counted(len(report.errors), 'error')}, {counted(len(report.warnings), 'warning')}"
    click.echo(f"{found}{rules}", err=True)


def _exit_code(report: Report, *, strict: bool) -> int:
    if report.errors:
        return ERRORS
    return WARNINGS if strict and report.warnings else OK


def _document(report: Report) -> RulebookDocument:
    """The rulebook of a clean report; tells and ends with 1 otherwise."""
    if report.document is None:
        _tell(report, "text")
        raise SystemExit(ERRORS)
    return report.document


def _tell_changes(newest: RulebookRelease | None, document: RulebookDocument) -> bool:
    """Say what the release changes; True when the newest release is this rulebook already."""
    from rules.compiled import content_of, hash_of
    from rules.difference import differences

    if newest is not None and newest.rulebook == hash_of(content_of(document)):
        click.echo(
            f"{newest.rulebook} is released already, by {newest.released_by} at {newest.released_at:%F %T} UTC"
        )
        return True
    for line in differences(_read_document(newest), document):
        click.echo(line)
    return False


def _read_document(newest: RulebookRelease | None) -> RulebookDocument | None:
    """The document of a release; None when there is none, or one of a release that this one cannot read."""
    from pydantic import ValidationError

    from rules.model import RulebookDocument

    if newest is None:
        return None
    try:
        return RulebookDocument.model_validate(newest.content)
    except ValidationError:
        click.echo(
            f"{newest.rulebook} cannot be read by this release of relight, so all of it counts as new",
            err=True,
        )
        return None


@contextmanager
def _releases(bootstrap: str | None, cluster: str | None, patience: timedelta) -> Iterator[Releases]:
    from relight.rulebook_release import Releases
    from runtime.errors import ProcessError
    from runtime.kafka import KafkaClients
    from runtime.settings import Settings, read_settings
    from runtime.topics import TopicAdministration
    from schemas.errors import CatalogueError

    given: dict[str, object] = {"topics": {"patience": patience}}
    if bootstrap is not None:
        given["kafka"] = {"bootstrap": bootstrap}
    try:
        settings = read_settings(Settings, **given)
        name = cluster or settings.cluster
        if name is None:
            raise click.UsageError("no cluster is known: give --cluster or set RELIGHT_CLUSTER")
        clients = KafkaClients(settings.kafka, "relight-rules")
        clients.reach(min(patience, timedelta(seconds=10)))
        if settings.topics.check_at_start:
            TopicAdministration(settings, clients).require()
        yield Releases(settings, clients, name, patience)
    except (ProcessError, CatalogueError) as error:
        raise click.ClickException(str(error)) from error
