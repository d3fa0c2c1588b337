"""docs/kubernetes.md names a test for what it says: each of them is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "kubernetes.md"
NAMED = re.compile(r"`(?P<file>[a-z_/]+\.py)`|`(?P<test>test_[a-z0-9_]+)`")


def named() -> Iterator[tuple[str, str]]:
    """Each test the page names, with the file named last before it."""
    file = ""
    for match in NAMED.finditer(PAGE.read_text(encoding="utf-8")):
        file = match["file"] or file
        if match["test"]:
            yield file, match["test"]


@pytest.mark.parametrize(("file", "test"), sorted(set(named())))
def test_a_test_the_page_names_exists(file: str, test: str) -> None:
    assert re.search(rf"^ *def {test}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_a_row_that_names_no_test_says_so() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    told = [row for row in rows if not row.startswith("| happening")]
    assert len(told) > 30
    assert [
        row[:60] for row in told if "`test_" not in row and ".py`" not in row and "no test" not in row
    ] == []
