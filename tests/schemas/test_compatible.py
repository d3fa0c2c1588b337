"""What breaks somebody is named with its place; what breaks nobody is let through."""

from typing import Any

import pytest

from schemas.compatible import breaks

Schema = dict[str, Any]


def record(fields: Schema, *, required: list[str] | None = None, **more: Any) -> Schema:
    return {"type": "object", "properties": fields, "required": required or [], **more}


def of(field: Schema) -> Schema:
    return record({"f": field})


NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 10}

BROKEN: list[tuple[str, Schema, Schema, str]] = [
    ("field removed", record({"a": NAME, "b": NAME}), record({"a": NAME}), "b: the field was removed"),
    (
        "field required",
        record({"a": NAME}),
        record({"a": NAME}, required=["a"]),
        "a: the field must be given",
    ),
    (
        "new field required",
        record({"a": NAME}),
        record({"a": NAME, "b": NAME}, required=["b"]),
        "b: the field must be given",
    ),
    ("type changed", of({"type": "string"}), of({"type": "integer"}), "f: type string"),
    ("type narrowed", of({"type": "number"}), of({"type": "integer"}), "f: type number"),
    ("type demanded", of({}), of({"type": "string"}), "f: type"),
    ("none refused", of({"anyOf": [NAME, {"type": "null"}]}), of(NAME), "f: alternative 2"),
    ("enum narrowed", of({"enum": ["a", "b"]}), of({"enum": ["a"]}), "f: 'b' is no longer accepted"),
    ("enum demanded", of({"type": "string"}), of({"type": "string", "enum": ["a"]}), "f: only ['a']"),
    ("const changed", of({"const": "a"}), of({"const": "b"}), "f: 'a' is no longer accepted"),
    ("shorter", of({"maxLength": 10}), of({"maxLength": 9}), "f: maxLength is 9 now, was 10"),
    ("longer at least", of({"minLength": 1}), of({"minLength": 2}), "f: minLength is 2 now, was 1"),
    ("a limit where none was", of({"type": "integer"}), of({"type": "integer", "minimum": 0}), "f: minimum"),
    ("smaller", of({"maximum": 255}), of({"maximum": 127}), "f: maximum is 127 now"),
    ("fewer", of({"maxItems": 5}), of({"maxItems": 4}), "f: maxItems"),
    ("another pattern", of({"pattern": "^a$"}), of({"pattern": "^b$"}), "f: pattern"),
    ("another format", of({"type": "string"}), of({"type": "string", "format": "date-time"}), "f: format"),
    (
        "members narrowed",
        of({"type": "array", "items": NAME}),
        of({"type": "array", "items": {**NAME, "maxLength": 5}}),
        "f[]: maxLength",
    ),
    (
        "values of a map narrowed",
        of({"additionalProperties": {"type": "number"}}),
        of({"additionalProperties": {"type": "integer"}}),
        "f[]: type number",
    ),
    ("closed", record({}), record({}, additionalProperties=False), "additionalProperties is forbidden"),
    (
        "inside a definition",
        {**of({"$ref": "#/$defs/Name"}), "$defs": {"Name": NAME}},
        {**of({"$ref": "#/$defs/Other"}), "$defs": {"Other": {**NAME, "maxLength": 3}}},
        "f: maxLength is 3",
    ),
    (
        "inside an alternative",
        of({"anyOf": [record({"x": NAME}), {"type": "null"}]}),
        of({"anyOf": [record({"x": NAME}, required=["x"]), {"type": "null"}]}),
        "f: alternative 1",
    ),
]

FINE: list[tuple[str, Schema, Schema]] = [
    ("a field that need not be given", record({"a": NAME}), record({"a": NAME, "b": NAME})),
    ("no longer required", record({"a": NAME}, required=["a"]), record({"a": NAME})),
    ("type widened", of({"type": "integer"}), of({"type": "number"})),
    ("none allowed", of(NAME), of({"anyOf": [NAME, {"type": "null"}]})),
    ("value added", of({"enum": ["a"]}), of({"enum": ["a", "b"]})),
    ("a value becomes several", of({"const": "a"}), of({"enum": ["a", "b"]})),
    ("any text", of({"enum": ["a"], "type": "string"}), of({"type": "string"})),
    ("longer", of({"maxLength": 10}), of({"maxLength": 11})),
    ("limit gone", of({"minimum": 0}), of({})),
    (
        "alternatives in another order",
        of({"anyOf": [NAME, {"type": "null"}]}),
        of({"anyOf": [{"type": "null"}, NAME]}),
    ),
    ("other words", of({"title": "A", "description": "x"}), of({"title": "B"})),
    (
        "a definition renamed",
        {**of({"$ref": "#/$defs/A"}), "$defs": {"A": NAME}},
        {**of({"$ref": "#/$defs/B"}), "$defs": {"B": NAME}},
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "said"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_break_is_named_with_its_place(old: Schema, new: Schema, said: str) -> None:
    found = breaks(old, new)

    assert [line for line in found if line.startswith(said) or said in line], found


@pytest.mark.parametrize(("old", "new"), [case[1:] for case in FINE], ids=[case[0] for case in FINE])
def test_what_breaks_nobody_is_let_through(old: Schema, new: Schema) -> None:
    assert breaks(old, new) == []


@pytest.mark.parametrize("old", [case[1] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_nothing_changed_breaks_nothing(old: Schema) -> None:
    assert breaks(old, old) == []


def test_a_definition_that_refers_to_itself_ends() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/Tree"}, "n": {"type": "integer"}}}
    narrow = {"type": "object", "properties": {"child": {"$ref": "#/$defs/Tree"}, "n": {"type": "null"}}}

    found = breaks(
        {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}}, {"$ref": "#/$defs/Tree", "$defs": {"Tree": narrow}}
    )

    assert found == ["n: type integer is no longer accepted"]
