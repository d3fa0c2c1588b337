"""The front hands an insert's data to the engine as it came, whatever bytes it begins with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sandbox.clickhouse_front import Front


class Engine:
    """Keeps what stands in the file of an insert."""

    def __init__(self) -> None:
        self.data = b""

    def run(self, statement: str, form: str, parameters: Mapping[str, str]) -> Any:
        """The file is there as long as the statement runs."""
        del form, parameters
        (file,) = re.findall(r"file\('([^']+)'", statement)
        self.data = Path(file).read_bytes()
        return self

    def bytes(self) -> bytes:
        return b""

    def rows_read(self) -> int:
        return 0

    bytes_read = rows_written = bytes_written = rows_read


@pytest.mark.parametrize(
    "data",
    [
        b"\x1d\n rest",  # a block of 29 columns and 10 rows: both are white space to a regular expression
        b"\n\x1d rest",
        b" \t\n rest",
        b"\x1a\x02 rest",
        b"; rest",
    ],
)
def test_data_behind_the_statement_s_line_is_kept_whole(data: bytes) -> None:
    engine = Engine()

    front = Front(engine, {"writer": ""})  # type: ignore[arg-type]
    answer = front.answer({}, b"INSERT INTO relight.facts (a, b) FORMAT Native\n" + data, "writer", "")

    assert answer.status == 200, answer.body
    assert engine.data == data
