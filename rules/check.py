"""A rulebook checked: everything that is wrong with it at once, as far as each stage can be trusted.

Files first; what they say is compared with the models; then conditions are read; only a rulebook right so far is
looked at as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path as FilePath

from pydantic import ValidationError

from rules.code_lint import expired, lint_codes
from rules.compiled import (
    MAX_CONTENT_BYTES,
    CompiledRulebook,
    canonical,
    compile_document,
    condition_of,
    content_of,
)
from rules.errors import ConditionError, Finding, RulebookError, Severity
from rules.ladder_lint import lint_ladder
from rules.lint import kinds_that_do_not_exist, lint
from rules.loader import Loaded, load
from rules.model import Rule, RulebookDocument
from rules.shape import findings_of


@dataclass(frozen=True)
class Report:
    """What a check found. `document` and `compiled` are there when nothing is an error."""

    findings: tuple[Finding, ...]
    document: RulebookDocument | None = None
    compiled: CompiledRulebook | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that keep the rulebook from being released."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that were hardly meant."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)


def check(folders: Sequence[FilePath], *, names: Sequence[str] = (), today: date | None = None) -> Report:
    """Check a rulebook's folders, the base first. `today` is needed to tell which rows of a site have expired."""
    loaded = load(folders, names=names)
    if any(finding.code < "RL1" for finding in loaded.findings):
        return Report(_sorted(loaded.findings))
    findings = [*loaded.findings, *_shape(loaded), *_conditions(loaded)]
    if findings:
        return Report(_sorted([loaded.locate(finding) for finding in findings]))
    document = RulebookDocument.model_validate(loaded.content)
    found = list(chain(lint(document), lint_ladder(document), lint_codes(document)))
    found += expired(loaded.rows, today) if today is not None else ()
    found += _size(document)
    placed = _sorted([loaded.locate(finding) for finding in found])
    if any(finding.severity is Severity.ERROR for finding in placed):
        return Report(placed)
    return Report(placed, document, compile_document(document))


def released(report: Report) -> tuple[RulebookDocument, CompiledRulebook]:
    """The rulebook of a report without errors; RulebookError with its findings otherwise."""
    if report.document is None or report.compiled is None:
        raise RulebookError(report.findings)
    return report.document, report.compiled


def _shape(loaded: Loaded) -> list[Finding]:
    try:
        RulebookDocument.model_validate(loaded.content)
    except ValidationError as error:
        return findings_of(error, loaded.raw)
    return []


def _size(document: RulebookDocument) -> Iterator[Finding]:
    size = len(canonical(content_of(document)))
    if size > MAX_CONTENT_BYTES:
        message = f"the rulebook has {size:,} bytes and cannot be published"
        yield Finding(
            "RL336", message, f"at most {MAX_CONTENT_BYTES:,}; leave out rows of chips the site does not have"
        )


def _conditions(loaded: Loaded) -> Iterator[Finding]:
    """Conditions of the rules that are right in shape, even while others are not."""
    for position, content in enumerate(loaded.content["rules"]):
        try:
            rule = Rule.model_validate(content)
        except ValidationError:
            continue
        path = ("rules", position)
        wrong = list(kinds_that_do_not_exist(rule, path))
        yield from wrong
        if wrong:
            continue
        try:
            condition_of(rule)
        except ConditionError as error:
            yield error.finding((*path, "when"))


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """By place; what has none stands first."""

    def order(finding: Finding) -> tuple[str, int, int, str]:
        place = finding.place
        return (place.file, place.line, place.column, finding.code) if place else ("", 0, 0, finding.code)

    return tuple(sorted(dict.fromkeys(findings), key=order))
