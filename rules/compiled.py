"""A rulebook ready to decide by: conditions as functions, rules indexed by subject, kind and pinned code.

`candidates` costs the same however many rules do not apply: a rule pinned to codes by its condition is met only by
events with one of them. The index is built once and holds only codes that rules name, so events cannot make it
grow. Nothing here has a clock or state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from rules.errors import ConditionError, Finding, RulebookError
from rules.escalation import Repeat, read_repeat
from rules.expression import Condition, Predicate, read_condition
from rules.model import CodeRow, Mode, Rule, RulebookDocument, Settings, Strategy
from rules.packaged import default_content
from rules.shape import findings_of, no_raw
from rules.symbols import LimitSymbols, RuleKind
from rules.vocabulary import groups_of

NO_HASH: Final = "none"
"""Hash of EMPTY: the rulebook of a partition that was never switched to one."""

MAX_CONTENT_BYTES: Final = 700_000
"""Largest rulebook; what a message may have (900 kB) leaves room for the envelope above it."""

_HASH_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule with its condition as a function."""

    rule: Rule
    matches: Predicate
    codes: frozenset[str] | None
    """Codes the condition is pinned to; None: any."""


@dataclass(frozen=True, slots=True)
class _Indexed:
    """Rules of one subject and kind, in order: those for any code, and for each pinned code those that can match it."""

    unpinned: tuple[CompiledRule, ...]
    by_code: Mapping[str, tuple[CompiledRule, ...]]


@dataclass(frozen=True, slots=True)
class CompiledRulebook:
    """What `advance` decides by; immutable."""

    hash: str
    title: str
    settings: Settings
    limits: LimitSymbols
    strategies: Mapping[str, Strategy]
    rules: tuple[CompiledRule, ...]
    """All rules, those switched off included, in order."""
    _index: Mapping[tuple[str, RuleKind], _Indexed] = field(repr=False)
    _rows: Mapping[tuple[str, str], CodeRow] = field(repr=False)
    _repeats: Mapping[tuple[str, str], Repeat] = field(repr=False)

    def candidates(self, subject_kind: str, kind: RuleKind, code: str = "") -> tuple[CompiledRule, ...]:
        """Rules that may match, in the rulebook's order; rules switched off are not among them."""
        indexed = self._index.get((subject_kind, kind))
        if indexed is None:
            return ()
        return indexed.by_code.get(code, indexed.unpinned)

    def row(self, namespace: str, code: str) -> CodeRow | None:
        """The code's row in a table; None: nobody knows it."""
        return self._rows.get((namespace, code))

    def repeat(self, namespace: str, code: str) -> Repeat | None:
        """The code's own repeat rule; None where it has none, and without `escalation: table`."""
        return self._repeats.get((namespace, code))


def content_of(document: RulebookDocument) -> dict[str, Any]:
    """The document as it is published: JSON values by the names authors write.

    Rules and strategies are complete, so that a later release with other defaults still reads the same rulebook; rows
    of tables leave out what is empty, which saves half of a message.
    """
    content = document.model_dump(mode="json", by_alias=True, exclude={"codes"})
    rows = document.model_dump(mode="json", by_alias=True, exclude_defaults=True, include={"codes"})
    return {**content, **rows}


