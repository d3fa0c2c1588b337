"""What is said of the order of rules is true: compared with trying every combination of what the conditions read."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.classification import Fault
from rules.compiled import compile_document
from rules.condition import symbols_of
from rules.errors import Finding
from rules.expression import read_condition
from rules.ladder_lint import lint_ladder
from rules.model import LadderClass, RulebookDocument
from rules.packaged import default_content
from rules.reach import Question, facts, truth, witness
from rules.symbols import HangSymbols, IncidentSymbols, RuleKind, RunSymbols, Symbols
from rules.vocabulary import ALL_GROUPS, SYMBOLS
from schemas.envelope import make_event
from schemas.signals import ChipFault, ChipRef, FaultState, NodeRef

SYMBOLIC = ["run.ha", "run.known", "run.supported", 'hang.method == "io"']
PIECES = [*SYMBOLIC, "true"]


def hang_rule(number: int, when: str, **more: Any) -> dict[str, Any]:
    rule = {"id": f"r{number}", "title": "r", "on": ["hang"], "when": when, "then": ["record"], "reason": "r"}
    return {**rule, **more}


def findings(rules: list[dict[str, Any]]) -> list[Finding]:
    """Of the rules on hangs; the fault kinds keep the default's rules."""
    kept = [rule for rule in default_content()["rules"] if rule["on"] != ["hang"]]
    content = {**default_content(), "rules": [*rules, *(_without_hang(rule) for rule in kept)], "codes": []}
    return list(lint_ladder(RulebookDocument.model_validate(content)))


def _without_hang(rule: dict[str, Any]) -> dict[str, Any]:
    return {**rule, "on": [kind for kind in rule["on"] if kind != "hang"]}


def every_hang() -> list[Symbols]:
    return [
        Symbols(
            run=RunSymbols(ha=ha, known=known, supported=supported),
            hang=HangSymbols(method=method),
            incident=IncidentSymbols(),
        )
        for ha, known, supported in itertools.product([False, True], repeat=3)
        for method in ("io", "other")
    ]


def conditions() -> st.SearchStrategy[str]:
    joined = st.builds(
        lambda a, op, b: f"({a} {op} {b})",
        st.sampled_from(SYMBOLIC),
        st.sampled_from(["and", "or"]),
        st.sampled_from(SYMBOLIC),
    )
    one = st.one_of(st.sampled_from(PIECES), joined)
    return st.one_of(one, one.map(lambda text: f"not {text}"))


@pytest.mark.slow
@settings(max_examples=100)
@given(whens=st.lists(conditions(), min_size=1, max_size=5))
def test_a_rule_is_told_to_be_unreachable_exactly_when_nothing_reaches_it(whens: list[str]) -> None:
    rules = [hang_rule(number, when) for number, when in enumerate(whens)]
    compiled = compile_document({**default_content(), "rules": rules, "codes": []})
    ladder = compiled.candidates("run", RuleKind.HANG)

    reached, fallen_through = set(), False
    for symbols in every_hang():
        first = next((each.rule.id for each in ladder if each.matches(symbols)), None)
        reached.add(first)
        fallen_through |= first is None

    told = findings(rules)
    unreachable = {f"r{finding.path[1]}" for finding in told if finding.code in {"RL320", "RL321"}}
    assert unreachable == {rule["id"] for rule in rules} - reached
    assert fallen_through == any(finding.code == "RL325" for finding in told)


@pytest.mark.parametrize(
    "first",
    [
        {"mode": "shadow"},
        {"mode": "off"},
        {"count": {"at_least": 2, "within": "1h", "by": ["run"]}},
        {"then": ["merge"]},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_rule_that_does_not_always_take_its_events_hides_nothing(first: dict[str, Any]) -> None:
    told = findings([hang_rule(0, "true", **first), hang_rule(1, "true")])

    assert told == []


def test_a_rule_for_internal_signals_does_not_hide_one_that_hears_external_ones() -> None:
    assert findings([hang_rule(0, "true"), hang_rule(1, "true", trust="external")]) == []
    assert [
        finding.code for finding in findings([hang_rule(0, "true", trust="external"), hang_rule(1, "true")])
    ] == ["RL320"]


def test_a_rule_on_two_kinds_is_reached_when_one_of_them_reaches_it() -> None:
    both = hang_rule(1, "run.ha", on=["hang", "preemption"])

    assert findings([hang_rule(0, "true"), both]) == []


def test_a_pattern_counts_as_free_so_that_nothing_false_is_told() -> None:
    assert findings([hang_rule(0, 'hang.method =~ ".*"'), hang_rule(1, "true")]) == []


def test_the_rule_that_hides_another_is_named() -> None:
    told = findings(
        [
            hang_rule(0, "run.known"),
            hang_rule(1, "run.ha"),
            hang_rule(2, "run.ha and run.known"),
            hang_rule(3, "true"),
        ]
    )

    assert [(finding.code, "rule 'r0' before it takes" in finding.message) for finding in told] == [
        ("RL320", True)
    ]


def test_a_search_that_ends_has_a_witness_that_holds() -> None:
    texts = ["chain.hang >= limits.hang_in_a_row", "not run.ha", 'run.budget_left < 3 or hang.method == "io"']
    nodes = tuple(read_condition(text, ALL_GROUPS).root for text in texts)

    found = witness(Question(nodes[:2], nodes[2:]), {SYMBOLS["limits"]["hang_in_a_row"]: 3})

    assert found is not None
    assert [truth(node, found) for node in nodes] == [True, True, False]
    assert found[SYMBOLS["chain"]["hang"]] in {3, 4}


def test_a_contradiction_has_no_witness() -> None:
    node = read_condition("chain.hang > 3 and chain.hang < 3", ALL_GROUPS).root

    assert witness(Question((node,)), {}) is None


@pytest.mark.parametrize("ladder_class", [*LadderClass, None])
def test_what_the_search_takes_for_granted_of_faults_is_what_recovery_says(
    ladder_class: LadderClass | None,
) -> None:
    node, chip = NodeRef(name="n1", uid="node-1"), ChipRef(id="chip-1")
    event = make_event(
        ChipFault(node=node, chip=chip, namespace="xid", code="79", state=FaultState.ONCE),
        id="e1",
        source="/clusters/c1/test",
        subject="node/node-1",
        time=datetime(2026, 11, 30, tzinfo=UTC),
        cluster="c1",
    )
    fault = Fault(event, node, chip, "xid", "79", "once", ladder_class, None, "", "")
    symbols = fault.symbols()

    granted = facts(frozenset({"fault"}))

    assert granted
    for node_ in granted:
        values = {symbol: getattr(symbols, symbol.field) for symbol in symbols_of(node_)}
        assert truth(node_, values) is True
