"""The ladder: for each event the first rule that matches decides.

Rules are data (`rules/default/ladder.yaml`); here is only how they are walked: shadow rules are judged and recorded but decide nothing,
a counted rule needs its window to fire, a message from another system reaches only rules that say `trust: external`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recovery.occurrences import Hit
from rules.compiled import CompiledRule, CompiledRulebook
from rules.model import Mode, Rule, Verb
from rules.symbols import RuleKind, Symbols
from schemas.envelope import Trust
from schemas.records import Considered


@dataclass(frozen=True, slots=True)
class Question:
    """What the ladder is asked: an event's kind and code, what is known, and what its windows said."""

    subject: str
    kind: RuleKind
    symbols: Symbols
    code: str = ""
    trust: Trust = Trust.INTERNAL
    hits: Mapping[str, Hit] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rule that decides (None: the rulebook says nothing), shadow rules that would have, and what was looked at."""

    rule: Rule | None
    shadows: tuple[Rule, ...] = ()
    considered: tuple[Considered, ...] = ()


def counted_rules(rulebook: CompiledRulebook, question: Question) -> tuple[CompiledRule, ...]:
    """Counted rules whose condition holds: their windows observe the event, whichever rule decides (research 2.10, A6)."""
    return tuple(
        rule
        for rule in rulebook.candidates(question.subject, question.kind, question.code)
        if rule.rule.count is not None
        and _listens(rule.rule, question.trust)
        and rule.matches(question.symbols)
    )


def ask(rulebook: CompiledRulebook, question: Question, *, without: frozenset[str] = frozenset()) -> Answer:
    """Walk the ladder; `without` leaves out rules whose `then` begins with one of these verbs."""
    shadows: list[Rule] = []
    considered: list[Considered] = []
    for compiled in rulebook.candidates(question.subject, question.kind, question.code):
        rule = compiled.rule
        if rule.then[0] in without or not _listens(rule, question.trust):
            continue
        if not compiled.matches(question.symbols):
            continue
        hit = question.hits.get(rule.id)
        if rule.count is not None and (hit is None or not hit.fired):
            number, needed = (hit.count, hit.needed) if hit else (0, rule.count.at_least)
            detail = f"{number} of {needed} in its window"
            considered.append(Considered(rule=rule.id, row=rule.row, outcome="not_matched", detail=detail))
            continue
        if rule.mode is Mode.SHADOW:
            shadows.append(rule)
            continue
        considered.append(Considered(rule=rule.id, row=rule.row, outcome="matched"))
        return Answer(rule, tuple(shadows), tuple(considered))
    return Answer(None, tuple(shadows), tuple(considered))


def _listens(rule: Rule, trust: Trust) -> bool:
    if rule.mode is Mode.OFF:
        return False
    return trust is Trust.INTERNAL or rule.trust == Trust.EXTERNAL.value


VERBS = frozenset(verb.value for verb in Verb)
