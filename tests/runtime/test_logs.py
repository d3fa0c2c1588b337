"""Logs are JSON, one object a line, ours and the libraries' alike, and hostile text cannot break out of its field."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from runtime import logs


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = io.StringIO()
    logs.configure("INFO", stream=stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_line_is_an_object_with_time_level_and_logger(written: io.StringIO) -> None:
    logs.get("streams.x").info("happened", number=3)

    (line,) = lines(written)
    assert (line["event"], line["number"], line["level"], line["logger"]) == (
        "happened",
        3,
        "info",
        "streams.x",
    )
    assert line["timestamp"].endswith("Z")


def test_text_of_others_stays_in_its_field(written: io.StringIO) -> None:
    logs.get("x").info("read", text='\n{"event": "forged"}\x1b[31m')

    (line,) = lines(written)
    assert line["text"] == '\n{"event": "forged"}\x1b[31m'
    assert "\x1b" not in written.getvalue()


def test_libraries_write_the_same_way_and_only_what_matters(written: io.StringIO) -> None:
    logging.getLogger("aiokafka.consumer").info("chatter")
    logging.getLogger("aiokafka.consumer").error("trouble with %s", "it")

    assert [(line["event"], line["logger"]) for line in lines(written)] == [
        ("trouble with it", "aiokafka.consumer")
    ]


def test_what_is_below_the_level_is_not_written(written: io.StringIO) -> None:
    logs.get("x").debug("detail")

    assert lines(written) == []


def test_an_exception_stands_in_its_line(written: io.StringIO) -> None:
    try:
        int("why")
    except ValueError:
        logs.get("x").exception("failed")

    (line,) = lines(written)
    assert "ValueError: invalid literal" in line["exception"]
