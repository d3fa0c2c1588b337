"""Folders laid over each other: entries merged by id, each override said in words, settings merged by key.

A rule or strategy of an overlay either is new, or says `override: replace`, `merge` or `remove` with the id of one
that exists. A new rule says where it stands with `before:` or `after:` an id; without them it stands before the
first rule of row 12 of its subject, where the ladder has no more to say, and at the end when there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from rules.errors import Finding, Place, suggest
from rules.marked import Marked
from rules.tables import TableRow

LAST_ROW: Final = "12"
"""Row of the ladder that takes whatever is left."""

OVERRIDES: Final = ("replace", "merge", "remove")
_ORDER_KEYS: Final = frozenset({"before", "after"})
CONTROL_KEYS: Final = frozenset({"override"}) | _ORDER_KEYS


@dataclass
class Layer:
    """What one folder holds."""

    title: Marked | None = None
    settings: dict[str, Marked] = field(default_factory=dict)
    rules: list[Marked] = field(default_factory=list)
    strategies: list[Marked] = field(default_factory=list)
    rows: list[TableRow] = field(default_factory=list)


@dataclass
class Effective:
    """What stands after the layers so far."""

    title: Marked | None = None
    settings: dict[str, Marked] = field(default_factory=dict)
    rules: list[Marked] = field(default_factory=list)
    strategies: list[Marked] = field(default_factory=list)
    rows: dict[tuple[str, str], TableRow] = field(default_factory=dict)

    def lay(self, layer: Layer, *, overlay: bool) -> list[Finding]:
        """Lay a folder over what stands; the findings say what could not be done."""
        self.title = layer.title or self.title
        self.settings = _merged(self.settings, layer.settings)
        rules = _Laying("rule", self.rules, ordered=True, overlay=overlay)
        strategies = _Laying("strategy", self.strategies, ordered=False, overlay=overlay)
        for entry in layer.rules:
            rules.take(entry)
        for entry in layer.strategies:
            strategies.take(entry)
        return rules.findings + strategies.findings + self._lay_rows(layer.rows)

    def _lay_rows(self, rows: list[TableRow]) -> list[Finding]:
        findings = []
        seen: dict[tuple[str, str], TableRow] = {}
        for row in rows:
            first = seen.setdefault(row.key, row)
            if first is not row:
                message = f"code {row.key[1]!r} of {row.key[0]!r} stands twice"
                right = f"it stands in {first.place()} already"
                findings.append(Finding("RL121", message, right, place=row.place("code")))
        self.rows |= seen
        return findings


def entry_id(entry: Marked) -> str:
    """The id of an entry; empty when it has none that is a text."""
    value = _text(entry, "id")
    return value or ""


def _text(entry: Marked, key: str) -> str | None:
    if not isinstance(entry.value, dict) or key not in entry.value:
        return None
    value = entry.value[key].value
    return value if isinstance(value, str) else None


def _merged(below: dict[str, Marked], above: dict[str, Marked]) -> dict[str, Marked]:
    merged = dict(below)
    for key, value in above.items():
        old = below.get(key)
        if old is not None and isinstance(old.value, dict) and isinstance(value.value, dict):
            merged[key] = replace(value, value=_merged(old.value, value.value))
        else:
            merged[key] = value
    return merged


class _Laying:
    """Takes the entries of one layer, in order."""

    def __init__(self, what: str, entries: list[Marked], *, ordered: bool, overlay: bool) -> None:
        self.findings: list[Finding] = []
        self._what = what
        self._entries = entries
        self._ordered = ordered
        self._overlay = overlay
        self._of_this_layer: dict[str, Marked] = {}
        self._last_after: dict[str, str] = {}

    def take(self, entry: Marked) -> None:
        """One entry: new, or overriding one of the layers below."""
        name = entry_id(entry)
        if not name or not isinstance(entry.value, dict):
            self._entries.append(entry)
            return
        if name in self._of_this_layer:
            first = self._of_this_layer[name].place()
            self._find(
                "RL104", entry, "id", f"{self._what} {name!r} stands twice", f"it stands in {first} already"
            )
            return
        self._of_this_layer[name] = entry
        if "override" in entry.value:
            self._override(entry, name)
        elif self._position(name) is None:
            self._insert(entry)
        else:
            message = f"{self._what} {name!r} exists below this folder"
            self._find(
                "RL111", entry, "id", message, "add override: replace, merge or remove, or choose another id"
            )

    def _override(self, entry: Marked, name: str) -> None:
        how = _text(entry, "override")
        below = self._position(name)
        if how not in OVERRIDES:
            self._find("RL110", entry, "override", f"{how!r} is no override", f"write {', '.join(OVERRIDES)}")
        elif below is None:
            names = [entry_id(each) for each in self._entries]
            self._find(
                "RL110", entry, "id", f"there is no {self._what} {name!r} to {how}", suggest(name, names)
            )
        elif how == "remove":
            self._remove(entry, below)
        else:
            self._put(entry, below, how)

    def _remove(self, entry: Marked, below: int) -> None:
        extra = sorted(set(_keys(entry)) - {"id", "override"})
        if extra:
            self._find(
                "RL112",
                entry,
                extra[0],
                f"{extra[0]!r} beside override: remove",
                "leave id and override only",
            )
            return
        del self._entries[below]

    def _put(self, entry: Marked, below: int, how: str) -> None:
        kept = _without_control(entry)
        if how == "merge":
            kept = replace(kept, value=_keys(self._entries[below]) | _keys(kept))
        if not self._ordered or not _ORDER_KEYS & set(_keys(entry)):
            self._entries[below] = kept
            return
        removed = self._entries.pop(below)
        if not self._insert(entry, kept):
            self._entries.insert(below, removed)

    def _insert(self, entry: Marked, kept: Marked | None = None) -> bool:
        """Put an entry where it says; False when it says so wrongly."""
        kept = kept or _without_control(entry)
        asked = [key for key in ("before", "after") if key in _keys(entry)] if self._ordered else []
        if not asked:
            self._entries.insert(self._default_position(kept), kept)
            return True
        if len(asked) > 1:
            self._find("RL113", entry, "after", "before and after together", "say one of them")
            return False
        anchor = _text(entry, asked[0]) or ""
        position = self._position(anchor)
        if position is None:
            names = [entry_id(each) for each in self._entries]
            self._find(
                "RL113", entry, asked[0], f"there is no {self._what} {anchor!r}", suggest(anchor, names)
            )
            return False
        if asked[0] == "after":
            last = self._position(self._last_after.get(anchor, anchor))
            position = (position if last is None else last) + 1
            self._last_after[anchor] = entry_id(entry)
        self._entries.insert(position, kept)
        return True

    def _default_position(self, entry: Marked) -> int:
        if not self._ordered or not self._overlay:
            return len(self._entries)
        subject = _text(entry, "subject") or "run"
        return self._first(
            lambda each: _text(each, "row") == LAST_ROW and (_text(each, "subject") or "run") == subject
        )

    def _first(self, holds: Callable[[Marked], bool]) -> int:
        return next((index for index, each in enumerate(self._entries) if holds(each)), len(self._entries))

    def _position(self, name: str) -> int | None:
        return next((index for index, each in enumerate(self._entries) if entry_id(each) == name), None)

    def _find(self, code: str, entry: Marked, key: str, message: str, right: str) -> None:
        place: Place = _keys(entry)[key].place() if key in _keys(entry) else entry.place()
        self.findings.append(Finding(code, message, right, place=place))


def _keys(entry: Marked) -> dict[str, Marked]:
    return entry.value if isinstance(entry.value, dict) else {}


def _without_control(entry: Marked) -> Marked:
    return replace(
        entry, value={key: value for key, value in _keys(entry).items() if key not in CONTROL_KEYS}
    )
