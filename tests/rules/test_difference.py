"""What people are told before a release: each change once, nothing when nothing changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from rules.difference import differences
from rules.effective import as_yaml
from rules.model import RulebookDocument
from rules.packaged import default_content

Content = dict[str, Any]


def document(change: Callable[[Content], object] | None = None) -> RulebookDocument:
    content = copy.deepcopy(default_content())
    if change is not None:
        change(content)
    return RulebookDocument.model_validate(content)


def rule(content: Content, name: str) -> Content:
    return next(entry for entry in content["rules"] if entry["id"] == name)


def test_the_same_rulebook_differs_in_nothing() -> None:
    assert differences(document(), document()) == []


def test_against_nothing_all_is_new() -> None:
    told = differences(None, document())

    assert all(line.startswith("+ ") for line in told)
    assert len([line for line in told if line.startswith("+ rule ")]) == len(document().rules)
    assert told[-1] == f"+ {len(document().codes):,} codes"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c["settings"].update(hang_in_a_row=4), ["~ setting hang_in_a_row: 3 -> 4"]),
        (lambda c: rule(c, "hang").update(notify=True), ["~ rule hang: notify false -> true"]),
        (lambda c: c["rules"].remove(rule(c, "hang")), ["- rule hang"]),
        (
            lambda c: c["rules"].append({**rule(c, "hang"), "id": "more"}),
            ["+ rule more: The run stands still"],
        ),
        (lambda c: c["rules"].append(c["rules"].pop(0)), ["> rule ha-off: now after node-else"]),
        (lambda c: c["rules"].insert(0, c["rules"].pop(3)), ["> rule record-class: now first"]),
        (lambda c: c["strategies"].pop(0), ["- strategy in_place_recovery"]),
        (lambda c: c["codes"].pop(0), ["- code ascend 020000002"]),
        (
            lambda c: c["codes"][0].update({"class": "isolate", "release": "repair"}),
            ["~ code ascend 020000002: class record -> isolate; release none -> repair"],
        ),
    ],
)
def test_each_change_is_told_in_one_line(change: Callable[[Content], object], told: list[str]) -> None:
    assert differences(document(), document(change)) == told


@pytest.mark.slow
def test_the_effective_rulebook_is_one_text_that_reads_back() -> None:
    from ruamel.yaml import YAML  # noqa: PLC0415 - only here

    text = as_yaml(document(), codes=True)

    assert RulebookDocument.model_validate(YAML(typ="safe", pure=True).load(text)) == document()
    assert as_yaml(document(), codes=True) == text
    assert "codes:" not in as_yaml(document())
