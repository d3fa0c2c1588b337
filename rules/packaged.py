"""The default rulebook as it ships: read once from the files of this package."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

FOLDER: Final = Path(__file__).parent / "default"


@cache
def default_content() -> dict[str, Any]:
    """Content of the packaged rulebook, not compiled yet. Not to be changed by who gets it."""
    yaml = YAML(typ="safe")
    content: dict[str, Any] = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        content |= yaml.load(file.read_text(encoding="utf-8"))
    content["codes"] = [row for file in sorted(FOLDER.glob("tables/*.csv")) for row in _rows(file)]
    return content


def _rows(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [_row(row) for row in csv.DictReader(lines)]


def _row(row: dict[str, str]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: value for key, value in row.items() if key not in {"source", "version"}}
    kept["class"] = None if row["class"] in {"", "none"} else row["class"]
    kept["notify"] = row["notify"] == "yes"
    return kept
