"""Lint of what single rules and strategies say: names that exist, steps in order, ways that end, limits that can work.

Errors are what could not work or would work otherwise than it reads; warnings are what was hardly meant. The order
of rules is looked at by `rules.ladder_lint`, code tables by `rules.code_lint`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, get_args

from rules.errors import Finding, Path, Severity, suggest
from rules.model import (
    CodeRow,
    CountBy,
    LadderClass,
    Rule,
    RulebookDocument,
    Step,
    StepFailure,
    Strategy,
    Verb,
    format_duration,
)
from rules.shape import OPERATORS_OWN, OPERATORS_SENTENCE
from rules.symbols import RuleKind
from rules.vocabulary import NODE_SUBJECT, kinds_of_subject
from schemas.commands import StepName
from schemas.signals import Severity as DriverSeverity
from schemas.topics import INBOX

KEPT: Final[timedelta] = INBOX.retention or timedelta(days=7)
"""How long the inbox is kept: what is older cannot be looked up again."""

FAILURE_WORDS: Final = frozenset({"abnormal_end", "barrier", "continue", "stay"})
"""What a step's failure can lead to besides a strategy."""

PHASES: Final = (
    "detection",
    "termination",
    "requeue",
    "warm_up",
    "checkpoint",
    "communication",
    "stabilisation",
)
"""The seven phases of an RTO (recovery 8)."""

_NODE_VERBS: Final = frozenset({Verb.RECORD.value, Verb.HOLD.value})
_RUN_VERBS: Final = frozenset(verb.value for verb in Verb) - {Verb.HOLD.value}
_OF_A_CHIP: Final = frozenset({CountBy.CHIP, CountBy.CODE})
_FAULTS: Final = frozenset({RuleKind.CHIP_FAULT, RuleKind.NODE_FAULT})


def lint(document: RulebookDocument) -> Iterator[Finding]:
    """Findings about rules, strategies and settings, one by one."""
    names = {strategy.id for strategy in document.strategies}
    enabled = {strategy.id for strategy in document.strategies if strategy.enabled}
    for position, rule in enumerate(document.rules):
        yield from _lint_rule(rule, ("rules", position), names, enabled)
    for position, strategy in enumerate(document.strategies):
        yield from _lint_strategy(strategy, ("strategies", position), names)
    yield from _lint_circles(document)
    yield from _lint_unused(document)
    yield from _lint_settings(document)


def _warning(code: str, message: str, right: str, path: Path) -> Finding:
    return Finding(code, message, right, path, severity=Severity.WARNING)


def kinds_that_do_not_exist(rule: Rule, path: Path) -> Iterator[Finding]:
    """Kinds that a rule of this subject cannot be on; its condition cannot be typed until they are mended."""
    known = kinds_of_subject(rule.subject)
    for position, kind in enumerate(rule.on):
        if kind not in known:
            message = f"a rule of a {rule.subject} is never asked about {kind}"
            yield Finding("RL307", message, f"it can be on {', '.join(known)}", (*path, "on", position))


def _lint_rule(rule: Rule, path: Path, names: set[str], enabled: set[str]) -> Iterator[Finding]:
    of_node = rule.subject == NODE_SUBJECT
    possible = _NODE_VERBS if of_node else _RUN_VERBS | names
    for position, name in enumerate(rule.then):
        yield from _lint_answer(rule, name, possible, (*path, "then", position))
    if not of_node:
        yield from _lint_answer(rule, rule.otherwise, possible, (*path, "otherwise"))
    if of_node and (rule.isolate or rule.keep_off):
        key = "isolate" if rule.isolate else "keep_off"
        yield Finding("RL308", f"{key} is for rules of a run", "write then: [hold]", (*path, key))
    verbs = [position for position, name in enumerate(rule.then) if name not in names]
    if verbs and verbs[0] < len(rule.then) - 1:
        name = rule.then[verbs[0]]
        yield _warning(
            "RL309", f"{name} is always possible, what follows it never comes", "put it last", (*path, "then")
        )
    if names & set(rule.then) and not enabled & set(rule.then) and not verbs:
        message = "every strategy in then is switched off"
        yield _warning("RL310", message, f"so it is always {rule.otherwise}; say so", (*path, "then"))
    yield from _lint_count(rule, path)


