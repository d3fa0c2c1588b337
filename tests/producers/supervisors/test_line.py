"""What comes from a pod is hostile: lines that end the line, reports that are passed over, and words that are understood."""

import json
from datetime import UTC, datetime

import pytest

from producers.errors import LineBroken
from producers.supervisors import line as words
from schemas.cluster import Desired, ProcessOrder
from supervisor.orders import order_of


def raw(**fields: object) -> bytes:
    return json.dumps({"v": 1, "seq": 1, "pod": "p", "epoch": 1, "attempt": 0, "at": 1.0, **fields}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"hello"',
        b"\xff\xfe",
        b'{"v": 2, "type": "hello"}',
        b'{"v": 1}',
        b'{"v": 1, "type": 7}',
        b"[" * 60_000,
        b'{"v": 1, "type": "exit", "x": "' + b"a" * words.LONGEST_LINE + b'"}',
    ],
)
def test_what_is_no_line_of_this_version_ends_the_line(text: bytes) -> None:
    with pytest.raises(LineBroken):
        words.parse(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "exit"},
        {"type": "exit", "code": 256},
        {"type": "exit", "code": "1"},
        {"type": "exit", "code": 1, "signal": -9},
        {"type": "exit", "code": 1, "at": float("nan")},
        {"type": "exit", "code": 1, "attempt": 2**60},
        {"type": "milestone", "name": "world_peace"},
        {"type": "checkpoint", "step": -1},
        {"type": "checkpoint", "step": 1, "contents": ["everything"]},
        {"type": "precheck", "item": "", "result": "passed"},
        {"type": "a word of a newer release"},
    ],
)
def test_a_report_that_tells_nothing_known_is_passed_over_with_its_number(fields: dict[str, object]) -> None:
    found = words.parse(raw(**fields))

    assert isinstance(found, words.Unreadable)
    assert found.seq == 1


@pytest.mark.parametrize("seq", [0, -1, 2**60, "1", True, 1.0, None])
def test_a_number_that_is_none_is_not_acknowledged(seq: object) -> None:
    found = words.parse(raw(type="exit", code="x", seq=seq))

    assert isinstance(found, words.Unreadable)
    assert found.seq is None


def test_fields_of_a_newer_supervisor_are_passed_over() -> None:
    found = words.parse(raw(type="exit", code=3, mood="good", launch=2))

    assert isinstance(found, words.Exit)
    assert (found.code, found.launch, found.seq) == (3, 2, 1)


def test_an_order_is_what_the_supervisor_reads() -> None:
    until = datetime(2026, 3, 1, 12, tzinfo=UTC)
    order = Desired(
        epoch=2,
        attempt=3,
        state=ProcessOrder.STOP,
        until=until,
        otherwise="rerun",
        grace=5.0,
        counter="reset",
    )

    said = json.loads(words.desired("p-1", order))
    read = order_of(said, 0.0)

    assert said["pod"] == "p-1"
    assert (read.epoch, read.attempt, read.state) == (2, 3, "stop")  # type: ignore[union-attr]
    assert (read.until, read.otherwise, read.grace) == (until.timestamp(), "rerun", 5.0)  # type: ignore[union-attr]
    assert order_of(json.loads(words.extend("p-1", 7.0)), 1.0).until == 8.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("said", "is_open"),
    [
        ({}, None),
        ({"open": []}, ()),
        ({"open": ["export", "save", "save"]}, ("export", "save", "save")),
        ({"open": "yes"}, None),  # an older supervisor passes on what the process says
        ({"open": [7]}, None),
        ({"open": ["x"] * 17}, None),
        ({"open": {"a": 1}}, None),
    ],
)
def test_what_a_step_says_is_open_never_costs_the_step(
    said: dict[str, object], is_open: tuple[str, ...] | None
) -> None:
    found = words.parse(raw(type="progress", step=7, **said))

    assert isinstance(found, words.Step)
    assert (found.step, found.open) == (7, is_open)


@pytest.mark.parametrize("kind", ["progress", "refused"])
def test_what_is_said_once_has_no_number_of_the_spool_s(kind: str) -> None:
    found = words.parse(raw(type=kind, step="x", reason=7, seq=10**9))

    assert isinstance(found, words.Unreadable)
    assert found.seq is None


@pytest.mark.parametrize(
    ("said", "minutes", "step"),
    [
        ({}, 0.0, None),
        ({"hang_minutes": None, "progress": {"step": 7, "open": ["evaluation"], "silent": 1.5}}, None, 7),
        ({"hang_minutes": 45, "progress": {"step": 2**60}}, 45.0, None),
        ({"hang_minutes": -1, "progress": {"step": 7, "open": "evaluation"}}, 0.0, None),
        ({"hang_minutes": "45", "progress": {"step": 7, "open": ["x"] * 17}}, 0.0, None),
        ({"hang_minutes": float("inf"), "progress": [7]}, 0.0, None),
        ({"hang_minutes": [], "progress": None}, 0.0, None),
        ({"hang_minutes": 45, "progress": {"step": 7, "silent": -1, "mood": "good"}}, 45.0, None),
    ],
)
def test_what_the_process_chose_in_a_hello_never_costs_the_line(
    said: dict[str, object], minutes: float | None, step: int | None
) -> None:
    found = words.parse(raw(type="hello", spool="s", **said))

    assert isinstance(found, words.Hello)
    assert found.hang_minutes == minutes
    assert found.progress.step == step
