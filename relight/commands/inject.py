"""Inject the supervisor into job manifests: job in, job out, the difference shown."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

LEFT_AS_THEY_ARE = 3


@click.command()
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write here instead of to the terminal.",
)
@click.option(
    "--diff", "show_diff", is_flag=True, help="Show what would change, and write nothing unless -o is given."
)
@click.option("--image", default=None, help="relight's image, from which the supervisor is copied.")
@click.option(
    "--pod-security",
    type=click.Choice(["privileged", "baseline", "restricted"]),
    default="privileged",
    show_default=True,
    help="Level that the namespace enforces.",
)
@click.option("--strict", is_flag=True, help=f"Exit with {LEFT_AS_THEY_ARE} when a Job was left as it is.")
def command(
    file: str, output: Path | None, image: str | None, pod_security: str, *, show_diff: bool, strict: bool
) -> None:
    """Inject the supervisor into the Jobs of FILE (YAML or JSON, - for standard input).

    Every Job that is left as it is is named on standard error with the reason. Other objects, comments and style stay as they are.

    \b
    Exit codes: 0 all is written, 1 the file cannot be read or is no manifest, 2 wrong usage,
    3 with --strict: a Job was left as it is for another reason than being injected already.
    """
    from actuators.injection.inject import inject
    from actuators.injection.options import InjectionOptions, PodSecurity
    from actuators.injection.reasons import Reason
    from actuators.injection.text import ManifestError, change_text
    from supervisor.wrapper import WRAPPER

    options = InjectionOptions(wrapper=WRAPPER, pod_security=PodSecurity(pod_security))
    if image:
        options = options.model_copy(update={"image": image})
    text = _read(file)
    try:
        changed = change_text(text, lambda manifest: inject(manifest, options))
    except ManifestError as error:
        raise click.ClickException(f"{file}: {error}") from error
    left = False
    for report in changed.reports:
        why = report.injection.untouched
        said = str(why) if why else f"injected into container {report.injection.container}"
        click.echo(f"{report.name}: {said}", err=True)
        left = left or (why is not None and why.reason not in {Reason.NOT_A_JOB, Reason.ALREADY_INJECTED})
    if show_diff:
        click.echo(_difference(file, text, changed.text), nl=False)
    if output is not None:
        output.write_text(changed.text, encoding="utf-8")
    elif not show_diff:
        click.echo(changed.text, nl=False)
    if strict and left:
        sys.exit(LEFT_AS_THEY_ARE)


def _read(file: str) -> str:
    try:
        with click.open_file(file, encoding="utf-8") as opened:
            return str(opened.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: {error}") from error


def _difference(file: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"{file} (as it is)",
        f"{file} (injected)",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
