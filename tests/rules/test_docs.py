"""docs/rules.md says what is so: its rulebooks check clean over the default, it names every symbol, word and verb."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from rules.check import check
from rules.expression import read_condition
from rules.loader import DEFAULT
from rules.model import Verb
from rules.overlay import OVERRIDES
from rules.tokens import MAX_CHARACTERS, MAX_DEPTH, MAX_TOKENS
from rules.vocabulary import ALL_GROUPS, SYMBOLS, SymbolType

DOCS: Final = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
TYPES: Final = {SymbolType.TEXT: "text", SymbolType.NUMBER: "number", SymbolType.FLAG: "flag"}


@pytest.mark.parametrize("text", re.findall(r"^```yaml\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL))
def test_a_rulebook_in_the_docs_checks_clean(text: str, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(text, encoding="utf-8")

    assert check([DEFAULT, tmp_path]).findings == ()


def test_conditions_in_the_docs_can_be_read() -> None:
    section = DOCS.partition("## Conditions\n\n")[2].partition("\n\n")[0]
    conditions = [line.strip() for line in section.splitlines()]

    assert len(conditions) == 4
    for condition in conditions:
        read_condition(condition, ALL_GROUPS)


def test_every_symbol_stands_in_the_docs_with_its_type_and_no_other_does() -> None:
    listed = dict(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \| (\w+) \| .+ \|$", DOCS, re.MULTILINE))

    assert listed == {
        str(symbol): TYPES[symbol.type] for group in SYMBOLS.values() for symbol in group.values()
    }


def test_closed_words_verbs_and_overrides_are_named() -> None:
    words = {
        word for group in SYMBOLS.values() for symbol in group.values() for word in symbol.words or () if word
    }
    words -= {word for word in words if word[0].isupper()}  # reasons of Kubernetes

    missing = [word for word in (*words, *Verb, *OVERRIDES) if word not in DOCS]
    assert missing == []


def test_caps_are_those_of_the_code() -> None:
    assert f"{MAX_CHARACTERS:,} characters, {MAX_TOKENS} names" in DOCS
    assert f"{MAX_DEPTH} brackets deep" in DOCS
