"""Tokens of a condition, with their offsets, and what may not even be parsed.

rule-engine folds constants while it parses, so `1 << 1000000000` would hang there: everything outside the small
language is refused on the tokens, before rule-engine sees the text. Its own error positions cannot be used
(research: rule-engine facts), so ours come from here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from rules.errors import ConditionError, suggest
from rules.vocabulary import ALL_GROUPS, SYMBOLS, Symbol

MAX_CHARACTERS: Final = 2048
MAX_TOKENS: Final = 200
"""Names, literals and operators; brackets and commas are not counted."""
MAX_DEPTH: Final = 30
MAX_PATTERN: Final = 200
"""Characters of a regular expression."""


class TokenKind(StrEnum):
    """Kind of a token."""

    SYMBOL = "symbol"
    WORD = "word"
    STRING = "string"
    NUMBER = "number"
    OPERATOR = "operator"
    BRACKET = "bracket"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `symbol` is set for symbols."""

    kind: TokenKind
    text: str
    offset: int
    symbol: Symbol | None = None

    @property
    def value(self) -> str:
        """What stands between the quotes of a string."""
        return self.text[self.text.index(self.text[-1]) + 1 : -1]


REGEX_OPERATORS: Final = frozenset({"=~", "=~~", "!~", "!~~"})
_WORDS: Final = frozenset({"and", "or", "not", "in", "true", "false"})
_INSTEAD: Final = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "=": "write `==`",
    "===": "write `==`",
    "<>": "write `!=`",
    "#": "comments stand in the YAML, not inside a condition",
    "{": "lists are written with [ and ]",
    "?": "there is no choice inside a condition; write two rules",
}
_SCANNER: Final = re.compile(
    r"""
      (?P<space>[ \t\r\n]+)
    | (?P<string>r?(?:"[^"\n]*"|'[^'\n]*'))
    | (?P<symbol>[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*(?![\w.(\["']))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?![\w."']))
    | (?P<number>[0-9]+(?![\w.]))
    | (?P<operator>===|=~~|!~~|=~|!~|==|!=|<=(?!=)|>=(?!=)|<(?![<>])|>(?!>)|-)
    | (?P<bracket>[()\[\],])
    """,
    re.VERBOSE,
)
_REFUSED: Final = re.compile(r"===|&&|\|\||<<|>>|<>|\*\*|//|[A-Za-z_$][\w.$]*|[0-9][\w.]*|[^\s]")
_MAX_DIGITS: Final = 15


def tokenise(text: str, groups: Collection[str]) -> list[Token]:
    """Tokens of a condition; ConditionError for the first that is not of the language or names what is not there."""
    if len(text) > MAX_CHARACTERS:
        raise ConditionError(
            "RL201",
            f"the condition has {len(text):,} characters",
            right=f"at most {MAX_CHARACTERS:,}; split the rule",
            length=1,
        )
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        found = _SCANNER.match(text, offset)
        if found is None:
            raise _refused(text, offset)
        if found.lastgroup != "space":
            tokens.append(_token(found, groups))
        offset = found.end()
    if not tokens:
        raise ConditionError(
            "RL202", "the condition is empty", right="leave `when` out for a rule that always matches"
        )
    _check_sizes(tokens)
    _check_minus(tokens)
    _check_calls(tokens)
    return tokens


def _token(found: re.Match[str], groups: Collection[str]) -> Token:
    kind, text, offset = TokenKind(found.lastgroup or ""), found.group(), found.start()
    if text == "===":
        raise _refused(found.string, offset)
    if kind is TokenKind.SYMBOL:
        return Token(kind, text, offset, _symbol(text, offset, groups))
    if kind is TokenKind.WORD and text not in _WORDS:
        raise _unknown_word(text, offset, groups)
    if kind is TokenKind.NUMBER and len(text) > _MAX_DIGITS:
        raise ConditionError(
            "RL203",
            f"{text[:20]}... has {len(text)} digits",
            right=f"at most {_MAX_DIGITS}",
            offset=offset,
            length=len(text),
        )
    if kind is TokenKind.STRING and "\\" in text and not text.startswith("r"):
        raise ConditionError(
            "RL203",
            "a backslash in a plain text",
            right=f"write r{text} to mean the backslash itself",
            offset=offset,
            length=len(text),
        )
    return Token(kind, text, offset)


