"""Keeps the result of the long tests: ``--soak-report=FILE`` writes what ran, on what and for how long.

A test tells facts with pytest's `record_property` (rounds, states seen, events); they stand in its row.
"""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

SHORT_COMMIT = 12


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
    rows = [_row(report) for report in reports if report.when == "call" or report.failed]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join([*_head(), *rows]) + "\n", encoding="utf-8")


def _head() -> list[str]:
    now = datetime.now(UTC)
    ran_on = f"commit {_commit()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return [
        "# Last result of `make soak`",
        "",
        f"{now:%Y-%m-%d %H:%M} UTC, {ran_on}.",
        "",
        "| test | outcome | seconds | told |",
        "|---|---|---|---|",
    ]


def _row(report: pytest.TestReport) -> str:
    told = "; ".join(f"{name}: {value}" for name, value in report.user_properties)
    return f"| {report.nodeid} | {report.outcome} | {report.duration:.1f} | {told} |"


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:SHORT_COMMIT] or "unknown"
