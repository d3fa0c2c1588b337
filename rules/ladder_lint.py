"""Lint of the order of rules: each can be reached, each fault class is answered, and no event falls through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rules.compiled import condition_of, limits_of
from rules.condition import Node
from rules.errors import Finding, Path, Severity
from rules.expression import Condition, read_condition
from rules.model import LadderClass, Mode, Rule, RulebookDocument, Verb
from rules.reach import Assignment, Question, Unknown, describe, facts, limits_as_values, witness
from rules.symbols import RuleKind
from rules.vocabulary import NO_CLASS, NODE_SUBJECT, RUN_SUBJECT, groups_of, kinds_of_subject
from schemas.commands import StepName

_FAULTS = (RuleKind.CHIP_FAULT, RuleKind.NODE_FAULT)
_STARTS = frozenset({StepName.START_PROCESSES, StepName.RESUME_JOB})
"""Steps that make a run go on."""

_SELF_HEAL = (LadderClass.SELF_HEAL_WAIT, LadderClass.SELF_HEAL_RESET)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A rule, its condition and its position in the document."""

    rule: Rule
    condition: Condition = field(repr=False)
    position: int

    @property
    def path(self) -> Path:
        return ("rules", self.position)

    @property
    def blocks(self) -> bool:
        """It always takes what it matches: not counted, not in shadow, no merging (the rest judges what is merged)."""
        rule = self.rule
        return rule.mode is Mode.ENFORCE and rule.count is None and rule.then[0] != Verb.MERGE.value


def lint_ladder(document: RulebookDocument) -> Iterator[Finding]:
    """Findings about rules that cannot be reached and events nobody answers. Conditions must have been found right."""
    placed = [_Placed(rule, condition_of(rule), position) for position, rule in enumerate(document.rules)]
    known = limits_as_values(limits_of(document.settings))
    recovering = {
        strategy.id for strategy in document.strategies if _STARTS & {step.step for step in strategy.steps}
    }
    ladders = {
        (subject, kind): _Ladder(
            subject, kind, [each for each in placed if _is_of(each.rule, subject, kind)], known
        )
        for subject in (RUN_SUBJECT, NODE_SUBJECT)
        for kind in kinds_of_subject(subject)
    }
    for each in placed:
        yield from _reachable(each, [ladder for ladder in ladders.values() if each in ladder.rules])
    for ladder in ladders.values():
        yield from ladder.nothing_falls_through()
        if ladder.kind in _FAULTS:
            yield from ladder.classes_are_answered(recovering)


def _is_of(rule: Rule, subject: str, kind: RuleKind) -> bool:
    return rule.subject == subject and kind in rule.on and rule.mode is not Mode.OFF


def _reachable(each: _Placed, ladders: Sequence[_Ladder]) -> Iterator[Finding]:
    """One kind under which it decides is enough."""
    findings = []
    for ladder in ladders:
        finding = ladder.unreachable(each)
        if finding is None:
            return
        findings.append(finding)
    yield from findings[:1]


