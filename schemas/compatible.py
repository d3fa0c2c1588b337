"""What a change of a JSON Schema would break. Pure.

A newer schema is compatible when every message that was valid stays valid, and no field that readers know is taken away: fields may be added
when they need not be given, and limits may be loosened. Everything else needs a new version of the type (`...v2`), so that both can be told
apart.

A value that is added to an enumeration is no break here: readers of an older release dead-letter that message, which is what they do with
anything newer than they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_AT_LEAST: Final = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties")
_AT_MOST: Final = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties")
_EXACTLY: Final = ("pattern", "format", "multipleOf", "uniqueItems")
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


def breaks(old: Schema, new: Schema) -> list[str]:
    """Each break between two whole schemas, with the place of the field; empty when the newer is compatible."""
    return list(dict.fromkeys(_Comparison(old, new).compare(old, new, "")))


class _Comparison:
    """Two documents, whose definitions are looked up where they are referred to."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new
        self._under_way: set[tuple[str, str]] = set()

    def compare(self, old: Schema, new: Schema, place: str) -> Iterator[str]:
        pair = (str(old.get("$ref")), str(new.get("$ref")))
        if pair in self._under_way:
            return  # refers to itself: compared further up
        refers = "None" not in pair
        if refers:
            self._under_way.add(pair)
        yield from self._compare(_resolved(old, self._old), _resolved(new, self._new), place)
        if refers:
            self._under_way.discard(pair)

    def _compare(self, old: Schema, new: Schema, place: str) -> Iterator[str]:
        if _choices(old) or _choices(new):
            yield from self._compare_choices(old, new, place)
            return
        yield from _types(old, new, place)
        yield from _values(old, new, place)
        yield from _limits(old, new, place)
        yield from self._fields(old, new, place)
        yield from self._members(old, new, place)

    def _compare_choices(self, old: Schema, new: Schema, place: str) -> Iterator[str]:
        """Each alternative there was must fit one there is."""
        for number, before in enumerate(_choices(old) or [old]):
            found = [list(self.compare(before, after, place)) for after in _choices(new) or [new]]
            if all(found):
                said = min(found, key=len)
                yield f"{place or 'message'}: alternative {number + 1} is no longer accepted ({'; '.join(said)})"

    def _fields(self, old: Schema, new: Schema, place: str) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in sorted(set(before) - set(after)):
            yield f"{_in(place, name)}: the field was removed"
        for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
            yield f"{_in(place, name)}: the field must be given now"
        for name in sorted(set(before) & set(after)):
            yield from self.compare(before[name], after[name], _in(place, name))
        yield from self._open(old, new, place, "additionalProperties")

    def _members(self, old: Schema, new: Schema, place: str) -> Iterator[str]:
        yield from self._open(old, new, place, "items")
        yield from self._open(old, new, place, "propertyNames")
        before, after = old.get("prefixItems", []), new.get("prefixItems", [])
        for number, item in enumerate(after):
            yield from self.compare(
                before[number] if number < len(before) else {}, item, f"{place}[{number}]"
            )

    def _open(self, old: Schema, new: Schema, place: str, keyword: str) -> Iterator[str]:
        """A keyword whose absence allows everything."""
        before, after = old.get(keyword, True), new.get(keyword, True)
        if after is True or before is False:
            return
        if after is False:
            yield f"{place or 'message'}: {keyword} is forbidden now"
            return
        yield from self.compare({} if before is True else before, after, f"{place}[]")


def _resolved(schema: Schema, document: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _choices(schema: Schema) -> list[Schema]:
    return list(schema.get("anyOf") or schema.get("oneOf") or ())


def _accepted_types(schema: Schema) -> frozenset[str]:
    given = schema.get("type")
    if given is None:
        return _TYPES
    named = {given} if isinstance(given, str) else set(given)
    return frozenset(named | ({"integer"} if "number" in named else set()))


def _types(old: Schema, new: Schema, place: str) -> Iterator[str]:
    if "type" not in new or "enum" in old or "const" in old:
        return  # nothing is demanded, or the values are compared
    gone = _accepted_types(old) - _accepted_types(new)
    if gone:
        yield f"{place or 'message'}: type {', '.join(sorted(gone))} is no longer accepted"


def _allowed(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return None if found is None else list(found)


def _values(old: Schema, new: Schema, place: str) -> Iterator[str]:
    before, after = _allowed(old), _allowed(new)
    if after is None:
        return
    if before is None:
        yield f"{place or 'message'}: only {after!r:.200} is accepted now"
        return
    gone = [value for value in before if value not in after]
    if gone:
        yield f"{place or 'message'}: {', '.join(map(repr, gone))} is no longer accepted"


def _limits(old: Schema, new: Schema, place: str) -> Iterator[str]:
    for keyword in _AT_LEAST:
        if keyword in new and (keyword not in old or new[keyword] > old[keyword]):
            yield f"{place or 'message'}: {keyword} is {new[keyword]} now, was {old.get(keyword, 'none')}"
    for keyword in _AT_MOST:
        if keyword in new and (keyword not in old or new[keyword] < old[keyword]):
            yield f"{place or 'message'}: {keyword} is {new[keyword]} now, was {old.get(keyword, 'none')}"
    for keyword in _EXACTLY:
        if keyword in new and new[keyword] != old.get(keyword):
            yield f"{place or 'message'}: {keyword} is {new[keyword]!r} now, was {old.get(keyword, 'none')!r}"


def _in(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