def _lint_answer(rule: Rule, name: str, possible: frozenset[str] | set[str], path: Path) -> Iterator[Finding]:
    if name in possible:
        return
    if name in {verb.value for verb in Verb}:
        message = f"a rule of a {rule.subject} cannot {name}"
        yield Finding("RL308", message, f"it can {', '.join(sorted(possible))}", path)
        return
    if name.lower() in OPERATORS_OWN:
        yield Finding("RL105", f"a rule cannot name {name!r}", OPERATORS_SENTENCE, path)
        return
    yield Finding("RL301", f"{name!r} is no strategy and no verb", suggest(name, possible), path)


def _lint_count(rule: Rule, path: Path) -> Iterator[Finding]:
    count = rule.count
    if count is None:
        return
    if count.within > KEPT:
        message = f"a window of {format_duration(count.within)} is longer than the inbox is kept"
        yield Finding("RL306", message, f"at most {format_duration(KEPT)}", (*path, "count", "within"))
    if count.within <= timedelta(0):
        message = "a window of no length counts nothing"
        yield Finding("RL306", message, "write a length such as 24h", (*path, "count", "within"))
    if count.fold >= count.within > timedelta(0):
        message = f"occurrences within {format_duration(count.fold)} are one, so the window never holds more"
        yield Finding("RL306", message, "write a shorter fold", (*path, "count", "fold"))
    strange = [kind for kind in rule.on if kind not in _FAULTS]
    if strange and _OF_A_CHIP & set(count.by):
        message = f"{strange[0]} has no chip and no code to count by"
        yield Finding("RL311", message, "count by run or node", (*path, "count", "by"))
    if len(set(count.by)) < len(count.by):
        yield _warning("RL311", "a key stands twice in by", "write each once", (*path, "count", "by"))


def _lint_strategy(strategy: Strategy, path: Path, names: set[str]) -> Iterator[Finding]:
    verbs = {verb.value for verb in Verb}
    for position, name in enumerate(strategy.covers):
        if name not in names | verbs:
            right = suggest(name, names | verbs)
            yield Finding(
                "RL303",
                f"covers names {name!r}, which is no strategy and no verb",
                right,
                (*path, "covers", position),
            )
    for position, phase in enumerate(strategy.phases):
        if phase not in PHASES:
            yield Finding(
                "RL303", f"{phase!r} is no phase", suggest(phase, PHASES), (*path, "phases", position)
            )
    steps = [step.step for step in strategy.steps]
    if strategy.merge_before is not None and strategy.merge_before not in steps:
        message = f"merge_before names {strategy.merge_before.value!r}, which is no step of {strategy.id}"
        yield Finding("RL304", message, suggest(strategy.merge_before, steps), (*path, "merge_before"))
    for position, step in enumerate(strategy.steps):
        if step.step in steps[:position]:
            message = f"the step {step.step.value} stands twice in {strategy.id}"
            yield Finding(
                "RL313", message, "one command id is made of strategy and step", (*path, "steps", position)
            )
        yield from _lint_step(step, (*path, "steps", position), names)
    if not strategy.enabled and not strategy.disabled_because:
        message = f"{strategy.id} is switched off without a reason"
        yield _warning("RL314", message, "add disabled_because:", (*path, "enabled"))


def _lint_step(step: Step, path: Path, names: set[str]) -> Iterator[Finding]:
    yield from _lint_failure(step, step.on_failure, (*path, "on_failure"), names)
    for cause, failure in step.on_cause.items():
        yield from _lint_failure(step, failure, (*path, "on_cause", cause), names)
    if step.timeout <= timedelta(0):
        yield Finding(
            "RL312", "a step without time cannot be done", "write a length such as 60s", (*path, "timeout")
        )
    elif step.grace is not None and step.grace > step.timeout:
        message = f"a grace of {format_duration(step.grace)} is longer than the step's {format_duration(step.timeout)}"
        yield Finding("RL312", message, "write a longer timeout", (*path, "grace"))
    elif step.look_every > step.timeout:
        message = f"looks every {format_duration(step.look_every)}, but has {format_duration(step.timeout)}"
        yield _warning("RL312", message, "write a longer timeout", (*path, "look_every"))
    yield from _lint_arguments(step.arguments, (*path, "arguments"))


