"""`make soak` leaves what it found behind, failures included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LONG_TESTS = """
def test_holds(record_property):
    record_property("rounds", 50)

def test_breaks():
    raise AssertionError

def test_waits(broken):
    pass
"""


@pytest.mark.slow
def test_the_report_tells_outcome_and_facts_of_every_test(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(LONG_TESTS, encoding="utf-8")
    report = tmp_path / "docs" / "soak.md"
    command = [
        sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path),
        "-p", "no:cacheprovider", "-p", "tests.real.soak_report", f"--soak-report={report}", "test_inner.py",
    ]  # fmt: skip

    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=50)

    rows = [line for line in report.read_text(encoding="utf-8").splitlines() if "test_inner" in line]
    assert len(rows) == 3
    assert any("::test_holds | passed |" in row and "rounds: 50" in row for row in rows)
    assert any("::test_breaks | failed |" in row for row in rows)
    assert any("::test_waits | failed |" in row for row in rows)
