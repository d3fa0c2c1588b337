"""Findings about the shape of a document: what pydantic says of the models, in words authors can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rules.errors import Finding, Path


def findings_of(error: ValidationError, content: Mapping[str, Any]) -> list[Finding]:
    """A finding for each thing pydantic refuses."""
    del content
    return [
        Finding("RL103", detail["msg"], path=_path(detail["loc"]))
        for detail in error.errors(include_url=False)
    ]


def _path(location: tuple[int | str, ...]) -> Path:
    return tuple(location)
