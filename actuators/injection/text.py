"""Manifests as text: YAML with several documents, or JSON. What is not injected keeps its bytes; what is keeps its comments and its style.

Documents are cut at their markers and only those that change are written anew, so that a diff shows the injection and nothing else.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import SingleQuotedScalarString
from ruamel.yaml.util import load_yaml_guess_indent

from actuators.injection.inject import Injection
from runtime.kubernetes import Object

_MARKER: Final = re.compile(r"^(?:---(?:[ \t].*)?|\.\.\.[ \t]*)\r?$\n?", re.MULTILINE)
_NO_TEXT: Final = re.compile(r"^(?:y|n|yes|no|on|off|true|false|null|~|[-+.]?[0-9].*)?$", re.IGNORECASE)
"""What YAML 1.1 may read as a truth value, a number, a date or nothing."""
_WIDE: Final = 1_000_000
"""No line of a manifest is folded."""

Change = Callable[[Object], Injection]


class ManifestError(ValueError):
    """The text is no YAML and no JSON; the message says where."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one object."""

    name: str
    injection: Injection


@dataclass(frozen=True, slots=True)
class Changed:
    """The text as it is to be, and what became of each object in it."""

    text: str
    reports: tuple[Report, ...]


def change_text(text: str, change: Change) -> Changed:
    """Apply a change to every object in a text. Raises ManifestError."""
    if text.lstrip().startswith("{"):
        return _change_json(text, change)
    reports: list[Report] = []
    pieces: list[str] = []
    at = 0
    for marker in [*_MARKER.finditer(text), None]:
        end = len(text) if marker is None else marker.start()
        pieces.append(_change_document(text[at:end], change, reports))
        if marker is not None:
            pieces.append(marker.group())
            at = marker.end()
    return Changed("".join(pieces), tuple(reports))


def _change_json(text: str, change: Change) -> Changed:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ManifestError(f"no JSON: {error}") from None
    reports: list[Report] = []
    new, changed = _apply(found, change, reports)
    if not changed:
        return Changed(text, tuple(reports))
    indent = re.search(r"\n([ \t]+)\"", text)
    made = json.dumps(new, indent=indent.group(1) if indent else None, ensure_ascii=False)
    return Changed(made + ("\n" if text.endswith("\n") else ""), tuple(reports))


def _change_document(text: str, change: Change, reports: list[Report]) -> str:
    yaml = _writer(text)
    try:
        found = yaml.load(text)
    except (YAMLError, ValueError) as error:
        raise ManifestError(f"no YAML: {error}") from None
    if not isinstance(found, dict):
        return text
    new, changed = _apply(found, change, reports)
    if not changed:
        return text
    out = io.StringIO()
    yaml.dump(_quoted(new), out)
    return out.getvalue()


def _apply(found: Any, change: Change, reports: list[Report]) -> tuple[Any, bool]:  # noqa: ANN401 - whatever stood there
    """One object, or a List of them."""
    if found.get("kind") == "List" and isinstance(found.get("items"), list):
        results = [
            _apply(item, change, reports) if isinstance(item, dict) else (item, False)
            for item in found["items"]
        ]
        for index, (new, _) in enumerate(results):
            found["items"][index] = new
        return found, any(changed for _, changed in results)
    injection = change(found)
    metadata = found.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
    reports.append(Report(f"{found.get('kind', 'object')} {name or '(no name)'}", injection))
    return injection.manifest, injection.untouched is None


def _quoted(item: Any) -> Any:  # noqa: ANN401 - any piece of a manifest
    """Quote what we put in and YAML 1.1, which Kubernetes reads, would take for no text. What stood there keeps its style."""
    if isinstance(item, dict):
        for key, value in item.items():
            item[key] = _plain_quoted(value) if type(item) is dict else _quoted(value)
    elif isinstance(item, list):
        for index, value in enumerate(item):
            item[index] = _plain_quoted(value) if type(item) is list else _quoted(value)
    return item


def _plain_quoted(value: Any) -> Any:  # noqa: ANN401 - any piece of a manifest
    if type(value) is str and _NO_TEXT.match(value):
        return SingleQuotedScalarString(value)
    return _quoted(value)


def _writer(text: str) -> YAML:
    try:
        _, indent, offset = load_yaml_guess_indent(text)
    except (YAMLError, ValueError) as error:
        raise ManifestError(f"no YAML: {error}") from None
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDE
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment] # its own stub says None
    mapping = 2
    sequence = indent if indent is not None else 2
    yaml.indent(mapping=mapping, sequence=sequence, offset=offset or 0)
    return yaml
