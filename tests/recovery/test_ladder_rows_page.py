"""docs/ladder.md says what the default rulebook does, and names settings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rules.compiled import default_rulebook
from tests.recovery.ladder_page import TABLES, default_rules, with_tables

PAGE = Path(__file__).parents[2] / "docs" / "ladder.md"


def test_the_tables_of_the_page_are_those_of_the_default_rulebook() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "write it anew: python -m tests.recovery.write_ladder_page"


@pytest.mark.parametrize("name", TABLES)
def test_every_generated_table_has_its_place_once(name: str) -> None:
    assert PAGE.read_text().count(f"<!-- generated: {name} -->") == 1


def test_every_row_from_0_to_12_has_a_rule_or_is_said_to_be_code() -> None:
    with_rules = {rule.row for rule in default_rules()}
    assert {str(row) for row in range(13)} - with_rules == {"11"}
    assert "Row 11 is no rule" in PAGE.read_text()


def test_every_question_from_a1_to_a30_is_answered_by_a_setting_that_exists_or_is_said_to_be_fixed() -> None:
    settings = default_rulebook().settings.model_dump()
    lines = re.findall(r"^\| (A\d+) \| .*? \| (.*?) \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert [name for name, _ in lines] == [f"A{number}" for number in range(1, 31)]
    for question, where in lines:
        named = re.findall(r"setting `([a-z_]+)", where)
        assert set(named) <= set(settings), (question, named)
        assert named or where.startswith(("fixed", "rule", "row", "strategy", "code table")), question


def test_a_setting_that_answers_a_question_is_read_by_the_room_or_the_page_says_that_nothing_reads_it() -> (
    None
):
    room = Path(__file__).parents[2]
    code = "".join(path.read_text() for path in (room / "recovery").glob("*.py"))
    code += (room / "rules" / "compiled.py").read_text()  # limits that conditions may name
    for line in re.findall(r"^\| A\d+ .*$", PAGE.read_text(), flags=re.MULTILINE):
        for name in re.findall(r"setting `([a-z_]+)`", line):
            is_read = re.search(rf"\.{name}\b", code) is not None
            assert is_read is not ("nothing reads it yet" in line), line
