"""The part of AsyncAPI 3.0's rules that relight's document comes under, as a JSON Schema: objects, required fields, no field of another name."""

from __future__ import annotations

from typing import Any, Final

_EXTENSIONS: Final[dict[str, Any]] = {"^x-[\\w\\d.\\-_]+$": {}}


def _closed(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "patternProperties": _EXTENSIONS,
        "additionalProperties": False,
    }


_TEXT: Final = {"type": "string", "minLength": 1}
_REFERENCE: Final = {
    "type": "object",
    "required": ["$ref"],
    "properties": {"$ref": {"type": "string", "format": "uri-reference"}},
    "additionalProperties": False,
}
_NAMED: Final = {"propertyNames": {"pattern": "^[\\w\\d.\\-_]+$"}}
_SCHEMA: Final = {"type": ["object", "boolean"]}
_MESSAGE: Final = _closed(
    (),
    name=_TEXT,
    title=_TEXT,
    summary=_TEXT,
    description=_TEXT,
    contentType={"type": "string", "pattern": "^[a-z]+/[a-z0-9.+-]+$"},
    headers={"type": "object", "properties": {"type": {"const": "object"}}, "required": ["type"]},
    payload={
        "anyOf": [_closed(("schemaFormat", "schema"), schemaFormat=_TEXT, schema=_SCHEMA)],
    },
)
_CHANNEL: Final = _closed(
    ("address", "messages"),
    address=_TEXT,
    title=_TEXT,
    summary=_TEXT,
    description=_TEXT,
    messages={"type": "object", "minProperties": 1, **_NAMED, "additionalProperties": _REFERENCE},
    bindings=_closed(
        (),
        kafka=_closed(
            ("bindingVersion",),
            topic=_TEXT,
            partitions={"type": "integer", "minimum": 1},
            replicas={"type": "integer", "minimum": 1},
            topicConfiguration={
                "type": "object",
                "properties": {
                    "cleanup.policy": {"type": "array", "items": {"enum": ["compact", "delete"]}},
                    "retention.ms": {"type": "integer", "minimum": -1},
                    "max.message.bytes": {"type": "integer", "minimum": 0},
                },
                "additionalProperties": False,
            },
            bindingVersion={"const": "0.5.0"},
        ),
    ),
)
_OPERATION: Final = _closed(
    ("action", "channel"),
    action={"enum": ["send", "receive"]},
    channel=_REFERENCE,
    title=_TEXT,
    summary=_TEXT,
    description=_TEXT,
    messages={"type": "array", "minItems": 1, "items": _REFERENCE},
)

RULES: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_closed(
        ("asyncapi", "info"),
        asyncapi={"const": "3.0.0"},
        info=_closed(
            ("title", "version"),
            title=_TEXT,
            version=_TEXT,
            description=_TEXT,
            license=_closed(("name",), name=_TEXT, url=_TEXT),
        ),
        defaultContentType=_TEXT,
        channels={"type": "object", **_NAMED, "additionalProperties": _CHANNEL},
        operations={"type": "object", **_NAMED, "additionalProperties": _OPERATION},
        components=_closed(
            (),
            messages={"type": "object", **_NAMED, "additionalProperties": _MESSAGE},
            schemas={"type": "object", **_NAMED, "additionalProperties": _SCHEMA},
        ),
    ),
}
