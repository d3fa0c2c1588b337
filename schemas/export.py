"""JSON Schemas (2020-12) of all messages, one a CloudEvents type, for other systems and other languages.

The copies under `schemas/json` are what was promised. `export` writes them from the models and refuses a change that would break somebody, since
then the type needs a new version. Fields of a message that a schema does not name are allowed: newer releases add some.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from schemas.compatible import breaks
from schemas.envelope import registered_models

FOLDER: Final = Path(__file__).parent / "json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Change:
    """How a promised schema differs from the model's. `broken` is empty when readers and writers of the old one can go on."""

    type: str
    what: str
    broken: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people: one line, and one for each break."""
        return "\n".join((f"{self.type}: {self.what}", *(f"  {said}" for said in self.broken)))


class _Generator(GenerateJsonSchema):
    """Durations are written as seconds, so that is what the schema says."""

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        """A number of seconds."""
        del schema
        return {"type": "number"}


def schema_of(type_name: str) -> dict[str, Any]:
    """The schema of one CloudEvents type. KeyError when there is no such type."""
    made = registered_models()[type_name].model_json_schema(schema_generator=_Generator)
    return {"$schema": DIALECT, "$id": f"urn:relight:schema:{type_name}", **made}


def all_schemas() -> dict[str, dict[str, Any]]:
    """Schema by CloudEvents type."""
    return {name: schema_of(name) for name in sorted(registered_models())}


def promised(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """The copies, by CloudEvents type."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def changes(folder: Path = FOLDER) -> list[Change]:
    """How the copies differ from the models; empty when they are up to date."""
    before, now = promised(folder), all_schemas()
    found = [Change(name, "is new") for name in now if name not in before]
    for name, old in before.items():
        if name not in now:
            found.append(Change(name, "is gone", ("messages of this type can no longer be read",)))
        elif old != now[name]:
            found.append(Change(name, "has changed", tuple(breaks(old, now[name]))))
    return found


def export(folder: Path = FOLDER, *, even_if_broken: bool = False) -> list[Change]:
    """Bring the copies up to date, unless a change breaks somebody: then nothing is written. Returns the changes."""
    found = changes(folder)
    if any(change.broken for change in found) and not even_if_broken:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    now = all_schemas()
    for change in found:
        path = folder / f"{change.type}.json"
        if change.type in now:
            path.write_text(
                json.dumps(now[change.type], indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )
        else:
            path.unlink()
    return found
