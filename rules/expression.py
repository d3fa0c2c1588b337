"""Conditions: text to a typed tree to a Python function.

rule-engine gives the grammar and the precedence; its evaluation is left out, since it costs 2 to 18 microseconds a
condition where the compiled function costs a tenth of one. It is no sandbox: what it may see was chosen on the
tokens (`rules.tokens`), and only the nodes named here are taken over from its tree. Regular expressions run on RE2,
so no pattern can hang a worker.

Guaranteed: an unknown symbol, values of different types, and a word that a closed symbol can never be are refused
here, not found out at run time; what is accepted never raises and always gives a bool; it gives what rule-engine
itself would give (property-tested).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, cast

import re2
import rule_engine
from rule_engine import ast as engine
from rule_engine import errors as engine_errors

from rules.condition import (
    EQUALITY,
    ORDERED,
    Attribute,
    Both,
    Compare,
    Either,
    Literal,
    Matches,
    Member,
    Node,
    Not,
    pinned,
    span,
    to_lambda,
    walk,
)
from rules.errors import ConditionError, suggest
from rules.symbols import Symbols
from rules.tokens import MAX_PATTERN, REGEX_OPERATORS, Token, TokenKind, tokenise
from rules.vocabulary import SymbolType

Predicate = Callable[[Symbols], bool]

_COMPARISONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_REGEX: Final = {
    "eq_fzm": (True, False),
    "eq_fzs": (False, False),
    "ne_fzm": (True, True),
    "ne_fzs": (False, True),
}
_CONTEXT: Final = rule_engine.Context(mapping_attribute_lookup=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was found right."""

    text: str
    root: Node
    matches: Predicate
    codes: frozenset[str] | None
    """Codes it is pinned to by equality or a list; None: not pinned."""


def compile_expression(text: str, *, groups: frozenset[str]) -> Predicate:
    """A function of Symbols for a condition that may name these groups; ConditionError says why it cannot be."""
    return read_condition(text, groups).matches


@lru_cache(maxsize=4096)
def read_condition(text: str, groups: frozenset[str]) -> Condition:
    """The condition, read, typed and compiled."""
    tokens = tokenise(text, groups)
    tree = _parse(text, tokens)
    leaves = iter([token for token in tokens if _is_leaf(token)])
    root = _Translation(leaves).whole(tree, text)
    return Condition(text, root, _compile(root), pinned(root, "fault", "code"))


def _is_leaf(token: Token) -> bool:
    literal = token.kind in {TokenKind.SYMBOL, TokenKind.STRING, TokenKind.NUMBER}
    return literal or token.text in {"true", "false"}


def _parse(text: str, tokens: list[Token]) -> engine.ExpressionBase:
    try:
        return rule_engine.Rule(_without_patterns(text, tokens), context=_CONTEXT).statement.expression
    except engine_errors.RuleSyntaxError as error:
        raise _syntax_error(tokens, error) from None
    except engine_errors.EngineError as error:
        reason = f"the condition makes no sense: {error.message}"
        raise ConditionError("RL203", reason, right="compare values of one type", length=len(text)) from None
    except RecursionError:
        raise ConditionError("RL201", "the condition nests too deeply", right="split the rule") from None


def _without_patterns(text: str, tokens: list[Token]) -> str:
    """The text with patterns blanked, since rule-engine would compile them with `re` on the way."""
    for before, token in pairwise(tokens):
        if before.text in REGEX_OPERATORS and token.kind is TokenKind.STRING:
            blank = f"{token.text[-1]}{'x' * (len(token.text) - 2)}{token.text[-1]}"
            text = text[: token.offset] + blank + text[token.offset + len(token.text) :]
    return text


def _syntax_error(tokens: list[Token], error: engine_errors.RuleSyntaxError) -> ConditionError:
    lexed = error.token
    if lexed is None:
        last = tokens[-1]
        right = "something is missing at the end" + ("; close the bracket" if _open_brackets(tokens) else "")
        return ConditionError(
            "RL208", "the condition ends too early", right=right, offset=last.offset + len(last.text) - 1
        )
    token = next((token for token in tokens if token.offset >= lexed.lexpos), tokens[-1])
    right = "join conditions with `and` or `or`"
    if token.text in EQUALITY or token.text in ORDERED:
        right = "comparisons cannot be chained; join two of them with `and`"
    elif token.text in {")", "]"}:
        right = "check the brackets"
    return ConditionError(
        "RL208", f"{token.text!r} cannot stand here", right=right, offset=token.offset, length=len(token.text)
    )


