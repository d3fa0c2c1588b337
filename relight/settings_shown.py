"""Every effective setting with where it comes from and what it means, read from the models themselves: one source, nothing repeated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel, SecretStr

HIDDEN: Final = "(secret)"


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting."""

    variable: str
    value: str
    source: str
    """`default` or `environment`."""
    meaning: str


def shown(
    settings: BaseModel, environment: Mapping[str, str] | None = None, prefix: str = "RELIGHT_"
) -> Iterator[Shown]:
    """Settings of a model, groups walked through, by the names of their variables."""
    given = {name.upper() for name in (os.environ if environment is None else environment)}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        variable = f"{prefix}{name}".upper()
        if isinstance(value, BaseModel):
            yield from shown(value, environment, f"{variable}__")
            continue
        inside = any(known.startswith(f"{variable}__") for known in given)
        source = "environment" if variable in given or inside else "default"
        yield Shown(variable, _text(value), source, " ".join((field.description or "").split()))


def _text(value: Any) -> str:  # noqa: ANN401 - whatever a setting holds
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else "(empty)"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if value is None:
        return "(unset)"
    if isinstance(value, Mapping):
        secret = ("password", "secret", "token", "key")
        kept = {k: HIDDEN if any(word in str(k).lower() for word in secret) else v for k, v in value.items()}
        return str(kept)
    if isinstance(value, (set, frozenset)):
        return ", ".join(sorted(map(str, value)))
    return str(getattr(value, "value", value))
