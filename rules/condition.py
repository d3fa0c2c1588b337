"""The tree of a condition: small, typed, with offsets; what is evaluated, indexed and searched by the lint.

Each node knows how to become a node of Python's own syntax tree. The tree is built node by node from a closed set
of classes, never from text, so what is compiled cannot hold anything but comparisons of symbols and literals.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rules.vocabulary import Symbol, SymbolType

Value = str | int | bool
Patterns = Mapping[tuple[str, bool], str]
"""Names of compiled regular expressions by pattern and whether it is anchored."""

ORDERED: Final[dict[str, type[ast.cmpop]]] = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}
EQUALITY: Final[dict[str, type[ast.cmpop]]] = {"==": ast.Eq, "!=": ast.NotEq}
_ARGUMENT: Final = "symbols"


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a whole number, true or false."""

    value: Value
    offset: int
    length: int

    @property
    def type(self) -> SymbolType:
        """Type of the value."""
        if isinstance(self.value, bool):
            return SymbolType.FLAG
        return SymbolType.TEXT if isinstance(self.value, str) else SymbolType.NUMBER


@dataclass(frozen=True, slots=True)
class Attribute:
    """A symbol."""

    symbol: Symbol
    offset: int
    length: int

    @property
    def type(self) -> SymbolType:
        """Type of the symbol."""
        return self.symbol.type


@dataclass(frozen=True, slots=True)
class Compare:
    """Two values of one type compared; ordered comparisons are of numbers."""

    operator: str
    left: Node
    right: Node
    type: SymbolType = SymbolType.FLAG


@dataclass(frozen=True, slots=True)
class Member:
    """A value that is one of a list of literals."""

    member: Node
    values: tuple[Literal, ...]
    type: SymbolType = SymbolType.FLAG


@dataclass(frozen=True, slots=True)
class Matches:
    """A text that a regular expression matches from its start (not `anchored`: anywhere)."""

    member: Node
    pattern: str
    anchored: bool
    negated: bool
    type: SymbolType = SymbolType.FLAG

    @property
    def function(self) -> tuple[str, bool]:
        """What has to be compiled for it."""
        return (self.pattern, self.anchored)


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    inner: Node
    type: SymbolType = SymbolType.FLAG


@dataclass(frozen=True, slots=True)
class Both:
    """`and`."""

    left: Node
    right: Node
    type: SymbolType = SymbolType.FLAG


@dataclass(frozen=True, slots=True)
class Either:
    """`or`."""

    left: Node
    right: Node
    type: SymbolType = SymbolType.FLAG


Node = Literal | Attribute | Compare | Member | Matches | Not | Both | Either


def children(node: Node) -> tuple[Node, ...]:
    """Nodes directly below."""
    match node:
        case Compare() | Both() | Either():
            return (node.left, node.right)
        case Member():
            return (node.member, *node.values)
        case Matches():
            return (node.member,)
        case Not():
            return (node.inner,)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def span(node: Node) -> tuple[int, int]:
    """Offset and length of what the node was written as."""
    leaves = [leaf for leaf in walk(node) if isinstance(leaf, Literal | Attribute)]
    first = min(leaf.offset for leaf in leaves)
    return first, max(leaf.offset + leaf.length for leaf in leaves) - first


def symbols_of(node: Node) -> frozenset[Symbol]:
    """Symbols the condition reads."""
    return frozenset(leaf.symbol for leaf in walk(node) if isinstance(leaf, Attribute))


def pinned(node: Node, group: str, name: str) -> frozenset[str] | None:
    """Texts the symbol must be one of for the condition to hold; None when the condition does not pin it."""
    match node:
        case Compare(operator="==", left=Attribute() as symbol, right=Literal() as literal):
            return _pinned_to(symbol, (literal,), group, name)
        case Compare(operator="==", left=Literal() as literal, right=Attribute() as symbol):
            return _pinned_to(symbol, (literal,), group, name)
        case Member(member=Attribute() as symbol, values=values):
            return _pinned_to(symbol, values, group, name)
        case Both():
            left, right = pinned(node.left, group, name), pinned(node.right, group, name)
            return (
                left & right if left is not None and right is not None else left if right is None else right
            )
        case Either():
            left, right = pinned(node.left, group, name), pinned(node.right, group, name)
            return None if left is None or right is None else left | right
        case _:
            return None


def _pinned_to(
    symbol: Attribute, values: tuple[Literal, ...], group: str, name: str
) -> frozenset[str] | None:
    if (symbol.symbol.group, symbol.symbol.name) != (group, name):
        return None
    return frozenset(str(literal.value) for literal in values)


def to_python(node: Node, patterns: Patterns) -> ast.expr:  # noqa: PLR0911 - one class of node a line
    """The node as Python's syntax tree over the argument `symbols`; `patterns` names compiled expressions."""
    match node:
        case Literal():
            return ast.Constant(node.value)
        case Attribute():
            group = ast.Attribute(ast.Name(_ARGUMENT, ast.Load()), node.symbol.group, ast.Load())
            return ast.Attribute(group, node.symbol.field, ast.Load())
        case Compare():
            operator = (EQUALITY | ORDERED)[node.operator]()
            return ast.Compare(to_python(node.left, patterns), [operator], [to_python(node.right, patterns)])
        case Member():
            values = ast.Set([ast.Constant(literal.value) for literal in node.values])
            return ast.Compare(to_python(node.member, patterns), [ast.In()], [values])
        case Matches():
            found = ast.Call(
                ast.Name(patterns[node.function], ast.Load()), [to_python(node.member, patterns)], []
            )
            return ast.Compare(found, [ast.Is() if node.negated else ast.IsNot()], [ast.Constant(None)])
        case Not():
            return ast.UnaryOp(ast.Not(), to_python(node.inner, patterns))
        case Both():
            return ast.BoolOp(ast.And(), [to_python(node.left, patterns), to_python(node.right, patterns)])
        case Either():
            return ast.BoolOp(ast.Or(), [to_python(node.left, patterns), to_python(node.right, patterns)])


def to_lambda(node: Node, patterns: Patterns) -> ast.Expression:
    """A function of `symbols` as Python's syntax tree."""
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(_ARGUMENT)], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    return ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, to_python(node, patterns))))
