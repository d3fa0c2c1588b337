"""Writes the generated tables of docs/ladder.md anew: `python -m tests.recovery.write_ladder_page`."""

from __future__ import annotations

from tests.recovery.ladder_page import with_tables
from tests.recovery.test_ladder_rows_page import PAGE

if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