def _open_brackets(tokens: list[Token]) -> bool:
    brackets = [token.text for token in tokens if token.kind is TokenKind.BRACKET]
    return sum(text in "([" for text in brackets) > sum(text in ")]" for text in brackets)


class _Translation:
    """rule-engine's tree to ours. Leaves come in the order they were written, so each one's token is the next one."""

    def __init__(self, leaves: Iterator[Token]) -> None:
        self._leaves = leaves

    def whole(self, tree: engine.ExpressionBase, text: str) -> Node:
        """The root: a condition, with every token used."""
        root = self._node(tree)
        left_over = next(self._leaves, None)
        if left_over is not None:
            raise _constants(left_over)
        _must_be_condition(root)
        if not any(isinstance(node, Attribute) for node in walk(root)) and not isinstance(root, Literal):
            raise ConditionError(
                "RL209", "the condition names no symbol", right="write `true`", length=len(text)
            )
        return root

    def _node(self, tree: engine.ExpressionBase) -> Node:  # noqa: PLR0911 - one class of node a line
        match tree:
            case engine.GetAttributeExpression():
                return self._attribute()
            case engine.StringExpression() | engine.FloatExpression() | engine.BooleanExpression():
                return self._literal(tree)
            case engine.LogicExpression():
                return self._logic(tree)
            case engine.FuzzyComparisonExpression():
                return self._regex(tree)
            case engine.ComparisonExpression():
                return _typed_comparison(
                    _COMPARISONS[tree.type], self._node(tree.left), self._node(tree.right)
                )
            case engine.ContainsExpression():
                return self._member(tree)
            case engine.UnaryExpression() if tree.type == "not":
                inner = self._node(tree.right)
                _must_be_condition(inner)
                return Not(inner)
        raise self._refuse(type(tree).__name__)

    def _attribute(self) -> Attribute:
        token = self._next()
        if token.symbol is None:
            raise _constants(token)
        return Attribute(token.symbol, token.offset, len(token.text))

    def _literal(self, tree: engine.ExpressionBase) -> Literal:
        token = self._next()
        value: str | int | bool
        match tree, token.kind:
            case engine.StringExpression(), TokenKind.STRING:
                value = token.value
            case engine.FloatExpression(), TokenKind.NUMBER:
                value = int(tree.value)
            case engine.BooleanExpression(), TokenKind.WORD:
                value = bool(tree.value)
            case _:
                raise _constants(token)
        return Literal(value, token.offset, len(token.text))

    def _logic(self, tree: engine.ExpressionBase) -> Node:
        left, right = self._node(tree.left), self._node(tree.right)
        _must_be_condition(left)
        _must_be_condition(right)
        return Both(left, right) if tree.type == "and" else Either(left, right)

    def _regex(self, tree: engine.ExpressionBase) -> Matches:
        member = self._node(tree.left)
        _must_be(member, SymbolType.TEXT, "a regular expression reads a text")
        token = self._next()
        if token.kind is not TokenKind.STRING:
            raise ConditionError(
                "RL210",
                "the pattern is no literal",
                right="write it in quotes",
                offset=token.offset,
                length=len(token.text),
            )
        _check_pattern(token)
        anchored, negated = _REGEX[tree.type]
        return Matches(member, token.value, anchored, negated)

    def _member(self, tree: engine.ExpressionBase) -> Member:
        member = self._node(tree.member)
        if not isinstance(tree.container, engine.ArrayExpression):
            token = self._next()
            raise ConditionError(
                "RL211",
                f"`in` needs a list, {token.text} is none",
                right='write a list such as ["a", "b"], or search in a text with =~~',
                offset=token.offset,
                length=len(token.text),
            )
        values = tuple(self._listed(item) for item in tree.container.value)
        if not values:
            offset, length = span(member)
            raise ConditionError(
                "RL211", "the list is empty", right="name at least one value", offset=offset, length=length
            )
        for value in values:
            _must_be_comparable(member, value)
        return Member(member, values)

    def _listed(self, item: engine.ExpressionBase) -> Literal:
        node = self._node(item)
        if not isinstance(node, Literal):
            offset, length = span(node)
            raise ConditionError(
                "RL211",
                "a list holds literals only",
                right="write two comparisons joined by `or`",
                offset=offset,
                length=length,
            )
        return node

    def _next(self) -> Token:
        token = next(self._leaves, None)
        if token is None:
            raise ConditionError("RL203", "the condition cannot be read", right="write it more simply")
        return token

    def _refuse(self, name: str) -> ConditionError:
        token = next(self._leaves, None)
        what = {"ArrayExpression": "a list can stand after `in` only"}.get(
            name, "this is not part of the language of conditions"
        )
        if token is None:
            return ConditionError("RL203", what)
        return ConditionError("RL203", what, offset=token.offset, length=len(token.text))


