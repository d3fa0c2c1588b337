"""Numbers in sentences: the noun and the verb agree with them, here and wherever a sentence of ours counts something."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from schemas.wording import agreeing, counted

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = (
    "actuators",
    "audit",
    "producers",
    "recovery",
    "relight",
    "rules",
    "runtime",
    "schemas",
    "streams",
)
COUNTABLE: Final = re.compile(
    r"\s(pods|nodes|processes|ranks|jobs|messages|records|events|incidents|partitions|tries|resets|rules|codes|schemas)\b"
)
NEVER_ONE: Final = re.compile(r"LARGEST|LONGEST|LIMIT|MAX_")
"""Limits of our own, which are thousands."""


@pytest.mark.parametrize(
    ("number", "noun", "plural", "said"),
    [
        (0, "pod", "", "0 pods"),
        (1, "pod", "", "1 pod"),
        (2, "pod", "", "2 pods"),
        (1250, "pod", "", "1,250 pods"),
        (1, "process", "processes", "1 process"),
        (3, "process", "processes", "3 processes"),
    ],
)
def test_a_noun_stands_in_the_form_its_number_asks_for(
    number: int, noun: str, plural: str, said: str
) -> None:
    assert counted(number, noun, plural) == said


def test_a_verb_agrees_with_its_number() -> None:
    assert [agreeing(number, "is", "are") for number in (0, 1, 2)] == ["are", "is", "are"]


def bare_plurals(source: str) -> list[str]:
    """Plural nouns that follow a value in an f-string: they would say "1 pods"."""
    if not re.search(rf"\}}{COUNTABLE.pattern}", source):
        return []  # parsing all of it would take seconds
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            noun = COUNTABLE.match(str(text.value))
            if noun and not NEVER_ONE.search(ast.unparse(value)):
                found.append(f"{node.lineno}: {ast.unparse(value.value)} {noun[1]}")
    return found


def test_what_is_looked_for_is_found() -> None:
    assert bare_plurals('f"{n} pods told"') == ["1: n pods"]
    assert bare_plurals("f\"{counted(n, 'pod')} told, {MAX_PODS} pods\"") == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_sentence_of_ours_puts_a_plural_behind_a_number_that_may_be_one(room: str) -> None:
    said = {
        f"{path.relative_to(ROOT)}:{found}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for found in bare_plurals(path.read_text(encoding="utf-8"))
    }

    assert said == set()
