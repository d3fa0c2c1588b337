"""Findings as people and programs read them: text with the source line and a caret, or JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rules.errors import Finding, format_path

_WIDTH: Final = 120


def as_text(findings: Iterable[Finding]) -> str:
    """Each finding as `file:line:column: severity code message`, its line, a caret, and what would be right."""
    return "\n\n".join(_text(finding) for finding in findings)


def as_data(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as JSON values; keys never change their meaning."""
    return [_data(finding) for finding in findings]


def _text(finding: Finding) -> str:
    place = finding.place
    where = f"{place}: " if place else f"{format_path(finding.path)}: " if finding.path else ""
    lines = [f"{where}{finding.severity} {finding.code} {finding.message}"]
    if place is not None and place.source:
        number = str(place.line)
        source, column = _window(place.source, place.column)
        gap = "".join("\t" if character == "\t" else " " for character in source[: column - 1])
        carets = "^" * max(1, min(place.length, len(source) - column + 1))
        lines.append(f"  {number} | {source}")
        lines.append(f"  {' ' * len(number)} | {gap}{carets}")
    if finding.right:
        lines.append(f"  {finding.right}")
    return "\n".join(lines)


def _window(source: str, column: int) -> tuple[str, int]:
    """The part of a long line around a column, and the column in it."""
    if len(source) <= _WIDTH:
        return source, column
    start = max(0, min(column - 1 - _WIDTH // 3, len(source) - _WIDTH))
    return source[start : start + _WIDTH], column - start


def _data(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        "right": finding.right or None,
        "path": format_path(finding.path) or None,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "length": place.length if place else None,
        "source": place.source if place else None,
    }
