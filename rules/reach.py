"""Which rules can be reached at all: a small search for values of symbols under which a rule decides.

Conditions are read with three values (true, false, not known yet) while symbols get values one by one from the few
that matter: words and numbers the conditions name, and one beside each. A condition with a regular expression
counts as free. The search is bounded; when it does not end in time nothing is said, so a finding here is always
true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from rules.condition import (
    Attribute,
    Both,
    Compare,
    Either,
    Literal,
    Matches,
    Member,
    Node,
    Not,
    Value,
    symbols_of,
    walk,
)
from rules.expression import read_condition
from rules.symbols import LimitSymbols
from rules.vocabulary import ALL_GROUPS, SYMBOLS, Symbol, SymbolType

MAX_STEPS: Final = 20_000
"""Values tried for one question."""

_ALWAYS_TRUE: Final = (
    'fault.self_heals == (fault.class in ["self_heal_wait", "self_heal_reset"])',
    'fault.acts == (fault.class in ["self_heal_wait", "self_heal_reset", "isolate"])',
    "not (found.user and found.hardware)",
    "not (incident.attributing and incident.acting)",
    "not (incident.stabilising and (incident.attributing or incident.acting))",
    "incident.open or not (incident.attributing or incident.acting or incident.stabilising)",
)
"""How symbols hang together, whatever happens; recovery's own tests hold it to this."""

_BESIDE: Final = "another value"


class Unknown(Exception):  # noqa: N818 - no error: the search was not finished
    """The search was given up."""


Assignment = Mapping[Symbol, Value]


@dataclass(frozen=True, slots=True)
class Question:
    """Conditions that must hold and conditions that must not, at once."""

    holds: tuple[Node, ...]
    fails: tuple[Node, ...] = ()


def limits_as_values(limits: LimitSymbols) -> dict[Symbol, Value]:
    """The limits of a rulebook: symbols whose value is known."""
    return {SYMBOLS["limits"][field.name]: getattr(limits, field.name) for field in fields(LimitSymbols)}


def witness(question: Question, known: Assignment) -> dict[Symbol, Value] | None:
    """Values that answer the question; None when there are none. Raises Unknown when the search was given up."""
    return _Search(question, known).run()


def facts(groups: frozenset[str]) -> tuple[Node, ...]:
    """How the symbols of these groups hang together."""
    nodes = [read_condition(text, ALL_GROUPS).root for text in _ALWAYS_TRUE]
    return tuple(node for node in nodes if {symbol.group for symbol in symbols_of(node)} <= groups)


def describe(found: Assignment, known: Assignment) -> str:
    """Values in words, those that are known anyway left out, those that say most first."""
    shown = [
        f"{symbol} is {value!r}" if isinstance(value, str) else f"{symbol} is {str(value).lower()}"
        for symbol, value in sorted(found.items(), key=lambda item: (not item[1], str(item[0])))
        if symbol not in known
    ]
    return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")  # noqa: PLR2004 - what fits in a line


class _Search:
    """Depth-first, over the symbols in the order the conditions name them."""

    def __init__(self, question: Question, known: Assignment) -> None:
        self._wanted = [(node, True) for node in question.holds] + [(node, False) for node in question.fails]
        self._domains = domains([node for node, _ in self._wanted], known)
        self._reading: dict[Symbol, list[tuple[Node, bool]]] = {}
        for node, wanted in self._wanted:
            for symbol in symbols_of(node):
                self._reading.setdefault(symbol, []).append((node, wanted))
        self._values: dict[Symbol, Value] = dict(known)
        self._steps = 0

    def run(self) -> dict[Symbol, Value] | None:
        if not self._possible(self._wanted):
            return None
        return dict(self._values) if self._go() else None

    def _go(self) -> bool:
        symbol = self._next_symbol()
        if symbol is None:
            return True
        for value in self._domains[symbol]:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise Unknown
            self._values[symbol] = value
            if self._possible(self._reading[symbol]) and self._go():
                return True
        del self._values[symbol]
        return False

    def _possible(self, wanted: Iterable[tuple[Node, bool]]) -> bool:
        return all(truth(node, self._values) in {None, value} for node, value in wanted)

    def _next_symbol(self) -> Symbol | None:
        """A symbol of the first condition that is not decided yet."""
        for node, _ in self._wanted:
            if truth(node, self._values) is None:
                free = [symbol for symbol in _in_order(node) if symbol not in self._values]
                if free:
                    return free[0]
        return None


