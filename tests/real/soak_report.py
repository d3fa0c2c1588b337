"""Keeps the result of the long tests: ``--soak-report=FILE`` writes what ran, on what, when and for how long.

A test tells facts with pytest's `record_property` (rounds, states seen, events); they stand in its row. The long run may be made in
parts: rows of tests that did not run this time stay as they are, with the commit they were run on.
"""

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

SHORT_COMMIT: Final = 12
HEAD: Final = """# Last results of `make soak`

{cores} cores, Python {python}. Each row says when its test was last run, and on which commit.

| test | outcome | seconds | told | run |
|---|---|---|---|---|"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--soak-report``."""
    parser.addoption(
        "--soak-report", metavar="FILE", type=Path, help="write the result of the run as Markdown"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the report when it was asked for."""
    target: Path | None = config.getoption("--soak-report")
    if target is None:
        return
    reports = [
        report for kind in ("passed", "failed", "error") for report in terminalreporter.getreports(kind)
    ]
    run = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {_commit()}"
    rows = {r.nodeid: _row(r, run) for r in reports if r.when == "call" or r.failed}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_page(_kept(target) | rows), encoding="utf-8")


def _kept(target: Path) -> dict[str, str]:
    """Rows of an earlier report, by test; those of files that are gone are gone too."""
    if not target.exists():
        return {}
    lines = target.read_text(encoding="utf-8").splitlines()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines if "::" in line}
    return {test: row for test, row in rows.items() if Path(test.partition("::")[0]).exists()}


def _page(rows: Mapping[str, str]) -> str:
    head = HEAD.format(cores=os.cpu_count(), python=platform.python_version())
    return "\n".join([head, *(rows[test] for test in sorted(rows))]) + "\n"


def _row(report: pytest.TestReport, run: str) -> str:
    told = "; ".join(f"{name}: {value}" for name, value in report.user_properties)
    return f"| {report.nodeid} | {report.outcome} | {report.duration:.1f} | {told} | {run} |"


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:SHORT_COMMIT] or "unknown"
