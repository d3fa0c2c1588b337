"""The part of the Compose specification that docker-compose.yml uses, as a JSON Schema: no key of another name, values of the right kind."""

from __future__ import annotations

from typing import Any, Final

_TEXT: Final = {"type": "string", "minLength": 1}
_LIST: Final = {"type": "array", "items": _TEXT}
_DURATION: Final = {"type": "string", "pattern": r"^(\d+(h|m|s|ms|us))+$"}
_EXTENSIONS: Final[dict[str, Any]] = {"^x-": {}}


def _closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


_HEALTHCHECK: Final = _closed(
    disable={"type": "boolean"},
    test={
        "type": "array",
        "prefixItems": [{"enum": ["NONE", "CMD", "CMD-SHELL"]}],
        "items": _TEXT,
        "minItems": 2,
    },
    interval=_DURATION,
    timeout=_DURATION,
    start_period=_DURATION,
    start_interval=_DURATION,
    retries={"type": "integer", "minimum": 1},
)
_DEPENDS_ON: Final = {
    "type": "object",
    "additionalProperties": {
        **_closed(
            condition={"enum": ["service_started", "service_healthy", "service_completed_successfully"]},
            restart={"type": "boolean"},
            required={"type": "boolean"},
        ),
        "required": ["condition"],
    },
}
_ENVIRONMENT: Final = {
    "type": "object",
    "propertyNames": {"pattern": "^[A-Z][A-Z0-9_]*$"},
    "additionalProperties": {
        "type": "string"
    },  # YAML's own numbers and flags would be written otherwise than they look
}
_SERVICE: Final = {
    **_closed(
        image={"type": "string", "pattern": r"^[a-z0-9./-]+:[\w.-]+$"},
        build=_TEXT,
        restart={"enum": ["no", "always", "on-failure", "unless-stopped"]},
        stop_grace_period=_DURATION,
        read_only={"type": "boolean"},
        tmpfs=_LIST,
        cap_drop=_LIST,
        security_opt=_LIST,
        environment=_ENVIRONMENT,
        healthcheck=_HEALTHCHECK,
        depends_on=_DEPENDS_ON,
        entrypoint=_LIST,
        command=_LIST,
        profiles=_LIST,
        volumes={"type": "array", "items": {"type": "string", "pattern": r"^[^:]+:/[^:]+(:(ro|rw))?$"}},
        ulimits={
            "type": "object",
            "additionalProperties": _closed(soft={"type": "integer"}, hard={"type": "integer"}),
        },
    ),
    "required": ["image"],
}

RULES: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_closed(
        name={"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        services={"type": "object", "additionalProperties": _SERVICE, "minProperties": 1},
        volumes={"type": "object", "additionalProperties": {"type": ["object", "null"]}},
    ),
    "patternProperties": _EXTENSIONS,
    "required": ["services"],
}
