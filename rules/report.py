"""Findings as people and programs read them: text with the source line and a caret, or JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rules.errors import Finding, format_path


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
        gap = "".join("\t" if character == "\t" else " " for character in place.source[: place.column - 1])
        lines.append(f"  {number} | {place.source}")
        lines.append(f"  {' ' * len(number)} | {gap}{'^' * place.length}")
    if finding.right:
        lines.append(f"  right would be: {finding.right}")
    return "\n".join(lines)


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
