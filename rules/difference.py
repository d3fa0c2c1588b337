"""What changed from one rulebook to another, in lines people read before they release one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rules.compiled import content_of
from rules.model import RulebookDocument
from schemas.wording import counted

_SHOWN: Final = 60


def differences(old: RulebookDocument | None, new: RulebookDocument) -> list[str]:
    """One line for each thing added (+), removed (-), changed (~) or moved (>); none when they say the same."""
    before = content_of(old) if old is not None else {}
    after = content_of(new)
    return [
        *_of_settings(before.get("settings", {}), after["settings"]),
        *_of_entries("rule", before.get("rules", []), after["rules"]),
        *_moved(before.get("rules", []), after["rules"]),
        *_of_entries("strategy", before.get("strategies", []), after["strategies"]),
        *_of_codes(before.get("codes", []), after.get("codes", [])),
    ]


def _of_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield f"+ setting {name}: {_shown(after[name])}"
        elif name not in after:
            yield f"- setting {name}"
        elif before[name] != after[name]:
            yield f"~ setting {name}: {_shown(before[name])} -> {_shown(after[name])}"


def _of_entries(
    what: str, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    old = {entry["id"]: entry for entry in before}
    new = {entry["id"]: entry for entry in after}
    for name, entry in new.items():
        if name not in old:
            yield f"+ {what} {name}: {entry['title']}"
        elif entry != old[name]:
            yield f"~ {what} {name}: {'; '.join(_changed(old[name], entry))}"
    for name in old:
        if name not in new:
            yield f"- {what} {name}"


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key in [*after, *(key for key in before if key not in after)]:
        if before.get(key) != after.get(key):
            yield f"{key} {_shown(before.get(key))} -> {_shown(after.get(key))}"


def _moved(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Rules that stand in both and have left the longest run that kept its order."""
    position = {entry["id"]: index for index, entry in enumerate(before)}
    order = [entry["id"] for entry in after if entry["id"] in position]
    kept = _longest_rising([position[name] for name in order])
    for index, name in enumerate(order):
        if index not in kept:
            yield f"> rule {name}: now after {order[index - 1]}" if index else f"> rule {name}: now first"


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """Indexes of a longest rising subsequence."""
    best: list[list[int]] = []
    for index, number in enumerate(numbers):
        before = [way for way in best if numbers[way[-1]] < number]
        best.append([*max(before, key=len), index] if before else [index])
    longest = max(best, key=len, default=list[int]())
    return set(longest)


def _of_codes(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    old = {(row["namespace"], row["code"]): row for row in before}
    new = {(row["namespace"], row["code"]): row for row in after}
    if not old:
        yield from [f"+ {counted(len(new), 'code')}"] if new else []
        return
    for key in sorted(old.keys() | new.keys()):
        name = f"{key[0]} {key[1]}"
        if key not in old:
            yield f"+ code {name}: {new[key].get('class', 'no class')}"
        elif key not in new:
            yield f"- code {name}"
        elif old[key] != new[key]:
            yield f"~ code {name}: {'; '.join(_changed(old[key], new[key]))}"


def _shown(value: Any) -> str:  # noqa: ANN401 - any JSON value
    text = (
        "nothing"
        if value is None or value == ""
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