def _in_order(node: Node) -> Iterator[Symbol]:
    return (leaf.symbol for leaf in walk(node) if isinstance(leaf, Attribute))


def domains(nodes: Sequence[Node], known: Assignment) -> dict[Symbol, tuple[Value, ...]]:
    """Values worth trying for each symbol that the conditions read."""
    symbols = {symbol for node in nodes for symbol in symbols_of(node)}
    texts: dict[Symbol, set[str]] = {symbol: set() for symbol in symbols}
    numbers: set[int] = {0}
    numbers.update(
        value for value in known.values() if isinstance(value, int) and not isinstance(value, bool)
    )
    for node in nodes:
        for part in walk(node):
            _note_literals(part, texts, numbers)
    around = sorted(
        {number + step for number in numbers for step in (-1, 0, 1)} - ({-1} if -1 not in numbers else set())
    )
    return {
        symbol: _domain(symbol, texts[symbol], tuple(around)) for symbol in symbols if symbol not in known
    }


def _note_literals(part: Node, texts: dict[Symbol, set[str]], numbers: set[int]) -> None:
    sides: tuple[Node, ...] = ()
    if isinstance(part, Compare):
        sides = (part.left, part.right)
    elif isinstance(part, Member):
        sides = (part.member, *part.values)
    named = [side.symbol for side in sides if isinstance(side, Attribute)]
    for side in sides:
        if isinstance(side, Literal) and isinstance(side.value, str):
            for symbol in named:
                texts[symbol].add(side.value)
        elif isinstance(side, Literal) and side.type is SymbolType.NUMBER:
            numbers.add(int(side.value))


def _domain(symbol: Symbol, texts: set[str], numbers: tuple[int, ...]) -> tuple[Value, ...]:
    match symbol.type:
        case SymbolType.FLAG:
            return (False, True)
        case SymbolType.NUMBER:
            return numbers
        case SymbolType.TEXT:
            if symbol.words is None:
                return (_BESIDE, *sorted(texts))
            return (*sorted(texts), *sorted(symbol.words - texts)[:1])


def truth(node: Node, values: Assignment) -> bool | None:  # noqa: PLR0911 - one class of node a line
    """Whether a condition holds as far as values are known; None when that is not decided."""
    match node:
        case Literal():
            return bool(node.value)
        case Attribute():
            value = values.get(node.symbol)
            return None if value is None else bool(value)
        case Compare():
            return _compared(node, values)
        case Member():
            value = _value(node.member, values)
            return None if value is None else any(value == literal.value for literal in node.values)
        case Not():
            inner = truth(node.inner, values)
            return None if inner is None else not inner
        case Both():
            left, right = truth(node.left, values), truth(node.right, values)
            return (
                False if left is False or right is False else None if left is None or right is None else True
            )
        case Either():
            left, right = truth(node.left, values), truth(node.right, values)
            return True if left or right else None if left is None or right is None else False
        case Matches():
            return None


def _value(node: Node, values: Assignment) -> Value | None:
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Attribute):
        return values.get(node.symbol)
    return truth(node, values)


def _compared(node: Compare, values: Assignment) -> bool | None:
    left, right = _value(node.left, values), _value(node.right, values)
    if left is None or right is None:
        return None
    match node.operator:
        case "==":
            return left == right
        case "!=":
            return left != right
        case _:
            return _ordered(node.operator, int(left), int(right))


def _ordered(operator: str, left: int, right: int) -> bool:
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]
