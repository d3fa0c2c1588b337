"""Code tables: CSV files whose cells know where they stand. rules/default/tables/README.md explains the columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rules.errors import Finding, Path, Place, suggest
from rules.marked import SourceFile

COLUMNS: Final = (
    *(
        "code",
        "namespace",
        "name",
        "class",
        "level",
        "origin",
        "heal",
        "scope",
        "severity",
        "product",
        "repeat",
    ),
    *("companion_of", "release", "escalation", "notify", "source", "version"),
)
OVERLAY_COLUMNS: Final = ("why", "expires")
"""What a table of a site says besides: why a row differs, and until when."""

PROVENANCE: Final = frozenset({"source", "version", *OVERLAY_COLUMNS})
"""Columns for people; they are not published with the rulebook."""

_NO_CLASS: Final = frozenset({"", "none"})
_FLAGS: Final = {"yes": True, "no": False}
_SPREADSHEET: Final = re.compile(r"\d+([.,]\d+)?E\+\d+")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table."""

    file: SourceFile = field(repr=False)
    line: int
    cells: dict[str, str]

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and code."""
        return self.cells["namespace"], self.cells["code"]

    def content(self) -> dict[str, Any]:
        """The row as the document holds it."""
        kept: dict[str, Any] = {name: cell for name, cell in self.cells.items() if name not in PROVENANCE}
        kept["class"] = None if kept["class"] in _NO_CLASS else kept["class"]
        kept["notify"] = _FLAGS.get(kept["notify"], False)
        return kept

    def place(self, column: str | None = None) -> Place:
        """Where a cell of the row begins; the row's begin when the column is not said."""
        source = self.file.lines[self.line - 1]
        if column not in self.cells:
            return Place(self.file.name, self.line, 1, source)
        starts = list(_cell_starts(source))
        position = list(self.cells).index(str(column))
        start = starts[position] if position < len(starts) else 0
        return Place(self.file.name, self.line, start + 1, source, max(1, len(self.cells[str(column)])))


def read_table(file: SourceFile, *, overlay: bool) -> tuple[list[TableRow], list[Finding]]:
    """Rows of a file and what is wrong with their form; an overlay's table has two columns more."""
    wanted = COLUMNS + (OVERLAY_COLUMNS if overlay else ())
    reader = csv.reader(file.text.splitlines(keepends=True), strict=True)
    rows: list[TableRow] = []
    findings: list[Finding] = []
    header: list[str] = []
    before = 0
    try:
        for cells in reader:
            line, before = before + 1, reader.line_num
            if not header:
                header = cells
                findings += _header_findings(file, header, wanted)
                if findings:
                    return [], findings
            elif len(cells) != len(header):
                findings.append(_wrong_length(file, line, len(cells), len(header)))
            else:
                row = TableRow(file, line, dict(zip(header, cells, strict=True)))
                rows.append(row)
                findings += _row_findings(row)
    except csv.Error as error:
        place = Place(file.name, before + 1, 1, file.lines[min(before, len(file.lines) - 1)])
        findings.append(Finding("RL120", f"this is no CSV: {error}", "check the quotes", place=place))
    if not header:
        findings.append(
            Finding("RL120", "the table is empty", f"begin with {','.join(wanted)}", place=file.place(0))
        )
    return rows, findings


def cell_path(row: int, column: str) -> Path:
    """Path of a cell in the document."""
    return ("codes", row, column)


def _header_findings(file: SourceFile, header: list[str], wanted: tuple[str, ...]) -> list[Finding]:
    source = file.lines[0]
    findings = []
    starts = list(_cell_starts(source))
    for position, name in enumerate(header):
        if name not in wanted or name in header[:position]:
            place = Place(file.name, 1, starts[position] + 1, source, max(1, len(name)))
            right = "each column stands once" if name in wanted else suggest(name, set(wanted) - set(header))
            findings.append(Finding("RL120", f"a table has no column {name!r}", right, place=place))
    missing = [name for name in wanted if name not in header]
    if missing:
        right = f"the columns are {','.join(wanted)}"
        place = Place(file.name, 1, 1, source, len(source))
        findings.append(
            Finding("RL120", f"the table lacks the columns {', '.join(missing)}", right, place=place)
        )
    return findings


def _wrong_length(file: SourceFile, line: int, found: int, wanted: int) -> Finding:
    place = Place(file.name, line, 1, file.lines[line - 1])
    return Finding(
        "RL122", f"the row has {found} cells, the header {wanted}", "quote cells with a comma", place=place
    )


def _row_findings(row: TableRow) -> Iterator[Finding]:
    code = row.cells["code"]
    for name in ("code", "namespace"):
        if not row.cells[name].strip():
            yield Finding("RL122", f"the row has no {name}", "fill it in", place=row.place(name))
    if _SPREADSHEET.fullmatch(code):
        yield Finding(
            "RL123",
            f"{code} looks like what a spreadsheet makes of a code such as 80E01801",
            "write the code as the vendor does, and edit the table as text",
            place=row.place("code"),
        )
    if row.cells["notify"] not in _FLAGS:
        yield Finding(
            "RL122", f"notify is {row.cells['notify']!r}", "write yes or no", place=row.place("notify")
        )
    if "why" in row.cells and not row.cells["why"].strip():
        yield Finding("RL122", "the row does not say why it differs", "fill in `why`", place=row.place("why"))
    expires = row.cells.get("expires", "")
    if expires and not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", expires):
        yield Finding(
            "RL122", f"{expires!r} is no date", "write it as 2026-12-31", place=row.place("expires")
        )


def _cell_starts(line: str) -> Iterator[int]:
    """Where the cells of a line begin, after the quote of a quoted one."""
    quoted, begins = False, True
    for index, character in enumerate(line):
        if begins:
            yield index + (character == '"')
            begins = False
        if character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            begins = True
    if begins:
        yield len(line)
