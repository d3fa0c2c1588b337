"""Errors and findings of this room.

    RulesError                  root
    ├── ConditionError          a `when` cannot be read, typed or is not allowed: the rule's author must mend it
    └── RulebookError           a rulebook with its findings: its author must mend it

A finding says what is wrong, where, and what would be right. Its code is listed in docs/rules.md and keeps its
meaning for ever.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

Path = tuple[str | int, ...]
"""Place in a rulebook document: keys and positions from its root, such as ("rules", 3, "when")."""

_NEAR: Final = 0.5


class Severity(StrEnum):
    """What a finding means for the rulebook."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file: line and column count from 1, `source` is the whole line, `length` the characters meant."""

    file: str
    line: int
    column: int
    source: str = ""
    length: int = 1

    def __str__(self) -> str:
        """`file:line:column`, which editors open."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong. `path` leads there in the document; `offset` goes on inside the text that stands there."""

    code: str
    message: str
    right: str = ""
    """What would be right, as a sentence or a value; empty where nobody can say."""
    path: Path = ()
    offset: int | None = None
    length: int = 1
    place: Place | None = None
    severity: Severity = Severity.ERROR

    def at(self, place: Place | None) -> Finding:
        """The same finding with its place in a file."""
        return replace(self, place=place)

    def __str__(self) -> str:
        """One line: place, code, message, what would be right."""
        where = str(self.place) if self.place else format_path(self.path)
        tail = f"; {self.right}" if self.right else ""
        return f"{where}: {self.code} {self.message}{tail}" if where else f"{self.code} {self.message}{tail}"


class RulesError(Exception):
    """Root of everything this room raises."""


class ConditionError(RulesError):
    """A condition is refused. `offset` and `length` point into its text."""

    def __init__(self, code: str, message: str, *, right: str = "", offset: int = 0, length: int = 1) -> None:
        """Keep the parts apart, so that a finding can be made of them."""
        super().__init__(f"{code} {message}" + (f"; {right}" if right else ""))
        self.code = code
        self.message = message
        self.right = right
        self.offset = offset
        self.length = length

    def finding(self, path: Path) -> Finding:
        """The same as a finding about the text at `path`."""
        return Finding(self.code, self.message, self.right, path, offset=self.offset, length=self.length)


class RulebookError(RulesError):
    """A rulebook with errors; `findings` holds all of them, warnings included."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        """Keep the findings; the text lists them one a line."""
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


def format_path(path: Path) -> str:
    """`rules[3].when` for ("rules", 3, "when")."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name most like `word`, or None when none is like it."""
    names = sorted(str(name) for name in known)
    found = difflib.get_close_matches(word.lower(), [name.lower() for name in names], n=1, cutoff=_NEAR)
    if not found:
        return None
    return next(name for name in names if name.lower() == found[0])


def suggest(word: str, known: Iterable[str], *, at_most: int = 12) -> str:
    """Sentence naming the nearest right name, or the names there are."""
    names = sorted(str(name) for name in known)
    near = nearest(word, names)
    if near is not None:
        return f"did you mean {near!r}?"
    shown = ", ".join(names[:at_most])
    return f"there are {shown}" + (", ..." if len(names) > at_most else "") if names else ""
