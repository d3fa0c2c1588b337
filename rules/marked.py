"""Values that know where they stand in a file, down to a character inside a folded, literal or quoted text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from rules.errors import Path, Place

Scalar = str | int | float | bool | None

_BLOCK: Final = frozenset({"|", ">"})
PLAIN: Final = ""


@dataclass(frozen=True)
class SourceFile:
    """A file's name, as people know it, and its text."""

    name: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """Lines without their ends."""
        return self.text.split("\n")

    def place(self, index: int, length: int = 1) -> Place:
        """Place of a character of the text."""
        index = min(index, len(self.text))
        line = self.text.count("\n", 0, index)
        column = index - (self.text.rfind("\n", 0, index) + 1)
        source = self.lines[line]
        return Place(self.name, line + 1, column + 1, source, max(1, min(length, len(source) - column)))


@dataclass(frozen=True, slots=True)
class Marked:
    """A value, the characters `start` to `end` it was read from, and its key's when it is a value of a mapping."""

    value: dict[str, Marked] | list[Marked] | Scalar
    file: SourceFile = field(repr=False)
    start: int
    end: int
    style: str = PLAIN
    key: tuple[int, int] | None = None

    @property
    def raw(self) -> str:
        """The value as it is written."""
        return self.file.text[self.start : self.end]

    def place(self) -> Place:
        """Where the value begins; for a mapping or a list in block style that is its first key or element."""
        length = self.end - self.start if not isinstance(self.value, dict | list) else 1
        return self.file.place(self.start, length)

    def key_place(self) -> Place:
        """Where its key stands; the value itself when it has none."""
        return self.place() if self.key is None else self.file.place(*self.key)

    def inside(self, offset: int, length: int) -> Place:
        """Where a character of a text stands in the file, whatever style it is written in."""
        if not isinstance(self.value, str):
            return self.place()
        index = next(_skip(_aligned(self), offset), None)
        return self.place() if index is None else self.file.place(index, length)


def plain(marked: Marked) -> Any:  # noqa: ANN401 - the value's own type
    """The value without marks."""
    if isinstance(marked.value, dict):
        return {key: plain(value) for key, value in marked.value.items()}
    if isinstance(marked.value, list):
        return [plain(value) for value in marked.value]
    return marked.value


def find(marked: Marked, path: Path) -> Marked:
    """The value at a path, or the nearest one above it that exists.

    Short forms are seen through: `- stop_processes: {grace: 30s}` has the path (..., "grace"), and a failure written
    as one name has the path (..., "then", 0).
    """
    current = marked
    for part in path:
        value = current.value
        if isinstance(value, dict) and part in value:
            current = value[str(part)]
        elif isinstance(value, dict) and len(value) == 1:
            (only,) = value.values()
            if not isinstance(only.value, dict) or part not in only.value:
                return current
            current = only.value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            current = value[part]
        elif isinstance(value, list) and part == "then":
            continue
        else:
            return current
    return current


def _skip(indexes: Iterator[int], count: int) -> Iterator[int]:
    for _ in range(count):
        next(indexes, None)
    return indexes


def _aligned(marked: Marked) -> Iterator[int]:
    """Index in the file of each character of a text: both are walked, what folding or quoting added is skipped."""
    text, end = marked.file.text, marked.end
    index = marked.start
    if marked.style in _BLOCK:
        index = text.index("\n", index) + 1
    elif marked.style:
        index = text.index(marked.style, index) + 1
    for character in str(marked.value):
        if character.isspace():
            yield index
            continue
        while index < end and text[index] != character:
            index += 1
        if index >= end:
            return
        yield index
        index += 1
        doubled = (marked.style == "'" and character == "'") or (marked.style == '"' and character == "\\")
        index += doubled
