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


def run_and_read(folder: Path, *tests: str) -> list[str]:
    report = folder / "docs" / "soak.md"
    command = [
        sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder),
        "-p", "no:cacheprovider", "-p", "tests.real.soak_report", f"--soak-report={report}", *tests,
    ]  # fmt: skip
    subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=50)
    return [line for line in report.read_text(encoding="utf-8").splitlines() if "test_inner" in line]


@pytest.mark.slow
def test_the_report_tells_outcome_and_facts_of_every_test(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(LONG_TESTS, encoding="utf-8")

    rows = run_and_read(tmp_path, "test_inner.py")

    assert len(rows) == 3
    assert any("::test_holds | passed |" in row and "rounds: 50" in row for row in rows)
    assert any("::test_breaks | failed |" in row for row in rows)
    assert any("::test_waits | failed |" in row for row in rows)


@pytest.mark.slow
def test_what_did_not_run_this_time_keeps_its_row(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(LONG_TESTS, encoding="utf-8")
    before = run_and_read(tmp_path, "test_inner.py")
    (tmp_path / "test_inner.py").write_text("def test_breaks():\n    pass\n", encoding="utf-8")

    after = run_and_read(tmp_path, "test_inner.py")

    assert len(after) == 3
    assert "::test_breaks | passed |" in after[0]
    assert after[1:] == before[1:]
