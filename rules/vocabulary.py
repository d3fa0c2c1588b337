"""Types of the symbols a condition can name, and the words that closed ones can be.

A closed symbol is a text with few right values, such as `fault.class`: comparing it with any other word could never
be true, so the checker refuses it. Adding an attribute to a group makes it known here; adding a word to a closed
symbol is a line in `_CLOSED`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, get_args, get_type_hints

from rules.model import CodeRow, FaultOrigin, LadderClass
from rules.symbols import GROUPS_OF_NODE_RULES, GROUPS_OF_RUN_RULES, RuleKind, Symbols
from schemas.envelope import Trust
from schemas.signals import EvictionReason, FaultState, Severity


class SymbolType(StrEnum):
    """Type of a symbol or a literal, in words authors read."""

    TEXT = "text"
    NUMBER = "a whole number"
    FLAG = "true or false"


_TYPES: Final[dict[object, SymbolType]] = {
    str: SymbolType.TEXT,
    int: SymbolType.NUMBER,
    bool: SymbolType.FLAG,
}

NO_CLASS: Final = "none"
"""`fault.class` where nobody knows a class."""

_CLOSED: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("fault", "class"): frozenset({*LadderClass, NO_CLASS}),
    ("fault", "escalates_to"): frozenset({*LadderClass, NO_CLASS}),
    ("fault", "origin"): frozenset(FaultOrigin),
    ("fault", "scope"): frozenset(get_args(CodeRow.model_fields["scope"].annotation)),
    ("fault", "severity"): frozenset({*Severity, ""}),
    ("fault", "trust"): frozenset(Trust),
    ("fault", "state"): frozenset(FaultState),
    ("eviction", "reason"): frozenset({*EvictionReason, ""}),
}


@dataclass(frozen=True, slots=True)
class Symbol:
    """One attribute of a group as conditions name it. `field` is its name in Python (`class` is a keyword there)."""

    group: str
    name: str
    field: str
    type: SymbolType
    words: frozenset[str] | None = None
    """The right values of a closed text; None: any."""

    def __str__(self) -> str:
        """As an author writes it."""
        return f"{self.group}.{self.name}"


def _read_symbols() -> dict[str, dict[str, Symbol]]:
    groups: dict[str, dict[str, Symbol]] = {}
    for group, group_type in get_type_hints(Symbols).items():
        attributes: dict[str, Symbol] = {}
        for field, annotation in get_type_hints(group_type).items():
            name = field.rstrip("_")
            words = _CLOSED.get((group, name))
            plain = None if words is None else frozenset(str(word) for word in words)
            attributes[name] = Symbol(group, name, field, _TYPES[annotation], plain)
        groups[group] = attributes
    return groups


SYMBOLS: Final = _read_symbols()
"""Symbols by group and name."""

ALL_GROUPS: Final = frozenset(SYMBOLS)

RUN_SUBJECT: Final = "run"
NODE_SUBJECT: Final = "node"


def kinds_of_subject(subject: str) -> dict[RuleKind, frozenset[str]]:
    """Groups a rule of this subject may name, by kind."""
    return GROUPS_OF_RUN_RULES if subject == RUN_SUBJECT else GROUPS_OF_NODE_RULES


def groups_of(subject: str, kinds: tuple[RuleKind, ...]) -> frozenset[str]:
    """Groups that all of these kinds have for this subject."""
    table = kinds_of_subject(subject)
    shared = ALL_GROUPS
    for kind in kinds:
        shared &= table.get(kind, frozenset())
    return shared