def _lint_failure(step: Step, failure: StepFailure, path: Path, names: set[str]) -> Iterator[Finding]:
    known = names | FAILURE_WORDS
    for position, name in enumerate(failure.then):
        if name not in known:
            message = f"{name!r} is no strategy and no way for a failed step"
            yield Finding("RL302", message, suggest(name, known), (*path, "then", position))
        elif name in FAILURE_WORDS and len(failure.then) > 1:
            message = f"{name} stands alone or not at all"
            yield Finding(
                "RL302", message, "name strategies in order, or one word", (*path, "then", position)
            )
    if failure.isolate and step.step is not StepName.HEAL_CHIPS:
        message = (
            f"a failed {step.step.value} never isolates: only a failed healing says that the hardware is bad"
        )
        yield Finding("RL305", message, "leave isolate out", (*path, "isolate"))


def _lint_arguments(value: Any, path: Path) -> Iterator[Finding]:  # noqa: ANN401 - arguments are of any shape
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _lint_arguments(item, (*path, position))
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if str(key).lower() in OPERATORS_OWN:
            yield Finding("RL105", f"a rulebook cannot hold {key!r}", OPERATORS_SENTENCE, (*path, str(key)))
        yield from _lint_arguments(item, (*path, str(key)))


def _lint_circles(document: RulebookDocument) -> Iterator[Finding]:
    """Ways down must end: a strategy whose failure leads back to it would be tried for ever."""
    leads = {strategy.id: _leads_to(strategy) for strategy in document.strategies}
    for position, strategy in enumerate(document.strategies):
        way = _way_back(strategy.id, leads)
        if way and strategy.id == min(way):
            message = f"failure leads in a circle: {' -> '.join([*way, strategy.id])}"
            yield Finding(
                "RL315", message, "let the last one end in fail_job", ("strategies", position, "steps")
            )


def _leads_to(strategy: Strategy) -> list[str]:
    failures = [each for step in strategy.steps for each in (step.on_failure, *step.on_cause.values())]
    return list(dict.fromkeys(name for failure in failures for name in failure.then))


def _way_back(start: str, leads: dict[str, list[str]]) -> list[str]:
    """Names on the way from a strategy back to itself; empty when there is none."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        for name in leads.get(way[-1], []):
            if name == start:
                return way
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def _lint_unused(document: RulebookDocument) -> Iterator[Finding]:
    used = {name for rule in document.rules for name in (*rule.then, rule.otherwise)}
    used |= {name for strategy in document.strategies for name in _leads_to(strategy) if name != strategy.id}
    for position, strategy in enumerate(document.strategies):
        if strategy.id not in used:
            message = f"nothing leads to the strategy {strategy.id}"
            yield _warning(
                "RL316", message, "name it in a rule's then, or remove it", ("strategies", position, "id")
            )


def _lint_settings(document: RulebookDocument) -> Iterator[Finding]:
    settings = document.settings
    path: Path = ("settings",)
    missing = [word for word in DriverSeverity if word.value not in settings.severity_fallback]
    if missing:
        message = f"severity_fallback says nothing of {', '.join(missing)}"
        yield Finding(
            "RL317", message, f"write {missing[0]}: {LadderClass.RECORD}", (*path, "severity_fallback")
        )
    if settings.cells_kept_after_end <= KEPT:
        message = "a run forgotten before its messages are would begin anew"
        yield Finding(
            "RL317",
            message,
            f"keep cells longer than {format_duration(KEPT)}",
            (*path, "cells_kept_after_end"),
        )
    scopes = {scope for scope in get_args(CodeRow.model_fields["scope"].annotation) if scope}
    for position, scope in enumerate(settings.software_filter.exempt_scopes):
        if scope not in scopes:
            where = (*path, "software_filter", "exempt_scopes", position)
            yield Finding("RL317", f"{scope!r} is no scope of a code", suggest(scope, scopes), where)
    windows = {
        ("in_place_per_chip", "within"): settings.in_place_per_chip.within,
        ("software_filter", "within"): settings.software_filter.within,
        ("software_filter", "memory"): settings.software_filter.memory,
    }
    for name, window in windows.items():
        if window > KEPT:
            message = f"{format_duration(window)} is longer than the inbox is kept"
            yield Finding("RL306", message, f"at most {format_duration(KEPT)}", (*path, *name))
