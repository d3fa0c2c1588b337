"""What rules cost: reading, checking and compiling a rulebook, and asking it; each line is measured, none is asserted.

Run: python -m benchmarks.rules_compile
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import rule_engine

from rules.check import check
from rules.compiled import CompiledRulebook, canonical, compile_document, content_of
from rules.expression import read_condition
from rules.ladder_lint import lint_ladder
from rules.loader import DEFAULT
from rules.model import RulebookDocument
from rules.packaged import default_content
from rules.symbols import FaultSymbols, RuleKind, Symbols
from rules.vocabulary import ALL_GROUPS

CONDITIONS = (
    'fault.class == "isolate"',
    "not run.ha and not incident.open",
    'fault.self_heals and fault.origin != "user" and fault.counted',
    'fault.code in ["79", "48", "31", "13"] and run.ha',
    'fault.code =~ r"80E\\d+"',
)
SHIPPED = len(default_content()["rules"])
SIZES = (SHIPPED, 100, 1_000)


def pinned_rule(number: int) -> dict[str, Any]:
    """A rule of a site, for one code."""
    return {
        "id": f"site-{number}",
        "title": "A rule of a site",
        "on": ["chip_fault"],
        "when": f'fault.code == "C{number:05d}" and fault.class == "isolate" and not incident.open',
        "then": ["isolated_job_reschedule"],
        "isolate": True,
        "reason": "a benchmark",
    }


def grown(rules: int) -> RulebookDocument:
    """The default rulebook with rules of a site before it, so many in all."""
    content = copy.deepcopy(default_content())
    content["rules"] = [pinned_rule(number) for number in range(rules - SHIPPED)] + content["rules"]
    return RulebookDocument.model_validate(content)


def seconds(work: Callable[[], object], *, times: int = 3) -> float:
    """Median over some runs, nothing remembered from the one before."""
    taken = []
    for _ in range(times):
        read_condition.cache_clear()
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def microseconds(work: Callable[[], object], *, times: int = 50_000) -> float:
    """Per call, best of three rounds."""
    rounds = []
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(times):
            work()
        rounds.append(time.perf_counter() - started)
    return min(rounds) / times * 1e6


def print_compiling() -> None:
    """From a published content to something that decides, and the look at it as a whole."""
    print(f"check of the default rulebook's files: {seconds(lambda: check([DEFAULT])):.3f} s")
    print(f"\n{'rules':>6} {'compile':>10} {'order lint':>10} {'content':>10}")
    for rules in SIZES:
        document = grown(rules)
        content = content_of(document)
        compiling = seconds(lambda content=content: compile_document(content))  # type: ignore[misc]
        linting = seconds(lambda document=document: list(lint_ladder(document)), times=1)  # type: ignore[misc]
        print(f"{rules:>6} {compiling:8.3f} s {linting:8.3f} s {len(canonical(content)) / 1000:7.0f} kB")


def print_conditions() -> None:
    """Our functions beside rule-engine's own evaluation of the same text."""
    context = rule_engine.Context(resolver=rule_engine.resolve_attribute)
    symbols = Symbols(fault=FaultSymbols(code="80E01801", class_="self_heal_reset", self_heals=True))
    print(f"\n{'ours':>10} {'library':>10}  condition")
    for text in CONDITIONS:
        matches = read_condition(text, ALL_GROUPS).matches
        theirs = rule_engine.Rule(text.replace("fault.class", "fault.class_"), context=context)
        ours_us = microseconds(lambda matches=matches: matches(symbols))  # type: ignore[misc]
        theirs_us = microseconds(lambda theirs=theirs: theirs.matches(symbols), times=3_000)  # type: ignore[misc]
        print(f"{ours_us:7.3f} us {theirs_us:7.2f} us  {text}")


def print_asking() -> None:
    """One fault asked of rulebooks of different sizes: rules for other codes cost nothing."""
    symbols = Symbols(fault=FaultSymbols(code="80E01801", class_="self_heal_reset", self_heals=True))

    def look_up(rulebook: CompiledRulebook) -> object:
        return rulebook.candidates("run", RuleKind.CHIP_FAULT, "80E01801")

    def ask(rulebook: CompiledRulebook) -> object:
        found = rulebook.candidates("run", RuleKind.CHIP_FAULT, "80E01801")
        return [each.rule.id for each in found if each.matches(symbols)]

    print(f"\n{'rules':>6} {'look up':>11} {'ask them all':>14}")
    for rules in SIZES:
        rulebook = compile_document(grown(rules))
        looking = microseconds(lambda rulebook=rulebook: look_up(rulebook))  # type: ignore[misc]
        asking = microseconds(lambda rulebook=rulebook: ask(rulebook), times=10_000)  # type: ignore[misc]
        print(f"{rules:>6} {looking:8.2f} us {asking:11.2f} us")


if __name__ == "__main__":
    print_compiling()
    print_conditions()
    print_asking()
