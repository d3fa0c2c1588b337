"""docker-compose.yml as an engine would read it: extensions merged, variables filled in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
Service = dict[str, Any]

COMPOSE: dict[str, Any] = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Service] = COMPOSE["services"]
OURS = {
    name: service for name, service in SERVICES.items() if service.get("image", "").startswith("relight:")
}

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def filled(value: str, given: Mapping[str, str] | None = None) -> str:
    """A value with its variables, as set in `.env`, else by their defaults."""
    return _VARIABLE.sub(lambda match: (given or {}).get(match[1], match[2] or ""), value)


def environment_of(service: Service) -> dict[str, str]:
    """What its container is given."""
    return {name: filled(value) for name, value in service.get("environment", {}).items()}


def commands_of(service: Service) -> list[list[str]]:
    """Words behind `relight` of each command it runs."""
    if "entrypoint" not in service:
        return [list(service["command"])]
    return [shlex.split(part)[1:] for part in service["command"][0].split("&&")]


def argv_of(service: Service) -> list[str]:
    """What its container executes."""
    return [*service.get("entrypoint", ["relight"]), *service["command"]]
