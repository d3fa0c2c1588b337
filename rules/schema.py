"""JSON Schema 2020-12 of a rulebook file, for editors: made from the models that read it.

A file holds part of a rulebook, so nothing is required at its top or in its settings; the short forms people write are
allowed, and entries of an overlay may say `override`, `before` and `after`.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from rules.model import RulebookDocument
from rules.overlay import OVERRIDES
from schemas.commands import StepName

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DURATION_PATTERN: Final = r"^(\d+(\.\d+)?(ms|s|m|h|d) *)+$"

Schema = dict[str, Any]


def rulebook_schema() -> Schema:
    """Schema of one `*.yaml` file of a rulebook."""
    whole = RulebookDocument.model_json_schema(by_alias=True, mode="validation")
    definitions: Schema = whole["$defs"]
    for definition in definitions.values():
        _mend_durations(definition)
    definitions["Step"] = _step(definitions["Step"])
    definitions["StepFailure"] = _failure(definitions["StepFailure"])
    _allow_parts(definitions, "Settings")
    return {
        "$schema": DIALECT,
        "$id": "urn:relight:rulebook-file:1",
        "title": "relight rulebook",
        "description": "One file of a rulebook folder; see docs/rules.md.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "format": {"const": 1, "description": "Version of this format."},
            "title": {"type": "string"},
            "settings": {"$ref": "#/$defs/Settings"},
            "rules": {"type": "array", "items": _entry(definitions, "Rule", ordered=True)},
            "strategies": {"type": "array", "items": _entry(definitions, "Strategy", ordered=False)},
        },
        "$defs": {name: body for name, body in definitions.items() if name != "CodeRow"},
    }


def _mend_durations(schema: Any) -> None:  # noqa: ANN401 - any part of a schema
    """A timedelta is described as ISO 8601; people write 90s."""
    if isinstance(schema, list):
        for each in schema:
            _mend_durations(each)
    if not isinstance(schema, dict):
        return
    if schema.get("format") == "duration":
        del schema["format"]
        schema.update(pattern=DURATION_PATTERN, examples=["30s", "10m", "24h"])
    for each in schema.values():
        _mend_durations(each)


def _allow_parts(definitions: Schema, name: str) -> None:
    """Settings are merged by key, so a file may give any of them alone, nested ones too."""
    definition = definitions[name]
    definition.pop("required", None)
    for body in definition.get("properties", {}).values():
        inner = str(body.get("$ref", "")).rpartition("/")[2]
        if inner:
            _allow_parts(definitions, inner)


def _entry(definitions: Schema, name: str, *, ordered: bool) -> Schema:
    """A new entry, or one that overrides an entry of a folder below."""
    whole = definitions[name]
    place: Schema = {}
    if ordered:
        place = {
            key: {"type": "string", "description": f"Id of the rule it stands {key}."}
            for key in ("before", "after")
        }
    new = {**whole, "properties": {**whole["properties"], **place}}
    override = {"enum": list(OVERRIDES), "description": "What becomes of the entry with this id below."}
    part = {
        **whole,
        "description": f"Overrides a {name.lower()} of a folder below.",
        "properties": {**whole["properties"], **place, "override": override},
        "required": ["id", "override"],
    }
    definitions[name] = new
    definitions[f"{name}Override"] = part
    return {
        "if": {"required": ["override"]},
        "then": {"$ref": f"#/$defs/{name}Override"},
        "else": {"$ref": f"#/$defs/{name}"},
    }


def _step(whole: Schema) -> Schema:
    """`- stop_processes: {timeout: 60s}` beside `- {step: stop_processes, timeout: 60s}`."""
    body = copy.deepcopy(whole)
    del body["properties"]["step"]
    body["required"] = [key for key in body["required"] if key != "step"]
    short = {
        "type": "object",
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {name.value: body for name in StepName},
    }
    return {
        "description": whole.get("description", ""),
        "if": {"required": ["step"]},
        "then": whole,
        "else": short,
    }


def _failure(whole: Schema) -> Schema:
    """One name, a list of names, or the long form."""
    names = whole["properties"]["then"]
    return {"description": whole.get("description", ""), "anyOf": [{"type": "string"}, names, whole]}
