"""Broken rulebooks, numbered, each with what the checker says of it. They double as documentation.

A YAML example says what is expected in its first line; those of tables stand in `examples/tables.expect`, since CSV
has no comments. Where the finding is about a line of the default rulebook, the file is named instead of line and
column.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from rules.check import Report, check
from rules.errors import Finding
from rules.loader import DEFAULT
from rules.report import as_data, as_text

EXAMPLES: Final = Path(__file__).parent / "examples"
DOCS: Final = Path(__file__).parents[2] / "docs" / "rules.md"
TODAY: Final = date(2026, 11, 30)
YAML: Final = sorted(EXAMPLES.glob("*.yaml"))
TABLES: Final = dict(
    line.split(" ", 1) for line in (EXAMPLES / "tables.expect").read_text(encoding="utf-8").splitlines()
)


@cache
def check_over_default(path: Path) -> Report:
    return check([DEFAULT, path], names=["default", path.name], today=TODAY)


def told(finding: Finding, example: Path) -> str:
    place = finding.place
    assert place is not None, f"{finding} has no place"
    if place.file != example.name:
        return f"{finding.code} {place.file}"
    return f"{finding.code} {place.line}:{place.column}"


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.stem)
def test_a_broken_rulebook_is_told_with_its_place(path: Path) -> None:
    expected = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# expect: ").split(", ")

    report = check_over_default(path)

    assert [told(finding, path) for finding in report.findings] == expected


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_broken_table_is_told_with_its_place(name: str) -> None:
    report = check_over_default(EXAMPLES / name)

    assert [told(finding, EXAMPLES / name) for finding in report.findings] == TABLES[name].split(", ")


def test_every_example_of_a_table_says_what_is_expected() -> None:
    assert sorted(TABLES) == sorted(path.name for path in EXAMPLES.glob("*.csv"))


@pytest.mark.parametrize("path", [*YAML, *EXAMPLES.glob("*.csv")], ids=lambda path: path.stem)
def test_the_caret_stands_under_what_is_meant(path: Path) -> None:
    for finding in check_over_default(path).findings:
        place = finding.place
        assert place is not None
        assert place.column - 1 + place.length <= max(len(place.source), 1)
        meant = place.source[place.column - 1 : place.column - 1 + place.length]
        quoted = re.findall(
            r"'([^']+)' (?:is unknown|alone|is not part|has no|does not exist)", finding.message
        )
        assert not quoted or meant == quoted[0] or finding.code == "RL206"


@pytest.mark.parametrize("path", [*YAML, *EXAMPLES.glob("*.csv")], ids=lambda path: path.stem)
def test_text_and_json_say_the_same(path: Path) -> None:
    findings = check_over_default(path).findings

    text, data = as_text(findings), as_data(findings)

    assert len(data) == len(findings)
    for entry in data:
        assert (
            f"{entry['file']}:{entry['line']}:{entry['column']}: {entry['severity']} {entry['code']}" in text
        )
        assert entry["message"] in text


def test_every_code_of_a_finding_is_listed_in_the_docs_and_has_an_example() -> None:
    rules = Path(__file__).parents[2] / "rules"
    used = {
        code
        for path in rules.glob("*.py")
        for code in re.findall(r'"(RL\d{3})"', path.read_text(encoding="utf-8"))
    }
    listed = set(re.findall(r"^\| (RL\d{3}) ", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    shown = {
        finding.code
        for path in [*YAML, *EXAMPLES.glob("*.csv")]
        for finding in check_over_default(path).findings
    }

    assert used == listed
    assert used - shown == {"RL004", "RL010", "RL336"}, (
        "these are about files, not their text: test_folders.py has them"
    )


def test_the_default_rulebook_is_clean() -> None:
    report = check([DEFAULT], names=["default"], today=TODAY)

    assert as_text(report.findings) == ""
    assert report.compiled is not None
