"""Compiled rulebooks: the index gives what a scan would, hashes stand for content, EMPTY does nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.compiled import (
    EMPTY,
    CompiledRule,
    canonical,
    compile_document,
    content_of,
    default_rulebook,
    hash_of,
)
from rules.errors import RulebookError
from rules.model import Mode, Rule, RulebookDocument
from rules.packaged import default_content
from rules.symbols import FaultSymbols, RuleKind, RunSymbols, Symbols

KINDS = [RuleKind.CHIP_FAULT, RuleKind.NODE_FAULT, RuleKind.HANG]
CODES = ["79", "48", "31"]


def rule(
    name: str, *, when: str = "true", on: tuple[str, ...] = ("chip_fault",), **more: object
) -> dict[str, Any]:
    return {
        "id": name,
        "title": name,
        "on": list(on),
        "when": when,
        "then": ["record"],
        "reason": name,
        **more,
    }


def rulebook(*rules: dict[str, Any]) -> dict[str, Any]:
    return {**default_content(), "rules": list(rules), "codes": []}


def ids(*candidates: CompiledRule) -> list[str]:
    return [compiled.rule.id for compiled in candidates]


def test_a_rule_pinned_to_a_code_is_met_only_by_that_code_and_in_order() -> None:
    compiled = compile_document(
        rulebook(rule("first"), rule("pinned", when='fault.code in ["79", "48"]'), rule("last"))
    )

    assert ids(*compiled.candidates("run", RuleKind.CHIP_FAULT, "79")) == ["first", "pinned", "last"]
    assert ids(*compiled.candidates("run", RuleKind.CHIP_FAULT, "31")) == ["first", "last"]
    assert ids(*compiled.candidates("run", RuleKind.CHIP_FAULT)) == ["first", "last"]


def test_a_rule_switched_off_is_no_candidate_and_one_in_shadow_is() -> None:
    compiled = compile_document(rulebook(rule("off", mode="off"), rule("shadow", mode="shadow")))

    assert ids(*compiled.candidates("run", RuleKind.CHIP_FAULT)) == ["shadow"]
    assert ids(*compiled.rules) == ["off", "shadow"]


def test_a_rule_of_a_node_is_no_candidate_of_a_run() -> None:
    compiled = compile_document(rulebook(rule("node", subject="node"), rule("run")))

    assert ids(*compiled.candidates("node", RuleKind.CHIP_FAULT)) == ["node"]
    assert ids(*compiled.candidates("run", RuleKind.CHIP_FAULT)) == ["run"]
    assert compiled.candidates("node", RuleKind.HANG) == ()
    assert compiled.candidates("domain", RuleKind.HANG) == ()


_RULES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "true",
                "run.ha",
                'fault.code == "79"',
                'fault.code in ["79", "48"]',
                'fault.code != "79"',
                'fault.code == "79" or run.ha',
                'fault.code == "48" and not run.ha',
                'fault.code =~ "7"',
            ]
        ),
        st.lists(st.sampled_from(["chip_fault", "node_fault"]), min_size=1, max_size=2, unique=True),
        st.sampled_from(list(Mode)),
    ),
    max_size=8,
)


@settings(max_examples=150)
@given(made=_RULES, code=st.sampled_from([*CODES, "", "never seen"]), ha=st.booleans())
def test_the_index_finds_what_a_scan_of_all_rules_finds(made: list[Any], code: str, ha: bool) -> None:
    rules = [
        rule(f"r{number}", when=when, on=tuple(on), mode=mode.value)
        for number, (when, on, mode) in enumerate(made)
    ]
    compiled = compile_document(rulebook(*rules))
    symbols = Symbols(fault=FaultSymbols(code=code), run=RunSymbols(ha=ha))

    for kind in (RuleKind.CHIP_FAULT, RuleKind.NODE_FAULT):
        found = [each for each in compiled.candidates("run", kind, code) if each.matches(symbols)]
        scanned = [
            each
            for each in compiled.rules
            if kind in each.rule.on and each.rule.mode is not Mode.OFF and each.matches(symbols)
        ]
        assert found == scanned


def test_a_code_is_looked_up_in_its_namespace() -> None:
    row = default_rulebook().row("xid", "79")

    assert row is not None
    assert row.class_ == "isolate"
    assert default_rulebook().row("ascend", "79") is None
    assert default_rulebook().row("xid", "never seen") is None


def test_the_hash_stands_for_the_content_and_not_for_the_order_of_keys() -> None:
    content = content_of(RulebookDocument.model_validate(default_content()))
    shuffled = json.loads(json.dumps(content, sort_keys=True))
    other = copy.deepcopy(content)
    other["rules"][0]["reason"] = "another reason"

    assert hash_of(shuffled) == hash_of(content) == default_rulebook().hash
    assert hash_of(other) != hash_of(content)
    assert len(hash_of(content)) == 32


def test_a_published_content_compiles_to_the_rulebook_it_was_published_from() -> None:
    document = RulebookDocument.model_validate(default_content())
    content = json.loads(json.dumps(content_of(document)))

    compiled = compile_document(content)

    assert compiled.hash == default_rulebook().hash
    assert RulebookDocument.model_validate(content) == document
    assert [each.rule for each in compiled.rules] == list(document.rules)
    assert compiled.settings == document.settings


def test_a_published_content_fits_in_a_message() -> None:
    content = content_of(RulebookDocument.model_validate(default_content()))

    assert len(content["codes"]) > 1_000
    assert len(canonical(content)) < 700_000


def test_rules_and_strategies_are_published_whole_so_that_new_defaults_cannot_change_them() -> None:
    content = content_of(RulebookDocument.model_validate(default_content()))

    assert all(set(entry) == set(Rule.model_fields) for entry in content["rules"])


def test_the_empty_rulebook_decides_nothing_and_has_every_setting() -> None:
    assert EMPTY.hash == "none"
    assert not EMPTY.rules
    assert not EMPTY.strategies
    assert all(EMPTY.candidates(subject, kind) == () for subject in ("run", "node") for kind in RuleKind)
    assert EMPTY.row("xid", "79") is None
    assert EMPTY.settings == default_rulebook().settings
    assert EMPTY.limits == default_rulebook().limits


def test_limits_are_those_of_the_settings() -> None:
    content = copy.deepcopy(default_content())
    content["settings"] |= {"hang_in_a_row": 9, "drain_is": "fail"}

    limits = compile_document(content).limits

    assert (limits.hang_in_a_row, limits.drain_is_reschedule) == (9, False)


def test_a_content_with_errors_is_refused_with_all_of_them() -> None:
    broken = rulebook(rule("a", when="run.haa"), rule("b", when="fault.class == 1"), rule("c"))

    with pytest.raises(RulebookError) as caught:
        compile_document(broken)

    assert [(finding.code, finding.path) for finding in caught.value.findings] == [
        ("RL206", ("rules", 0, "when")),
        ("RL212", ("rules", 1, "when")),
    ]


def test_a_content_of_another_shape_is_refused() -> None:
    with pytest.raises(RulebookError, match=r"RL102 .*lacks the key 'strategies'"):
        compile_document({"format": 1, "settings": default_content()["settings"], "rules": []})
    with pytest.raises(RulebookError, match="RL103"):
        compile_document({**default_content(), "format": 2})


@pytest.mark.parametrize("word", ["yes", "on", 1, "true"])
def test_a_flag_is_true_or_false_and_nothing_else(word: object) -> None:
    with pytest.raises(RulebookError, match="RL007"):
        compile_document(rulebook(rule("a", isolate=word)))