def canonical(content: Mapping[str, Any]) -> bytes:
    """One text for one content, whatever the order of its keys."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def hash_of(content: Mapping[str, Any]) -> str:
    """Identity of a content as it is published, 32 hexadecimal digits; no release of relight reads it as another."""
    return hashlib.sha256(canonical(content)).hexdigest()[:_HASH_DIGITS]


def compile_document(content: dict[str, Any] | RulebookDocument) -> CompiledRulebook:
    """The rulebook of a published content. RulebookError with all findings when it cannot be one."""
    if isinstance(content, RulebookDocument):
        document, content = content, content_of(content)
    else:
        document = _validated(content)
    rules, findings = compile_rules(document)
    if findings:
        raise RulebookError(findings)
    return _assemble(document, rules, hash_of(content))


def compile_rules(document: RulebookDocument) -> tuple[list[CompiledRule], list[Finding]]:
    """Rules whose condition is right, and a finding for each that is not."""
    rules: list[CompiledRule] = []
    findings: list[Finding] = []
    for position, rule in enumerate(document.rules):
        try:
            condition = condition_of(rule)
        except ConditionError as error:
            findings.append(error.finding(("rules", position, "when")))
        else:
            rules.append(CompiledRule(rule, condition.matches, condition.codes))
    return rules, findings


def condition_of(rule: Rule) -> Condition:
    """The rule's condition, typed for its subject and kinds; ConditionError when it is wrong."""
    return read_condition(rule.when, groups_of(rule.subject, rule.on))


def limits_of(settings: Settings) -> LimitSymbols:
    """The settings that conditions can name."""
    return LimitSymbols(
        in_place_per_chip=settings.in_place_per_chip.at_most,
        in_place_per_run=settings.in_place_per_run,
        same_step_resumes=settings.same_step_resumes,
        unconditional_in_a_row=settings.unconditional_in_a_row,
        hang_in_a_row=settings.hang_in_a_row,
        drain_is_reschedule=settings.drain_is == "reschedule",
    )


def _validated(content: dict[str, Any]) -> RulebookDocument:
    try:
        return RulebookDocument.model_validate(content)
    except ValidationError as error:
        raise RulebookError(findings_of(error, no_raw)) from None


def _assemble(document: RulebookDocument, rules: Iterable[CompiledRule], digest: str) -> CompiledRulebook:
    kept = tuple(rules)
    return CompiledRulebook(
        hash=digest,
        title=document.title,
        settings=document.settings,
        limits=limits_of(document.settings),
        strategies={strategy.id: strategy for strategy in document.strategies},
        rules=kept,
        _index=_index(kept),
        _rows={(row.namespace, row.code): row for row in document.codes},
        _repeats=_repeats(document),
    )


def _repeats(document: RulebookDocument) -> dict[tuple[str, str], Repeat]:
    if document.settings.escalation != "table":
        return {}
    read = {(row.namespace, row.code): read_repeat(row.escalation) for row in document.codes}
    return {key: repeat for key, repeat in read.items() if repeat is not None}


def _index(rules: tuple[CompiledRule, ...]) -> dict[tuple[str, RuleKind], _Indexed]:
    grouped: dict[tuple[str, RuleKind], list[CompiledRule]] = {}
    for compiled in rules:
        if compiled.rule.mode is Mode.OFF:
            continue
        for kind in dict.fromkeys(compiled.rule.on):
            grouped.setdefault((compiled.rule.subject, kind), []).append(compiled)
    return {key: _by_code(group) for key, group in grouped.items()}


def _by_code(group: list[CompiledRule]) -> _Indexed:
    order = {id(compiled): position for position, compiled in enumerate(group)}
    unpinned = [compiled for compiled in group if compiled.codes is None]
    pinned: dict[str, list[CompiledRule]] = {}
    for compiled in group:
        for code in compiled.codes or ():
            pinned.setdefault(code, []).append(compiled)
    by_code = {
        code: tuple(sorted([*some, *unpinned], key=lambda compiled: order[id(compiled)]))
        for code, some in pinned.items()
    }
    return _Indexed(tuple(unpinned), by_code)


@cache
def default_rulebook() -> CompiledRulebook:
    """The rulebook that ships with relight."""
    return compile_document(RulebookDocument.model_validate(default_content()))


def _empty() -> CompiledRulebook:
    settings = {"settings": default_content()["settings"], "rules": [], "strategies": []}
    return _assemble(RulebookDocument.model_validate(settings), (), NO_HASH)


EMPTY: Final = _empty()
"""No rules and no strategies: facts are kept, nothing acts. Settings are the default's, so that all fields exist."""
