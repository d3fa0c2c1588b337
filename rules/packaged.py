"""The default rulebook as it ships: read once from the files of this package."""

from __future__ import annotations

from functools import cache
from typing import Any

from rules.errors import RulebookError
from rules.loader import load_default


@cache
def default_content() -> dict[str, Any]:
    """Content of the packaged rulebook, not compiled yet. Not to be changed by who gets it."""
    loaded = load_default()
    if loaded.findings:
        raise RulebookError(loaded.findings)
    return loaded.content