def _constants(token: Token) -> ConditionError:
    return ConditionError(
        "RL209",
        f"{token.text} stands beside another constant, so the result is always the same",
        right="compare a symbol",
        offset=token.offset,
        length=len(token.text),
    )


def _must_be(node: Node, wanted: SymbolType, message: str) -> None:
    if node.type is wanted:
        return
    offset, length = span(node)
    raise ConditionError("RL212", f"{message}, this is {node.type.value}", offset=offset, length=length)


def _must_be_condition(node: Node) -> None:
    if node.type is SymbolType.FLAG:
        return
    offset, length = span(node)
    example = '!= ""' if node.type is SymbolType.TEXT else "> 0"
    raise ConditionError(
        "RL212",
        f"a condition is true or false, this is {node.type.value}",
        right=f"compare it, such as {example}",
        offset=offset,
        length=length,
    )


def _typed_comparison(operator: str, left: Node, right: Node) -> Compare:
    _must_be_comparable(left, right)
    if operator in ORDERED:
        _must_be(left, SymbolType.NUMBER, f"{operator} compares numbers")
    if isinstance(left, Literal):
        _must_be_comparable(right, left)
    return Compare(operator, left, right)


def _must_be_comparable(left: Node, right: Node) -> None:
    offset, length = span(right)
    if left.type is not right.type:
        what = str(left.symbol) if isinstance(left, Attribute) else "the left side"
        raise ConditionError(
            "RL212",
            f"{what} is {left.type.value}, this is {right.type.value}; they are never equal",
            right=_as_type(right, left.type),
            offset=offset,
            length=length,
        )
    if not isinstance(left, Attribute) or not isinstance(right, Literal) or left.symbol.words is None:
        return
    if right.value not in left.symbol.words:
        words = sorted(word for word in left.symbol.words if word)
        raise ConditionError(
            "RL213",
            f"{left.symbol} is never {right.value!r}",
            right=suggest(str(right.value), words),
            offset=offset,
            length=length,
        )


def _as_type(node: Node, wanted: SymbolType) -> str:
    if not isinstance(node, Literal):
        return "compare values of one type"
    if wanted is SymbolType.TEXT:
        return f'write "{str(node.value).lower() if node.type is SymbolType.FLAG else node.value}"'
    if wanted is SymbolType.NUMBER:
        return "write a whole number without quotes"
    return "write true or false, or the symbol alone"


def _check_pattern(token: Token) -> None:
    pattern = token.value
    if len(pattern) > MAX_PATTERN:
        raise ConditionError(
            "RL210",
            f"the pattern has {len(pattern)} characters",
            right=f"at most {MAX_PATTERN}",
            offset=token.offset,
            length=len(token.text),
        )
    try:
        re2.compile(pattern, _re2_options())
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ConditionError(
            "RL210",
            f"the pattern is refused by RE2: {reason}",
            right="RE2 has no look-around and no back-references",
            offset=token.offset,
            length=len(token.text),
        ) from None


def _re2_options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


def _compile(root: Node) -> Predicate:
    """The tree as a Python function. Every node comes from the closed set of `rules.condition`."""
    names: dict[tuple[str, bool], str] = {}
    namespace: dict[str, Any] = {"__builtins__": {}}
    for node in walk(root):
        if isinstance(node, Matches):
            name = f"pattern_{len(namespace)}"
            compiled = re2.compile(node.pattern, _re2_options())
            namespace[name] = compiled.match if node.anchored else compiled.search
            names[node.function] = name
    code = compile(to_lambda(root, names), "<condition>", "eval")
    return cast("Predicate", eval(code, namespace))  # noqa: S307 - the tree is ours, built from comparisons and literals only
