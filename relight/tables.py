"""What the reading commands print: a table for people, JSON for programs. Text of others is stripped of what a terminal would obey."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

_Command = TypeVar("_Command", bound=Callable[..., None])
_ABSENT: Final = "-"
_WIDTH_WITHOUT_TERMINAL: Final = 160
_SHORT: Final = 8
"""Letters of an id in a table: among a million ids, one in 4,300 shares these with another, and who asks for it is told of both."""
_CUT: Final = (
    "ids are shortened: commands take them so, as far as they are those of one; whole they are in -o json"
)
_OBEYED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Controls, marks that turn the reading round, halves of letters, private letters, and separators of lines."""


def output_option(command: _Command) -> _Command:
    """The option `-o json|table`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="A table for people, or one JSON object a row.",
    )(command)


def plain(value: object) -> str:
    """A value as people read it, with nothing in it that a terminal would obey: a job's log line is hostile text."""
    if value is None or value in ("", [], {}):
        return _ABSENT
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value)
    return "".join(_harmless(letter) for letter in str(value))


def _harmless(letter: str) -> str:
    if letter in "\n\t":
        return " "
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in _OBEYED else letter


def show(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    form: str,
    *,
    title: str = "",
    ids: Collection[str] = (),
) -> None:
    """Print rows; an empty table says so, empty JSON is nothing. In a table the columns `ids` are shortened and never wrapped."""
    if form == "json":
        for row in rows:
            click.echo(json.dumps(dict(zip(columns, map(_value, row), strict=True)), ensure_ascii=True))
        return
    listed = list(rows)
    if not listed:
        click.echo("nothing found")
        return
    console = console_for_output()
    table = Table(title=title or None, show_lines=False, header_style="bold", title_justify="left")
    for column in columns:
        table.add_column(Text(plain(column.replace("_", " "))), overflow="fold", no_wrap=column in ids)
    cut = False
    for row in listed:
        cells = [plain(value) for value in row]
        short = [
            cell[:_SHORT] if column in ids else cell for column, cell in zip(columns, cells, strict=True)
        ]
        cut = cut or short != cells
        table.add_row(*map(Text, short))
    console.print(table)
    if cut:
        click.echo(_CUT)


def picked(
    columns: Sequence[str], rows: Iterable[Sequence[object]], wanted: Sequence[str]
) -> tuple[Sequence[str], list[Sequence[object]]]:
    """The wanted columns, in the wanted order; times to the second."""
    if not columns:  # the store names none where it finds no row
        return wanted, []
    places = [columns.index(column) for column in wanted]
    return wanted, [[_to_the_second(row[place]) for place in places] for row in rows]


def _to_the_second(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    return value


def console_for_output() -> Console:
    """A console that is wide enough where there is no terminal to ask."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH_WITHOUT_TERMINAL)


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - JSON knows no NaN
        return None
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