def _symbol(text: str, offset: int, groups: Collection[str]) -> Symbol:
    group, _, name = text.partition(".")
    if group not in ALL_GROUPS:
        raise ConditionError(
            "RL204", f"{group!r} is unknown", right=suggest(group, groups), offset=offset, length=len(group)
        )
    if group not in groups:
        raise ConditionError(
            "RL205",
            f"{group!r} does not exist for what this rule is on",
            right=f"its conditions can name {', '.join(sorted(groups))}",
            offset=offset,
            length=len(group),
        )
    symbol = SYMBOLS[group].get(name)
    if symbol is None:
        raise ConditionError(
            "RL206",
            f"{group!r} has no {name!r}",
            right=suggest(name, SYMBOLS[group]),
            offset=offset + len(group) + 1,
            length=len(name),
        )
    return symbol


def _unknown_word(text: str, offset: int, groups: Collection[str]) -> ConditionError:
    if text.lower() in _WORDS:
        return ConditionError(
            "RL203", f"{text!r} is unknown", right=f"write `{text.lower()}`", offset=offset, length=len(text)
        )
    if text in ALL_GROUPS:
        return ConditionError(
            "RL207",
            f"{text!r} alone is a group of symbols, not a value",
            right=f"name one of them, such as {text}.{min(SYMBOLS[text])}",
            offset=offset,
            length=len(text),
        )
    owners = [group for group in sorted(groups) if text in SYMBOLS[group]]
    right = f"did you mean {owners[0]}.{text}?" if owners else f'a text stands in quotes: "{text}"'
    return ConditionError("RL204", f"{text!r} is unknown", right=right, offset=offset, length=len(text))


def _refused(text: str, offset: int) -> ConditionError:
    found = _REFUSED.match(text, offset)
    piece = found.group() if found else text[offset]
    if piece[0] in "\"'":
        return ConditionError(
            "RL203", "the text has no closing quote", right=f"close it with {piece[0]}", offset=offset
        )
    right = _INSTEAD.get(
        piece, "a condition is made of and, or, not, in, comparisons, symbols, texts and whole numbers"
    )
    message = f"{piece!r} is not part of the language of conditions"
    if piece[0].isdigit():
        message = f"{piece!r} is no whole number"
        right = f'a code is a text and stands in quotes: "{piece}"'
    elif "." in piece:
        message = f"{piece!r} is no symbol"
        right = "a symbol is a group and a name, such as fault.code"
    elif piece[0] == "$":
        right = "functions are not available"
    return ConditionError("RL203", message, right=right, offset=offset, length=len(piece))


def _check_sizes(tokens: list[Token]) -> None:
    counted = [token for token in tokens if token.kind is not TokenKind.BRACKET]
    if len(counted) > MAX_TOKENS:
        raise ConditionError(
            "RL201",
            f"the condition has {len(counted)} names, literals and operators",
            right=f"at most {MAX_TOKENS}; split the rule",
            offset=counted[MAX_TOKENS].offset,
        )
    depth = 0
    for token in tokens:
        depth += (token.text in "([") - (token.text in ")]") if token.kind is TokenKind.BRACKET else 0
        if depth > MAX_DEPTH:
            raise ConditionError(
                "RL201",
                f"brackets nest deeper than {MAX_DEPTH}",
                right="simplify the condition",
                offset=token.offset,
            )


def _check_minus(tokens: list[Token]) -> None:
    for index, token in enumerate(tokens):
        if token.text != "-" or token.kind is not TokenKind.OPERATOR:
            continue
        before = tokens[index - 1] if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        begins = before is None or before.text in "([," or before.kind in {TokenKind.OPERATOR, TokenKind.WORD}
        if (
            not begins
            or after is None
            or after.kind is not TokenKind.NUMBER
            or (before and before.text == "-")
        ):
            raise ConditionError(
                "RL203",
                "arithmetic is not available",
                right="compare with a number or a symbol",
                offset=token.offset,
            )


def _check_calls(tokens: list[Token]) -> None:
    for before, token in pairwise(tokens):
        if token.kind is not TokenKind.BRACKET or token.text not in "([":
            continue
        if before.kind in {TokenKind.SYMBOL, TokenKind.STRING, TokenKind.NUMBER} or before.text in ")]":
            what = "functions are" if token.text == "(" else "picking an element is"
            raise ConditionError(
                "RL203", f"{what} not available", right="compare the symbol itself", offset=token.offset
            )
