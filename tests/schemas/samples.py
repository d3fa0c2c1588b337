"""One event of each registered type that can be made from its schema alone: required fields only, and everything that has a default."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from schemas.envelope import Event, registered_models
from schemas.export import schema_of

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def sample(type_name: str) -> Event:
    """A valid event of this type."""
    schema = schema_of(type_name)
    content = _value(schema, schema)
    return registered_models()[type_name].model_validate_json(_dumped({**content, "cluster": "prod"}))


def _dumped(content: object) -> str:
    return json.dumps(content)


def _value(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    while "$ref" in schema:
        schema = document["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return _value(choices[0], document)
    if schema.get("type") == "object":
        return _object(schema, document)
    return _plain(schema, document)


def _object(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    fields = schema.get("properties", {})
    wanted = {*schema.get("required", ()), *(name for name in fields if "const" in fields[name])}
    return {name: _value(fields[name], document) for name in fields if name in wanted}


def _plain(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    found: Any = {}
    match schema.get("type"):
        case "string" if schema.get("format") == "date-time":
            found = NOW.isoformat()
        case "string":
            found = "a" * max(1, schema.get("minLength", 0))
        case "integer" | "number":
            found = max(1, schema.get("minimum", 1))
        case "boolean":
            found = True
        case "array" if "prefixItems" in schema:
            found = [_value(item, document) for item in schema["prefixItems"]]
        case "array":
            found = [_value(schema["items"], document)] * schema.get("minItems", 0)
    return found
