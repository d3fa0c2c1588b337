"""YAML text to marked values, and what YAML would hide refused.

Read from the parser's events with a stack of our own: nothing nests deeper than allowed, nothing is expanded,
nothing is constructed. Anchors, aliases, tags and merge keys are refused, so that a rule can be read where it
stands. Scalars follow YAML 1.2's core schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from rules.errors import Finding, Place, RulebookError
from rules.marked import Marked, Scalar, SourceFile

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 24

_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_WORDS: Final[dict[str, bool | None]] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_MAX_DIGITS: Final = 18


def read_yaml(file: SourceFile) -> Marked | None:
    """The one document of a file; None for an empty one. RulebookError when it cannot be read or hides something."""
    tab = re.search(r"^ *\t", file.text, re.MULTILINE)
    if tab is not None:
        raise _refused("RL003", "a tab in the indentation", "indent with spaces", file.place(tab.end() - 1))
    builder = _Builder(file)
    try:
        for event in YAML(typ="safe", pure=True).parse(file.text):
            builder.take(event)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = file.place(mark.index if mark else 0)
        raise _refused(
            "RL001", f"this is no YAML: {error.problem or error.context}", _likely(error), place
        ) from None
    except YAMLError as error:
        reason = str(error).partition("\n")[0]
        raise _refused(
            "RL001", f"this is no YAML: {reason}", "write it as UTF-8 text", file.place(0)
        ) from None
    if builder.findings:
        raise RulebookError(builder.findings)
    return builder.root


def _refused(code: str, message: str, right: str, place: Place) -> RulebookError:
    return RulebookError([Finding(code, message, right, place=place)])


def _likely(error: MarkedYAMLError) -> str:
    problem = str(error.problem)
    if "mapping values are not allowed" in problem:
        return "put the text in quotes, since it holds a colon, or check the indentation"
    if "cannot start any token" in problem:
        return "put the text in quotes"
    if "expected <block end>" in problem:
        return "check the indentation"
    return "check quotes, brackets and indentation"


@dataclass
class _Open:
    """A mapping or list that is being read."""

    start: int
    key: tuple[int, int] | None
    items: dict[str, Marked] | list[Marked]
    pending: ScalarEvent | None = None


@dataclass
class _Builder:
    """Puts events together. Goes on after a finding, so that one check tells all of a file's faults."""

    file: SourceFile
    root: Marked | None = None
    findings: list[Finding] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    documents: int = 0

    def take(self, event: Event) -> None:
        """One event of the parser."""
        handler = self._handlers().get(type(event))
        if handler is not None:
            handler(event)

    def _handlers(self) -> dict[type[Event], Callable[[Any], None]]:
        return {
            DocumentStartEvent: self._document,
            AliasEvent: self._alias,
            ScalarEvent: self._scalar,
            MappingStartEvent: lambda event: self._open(event, {}),
            SequenceStartEvent: lambda event: self._open(event, []),
            MappingEndEvent: self._close,
            SequenceEndEvent: self._close,
        }

    def _document(self, event: DocumentStartEvent) -> None:
        self.documents += 1
        if self.documents > 1:
            raise _refused("RL001", "a second document", "one file holds one document", self._place(event))

    def _alias(self, event: AliasEvent) -> None:
        raise _refused("RL006", "an alias", "write the value out where it is used", self._place(event))

    def _open(
        self, event: MappingStartEvent | SequenceStartEvent, items: dict[str, Marked] | list[Marked]
    ) -> None:
        self._check_plain(event)
        if len(self.stack) >= MAX_DEPTH:
            raise _refused(
                "RL005", f"nested deeper than {MAX_DEPTH}", "a rulebook is flat", self._place(event)
            )
        key = self._key(event)
        self.stack.append(_Open(event.start_mark.index, key, items))

    def _close(self, event: MappingEndEvent | SequenceEndEvent) -> None:
        done = self.stack.pop()
        self._add(Marked(done.items, self.file, done.start, event.end_mark.index, key=done.key))

    def _scalar(self, event: ScalarEvent) -> None:
        self._check_plain(event)
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.items, dict) and top.pending is None:
            self._begin_pair(event, top, top.items)
            return
        value = _resolved(event.value) if event.style is None else event.value
        key = self._key(event)
        self._add(
            Marked(value, self.file, event.start_mark.index, event.end_mark.index, event.style or "", key)
        )

    def _begin_pair(self, event: ScalarEvent, top: _Open, items: dict[str, Marked]) -> None:
        if event.value in items:
            first = items[event.value].key_place().line
            self._find(
                "RL002", f"the key {event.value!r} stands twice", f"it stands in line {first} already", event
            )
        if event.value == "<<" and event.style is None:
            raise _refused("RL006", "a merge key", "write the keys out", self._place(event))
        top.pending = event

    def _key(self, event: Event) -> tuple[int, int] | None:
        """Where the key of the value that begins stands; a key that is no text is refused."""
        top = self.stack[-1] if self.stack else None
        if top is None or not isinstance(top.items, dict):
            return None
        if top.pending is None:
            raise _refused("RL001", "a key that is no text", "a key is one word", self._place(event))
        mark = top.pending
        return mark.start_mark.index, mark.end_mark.index - mark.start_mark.index

    def _add(self, marked: Marked) -> None:
        if not self.stack:
            self.root = marked
            return
        top = self.stack[-1]
        if isinstance(top.items, list):
            top.items.append(marked)
        elif top.pending is not None:
            top.items[top.pending.value] = marked
            top.pending = None

    def _check_plain(self, event: Any) -> None:  # noqa: ANN401 - any event that can carry an anchor
        if event.anchor is not None:
            raise _refused("RL006", "an anchor", "write the value out where it is used", self._place(event))
        if event.tag is not None:
            raise _refused("RL006", f"a tag, {event.tag}", "write the value alone", self._place(event))

    def _find(self, code: str, message: str, right: str, event: Event) -> None:
        self.findings.append(Finding(code, message, right, place=self._place(event)))

    def _place(self, event: Event) -> Place:
        start = event.start_mark.index
        return self.file.place(start, max(1, event.end_mark.index - start))


def _resolved(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and len(text) <= _MAX_DIGITS:
        return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