@dataclass
class _Ladder:
    """Rules of one subject and kind, in order."""

    subject: str
    kind: RuleKind
    rules: list[_Placed]
    known: Assignment

    def __post_init__(self) -> None:
        self._facts = facts(groups_of(self.subject, (self.kind,)))

    def unreachable(self, target: _Placed) -> Finding | None:
        """Why the rule can never decide; None when it can, or when nobody can say."""
        root = target.condition.root
        earlier = [each for each in self.rules if each.position < target.position and _competes(each, target)]
        try:
            if self._witness((root,), earlier) is not None:
                return None
            if self._witness((root,), []) is None:
                message = f"rule {target.rule.id!r} can never match"
                return Finding(
                    "RL321",
                    message,
                    "its condition contradicts itself or the settings",
                    (*target.path, "when"),
                )
            return self._shadowed(target, earlier)
        except Unknown:
            return None

    def _shadowed(self, target: _Placed, earlier: list[_Placed]) -> Finding:
        alone = next(
            (each for each in earlier if self._witness((target.condition.root,), [each]) is None), None
        )
        taker = f"rule {alone.rule.id!r} before it takes" if alone else "rules before it take"
        message = f"rule {target.rule.id!r} is never reached: {taker} every {self.kind} it would match"
        before = alone.rule.id if alone else earlier[0].rule.id
        return Finding(
            "RL320", message, f"move it up with before: {before}, or narrow what stands before", target.path
        )

    def nothing_falls_through(self) -> Iterator[Finding]:
        """A warning when some event of this kind meets no rule."""
        if not self.rules or self.kind in _FAULTS:
            return
        found = self._fall_through(())
        if found is not None:
            message = f"{self.kind} of a {self.subject} can meet no rule{found}"
            yield Finding(
                "RL325",
                message,
                "add a rule without a condition at the end",
                self._end(),
                severity=Severity.WARNING,
            )

    def classes_are_answered(self, recovering: set[str]) -> Iterator[Finding]:
        """Each class meets a rule, and one that does what the class asks for."""
        for name in (*LadderClass, NO_CLASS):
            of_class = read_condition(f'fault.class == "{name}"', frozenset({"fault"})).root
            found = self._fall_through((of_class,))
            if found is not None:
                message = f"{self.kind} of class {name} can meet no rule of a {self.subject}{found}"
                yield Finding("RL323", message, "add a rule that answers it", self._end())
            elif not self._is_answered(str(name), of_class, recovering):
                asked = self._asked(str(name))
                message = f"class {name} on {self.kind} reaches no rule of a {self.subject} that {asked}"
                yield Finding("RL324", message, "add such a rule, or move it up", self._end())

    def _asked(self, name: str) -> str:
        if self.subject == NODE_SUBJECT:
            return "holds the node"
        return "isolates" if name == LadderClass.ISOLATE else "recovers"

    def _is_answered(self, name: str, of_class: Node, recovering: set[str]) -> bool:
        if self.subject == NODE_SUBJECT:
            wanted = [each for each in self.rules if Verb.HOLD.value in each.rule.then]
            needed = name in {LadderClass.ISOLATE, LadderClass.DEFERRED}
        elif name == LadderClass.ISOLATE:
            wanted = [each for each in self.rules if each.rule.isolate]
            needed = True
        else:
            wanted = [each for each in self.rules if recovering & set(each.rule.then)]
            needed = name in _SELF_HEAL and self.kind is RuleKind.CHIP_FAULT
        return not needed or any(self._can_decide(each, of_class) for each in wanted)

    def _can_decide(self, each: _Placed, also: Node) -> bool:
        earlier = [other for other in self.rules if other.position < each.position and _competes(other, each)]
        try:
            return self._witness((each.condition.root, also), earlier) is not None
        except Unknown:
            return True

    def _fall_through(self, also: tuple[Node, ...]) -> str | None:
        """When nothing matches, in words; None when something always does."""
        blocking = [each for each in self.rules if each.rule.mode is Mode.ENFORCE and each.rule.count is None]
        try:
            found = witness(
                Question(self._facts + also, tuple(each.condition.root for each in blocking)), self.known
            )
        except Unknown:
            return None
        if found is None:
            return None
        told = describe(found, self.known)
        return f" (when {told})" if told else ""

    def _witness(self, holds: tuple[Node, ...], earlier: list[_Placed]) -> Assignment | None:
        fails = tuple(each.condition.root for each in earlier)
        return witness(Question(holds + self._facts, fails), self.known)

    def _end(self) -> Path:
        return self.rules[-1].path if self.rules else ("rules",)


def _competes(each: _Placed, target: _Placed) -> bool:
    """Whether an earlier rule can take what the target would: not when both are pinned to different codes."""
    if not each.blocks:
        return False
    if target.rule.trust == "external" and each.rule.trust != "external":
        return False
    codes, wanted = each.condition.codes, target.condition.codes
    return codes is None or wanted is None or bool(codes & wanted)
