"""`--help` teaches: what it does, an example to copy, how it ends; and it comes at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from relight.cli import main

READING = (
    ("incidents", "list"),
    ("incidents", "show"),
    ("jobs",),
    ("nodes",),
    ("explain",),
    ("sql",),
    ("report",),
    ("pause",),
    ("resume",),
    ("release",),
    ("doctor",),
    ("config",),
    ("audit", "migrate"),
    ("audit", "run"),
)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_help_has_an_example_and_says_how_the_command_ends(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*words, "--help"])

    assert result.exit_code == 0
    example = [line for line in result.output.splitlines() if f"relight {' '.join(words)} " in line + " "]
    assert [line for line in example if not line.startswith("Usage:")], result.output
    assert "Ends with" in result.output


def every_command(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from every_command(inner, click.Context(inner, info_name=name, parent=context))


def test_no_help_shows_the_mark_that_keeps_lines_as_they_are() -> None:
    """In a raw docstring click's mark is no mark: it is printed, and the lines after it run into one."""
    told = {
        found.command_path: found.get_help()
        for found in every_command(main, click.Context(main, info_name="relight"))
    }

    assert {"relight inject", "relight rules release"} <= set(told)
    assert [path for path, text in told.items() if "\\b" in text or "\b" in text] == []


def test_the_list_of_commands_loads_none_of_them() -> None:
    """What keeps it under a third of a second; measured by `python -m benchmarks audit`."""
    script = (
        "import sys; from relight.cli import main; main(['--help'], standalone_mode=False);"
        "print([m for m in sys.modules if m.split('.')[0] in"
        " {'pydantic', 'clickhouse_connect', 'confluent_kafka', 'rich', 'faust', 'kubernetes', 'yaml'}])"
    )

    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert said.stdout.rstrip().endswith("[]")
