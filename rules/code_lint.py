"""Lint of code tables: no isolation without a way back, classes and healing that agree, formats that can be read.

Also the codes that conditions are pinned to: one that stands in no table is most likely mistyped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from rules.compiled import condition_of
from rules.errors import Finding, Severity, nearest
from rules.escalation import LEVELS
from rules.model import CodeRow, LadderClass, RulebookDocument
from rules.tables import TableRow, cell_path

RELEASES: Final = frozenset({"repair", "clear", "none"})
_BACK: Final = frozenset({"repair", "clear"})
_HEALS: Final = {LadderClass.SELF_HEAL_WAIT: "wait", LadderClass.SELF_HEAL_RESET: "reset"}
_CAN_ISOLATE: Final = frozenset({LadderClass.ISOLATE, LadderClass.DEFERRED, *_HEALS})
"""Self-heal classes too: the third time in a day isolates."""

_COMPANION: Final = re.compile(r"(?P<code>[^/\s]+)/(?P<seconds>\d+)s")
_ESCALATION: Final = re.compile(
    r"\d+/\d+s/(?P<level>\w+)|release/\d+s|lasting/\d+s/(?P<lasts>\w+)|recovered/\d+s"
)


def lint_codes(document: RulebookDocument) -> Iterator[Finding]:
    """Findings about rows, and about codes that rules name."""
    known = {row.code for row in document.codes}
    for position, row in enumerate(document.codes):
        yield from _lint_row(row, position, known)
    yield from _lint_pinned(document, known)


def expired(rows: Sequence[TableRow], today: date) -> Iterator[Finding]:
    """A warning for each row of a site that was to be looked at again by now. Rows stay in force."""
    for row in rows:
        until = row.cells.get("expires", "")
        if until and until < today.isoformat():
            message = f"the row for {row.key[1]} was to be looked at by {until}"
            right = "confirm it with a new date, or remove it"
            yield Finding("RL335", message, right, place=row.place("expires"), severity=Severity.WARNING)


def _lint_row(row: CodeRow, position: int, known: set[str]) -> Iterator[Finding]:
    if row.release not in RELEASES | {""}:
        yield _at(position, "release", "RL332", f"release is {row.release!r}", "write repair, clear or none")
    elif row.class_ in _CAN_ISOLATE and row.release not in _BACK:
        message = f"code {row.code} can isolate and has no way back"
        yield _at(
            position, "release", "RL330", message, "write repair, or clear where the state is seen to end"
        )
    healing = _HEALS.get(row.class_) if row.class_ is not None else None
    if healing is not None and row.heal != healing:
        message = f"class {row.class_} heals by {healing}, the row says {row.heal or 'nothing'}"
        yield _at(position, "heal", "RL331", message, f"write {healing}")
    if row.repeat not in {"", "never"}:
        yield _at(position, "repeat", "RL332", f"repeat is {row.repeat!r}", "write never, or leave it empty")
    yield from _lint_formats(row, position, known)


def _lint_formats(row: CodeRow, position: int, known: set[str]) -> Iterator[Finding]:
    companion = _COMPANION.fullmatch(row.companion_of)
    if row.companion_of and companion is None:
        message = f"companion_of is {row.companion_of!r}"
        yield _at(position, "companion_of", "RL332", message, "write CODE/SECONDSs, such as 80E01801/5s")
    elif companion is not None and companion["code"] not in known:
        message = f"companion_of names {companion['code']}, which stands in no table"
        yield _at(position, "companion_of", "RL333", message, _near(companion["code"], known))
    wrong = [part for part in row.escalation.split(";") if part and not _is_escalation(part)]
    if wrong:
        message = f"escalation holds {wrong[0]!r}"
        yield _at(
            position,
            "escalation",
            "RL332",
            message,
            f"write N/Ts/LEVEL, release/Ts, lasting/Ts/LEVEL or recovered/Ts; levels are {', '.join(LEVELS)}",
        )


def _is_escalation(part: str) -> bool:
    found = _ESCALATION.fullmatch(part)
    return found is not None and (found["level"] or found["lasts"] or "SeparateNPU") in LEVELS


def _lint_pinned(document: RulebookDocument, known: set[str]) -> Iterator[Finding]:
    for position, rule in enumerate(document.rules):
        condition = condition_of(rule)
        for code in sorted((condition.codes or frozenset()) - known):
            offset = condition.text.find(f'"{code}"')
            message = f"code {code!r} stands in no table"
            finding = Finding(
                "RL334",
                message,
                _near(code, known),
                ("rules", position, "when"),
                offset=max(0, offset),
                length=len(code) + 2,
                severity=Severity.WARNING,
            )
            yield finding


def _near(code: str, known: set[str]) -> str:
    near = nearest(code, known)
    return f"did you mean {near!r}?" if near else "add a row for it to a table of your own"


def _at(position: int, column: str, code: str, message: str, right: str) -> Finding:
    return Finding(code, message, right, cell_path(position, column))
