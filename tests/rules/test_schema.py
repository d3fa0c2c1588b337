"""The schema for editors: takes what the loader takes, refuses what it refuses in shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from ruamel.yaml import YAML

from rules.loader import DEFAULT
from rules.schema import rulebook_schema

EXAMPLES: Final = Path(__file__).parent / "examples"
VALIDATOR: Final = jsonschema.Draft202012Validator(rulebook_schema())
SHAPE: Final = {"RL101", "RL102", "RL103", "RL007", "RL008", "RL106"}
BEYOND: Final = {"056-id-twice.yaml"}
"""Its second entry lacks keys besides, which the check does not look at."""


def load(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def expected(path: Path) -> set[str]:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return {told.split()[0] for told in first.removeprefix("# expect: ").split(", ")}


def examples(*, of_shape: bool) -> list[Path]:
    """Examples of faults that a schema can see, or of faults it cannot: meaning, and what stands in other files."""
    files = [path for path in sorted(EXAMPLES.glob("*.yaml")) if path.name not in BEYOND]
    if of_shape:
        return [path for path in files if expected(path) <= SHAPE]
    return [path for path in files if min(expected(path)) >= "RL2"]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(rulebook_schema())
    assert json.loads(json.dumps(rulebook_schema()))["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize("path", sorted(DEFAULT.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_default_files_fit_the_schema(path: Path) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(load(path))] == []


@pytest.mark.parametrize("path", examples(of_shape=True), ids=lambda path: path.stem)
def test_what_is_wrong_in_shape_is_seen_by_editors(path: Path) -> None:
    assert not VALIDATOR.is_valid(load(path))


@pytest.mark.parametrize("path", examples(of_shape=False), ids=lambda path: path.stem)
def test_what_is_right_in_shape_is_left_alone_by_editors(path: Path) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(load(path))] == []


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "hang", "override": "remove"},
        {"id": "hang", "override": "merge", "notify": True, "before": "merge"},
    ],
)
def test_an_override_needs_only_what_it_changes(entry: dict[str, object]) -> None:
    assert VALIDATOR.is_valid({"rules": [entry]})
    assert not VALIDATOR.is_valid({"rules": [{**entry, "override": "append"}]})
    assert not VALIDATOR.is_valid({"strategies": [{**entry, "before": "merge"}]})


def test_keys_are_described_for_hover() -> None:
    rule = rulebook_schema()["$defs"]["Rule"]["properties"]

    assert rule["then"]["description"].startswith("Verbs or strategies in order")
