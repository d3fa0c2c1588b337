"""Rows of a benchmark as a table and as JSON: what, how fast, beside what, the ratio."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Row:
    """One measured line. `ratio` is `value` to the reference measured in the same run; `aim` is what the project hopes for."""

    benchmark: str
    what: str
    value: float
    unit: str
    reference: str = ""
    ratio: float | None = None
    aim: str = ""


def show(title: str, rows: Iterable[Row]) -> None:
    """Print a table."""
    table = Table("what", "value", "beside", "ratio", "aim", title=title, title_justify="left")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(row.what, f"{row.value:,.4g} {row.unit}", row.reference, ratio, row.aim)
    Console(width=140).print(table)


def save(path: Path, rows: Iterable[Row]) -> None:
    """Write all rows as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
