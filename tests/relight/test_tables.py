"""What reading commands print: nothing that a terminal obeys, nothing that JSON does not know."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from relight.tables import picked, plain, show

HOSTILE = "ok\x1b[2J\x1b]0;owned\x07\u202egnp.exe\nnext\tcell"


def test_text_of_others_cannot_move_the_cursor_or_turn_the_reading_round() -> None:
    shown = plain(HOSTILE)

    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "\n" not in shown
    assert "ok" in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        (1234.5, "1,234.5"),
        (0.0, "0"),
        ([1, None], "1, -"),
        (datetime(2026, 3, 1, 12, tzinfo=UTC), "2026-03-01 12:00:00.000Z"),
    ],
)
def test_values_are_as_people_read_them(value: object, shown: str) -> None:
    assert plain(value) == shown


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b]8;;http://evil.example\x1b\\\\click\x1b]8;;\x1b\\\\",  # a link of a terminal
        "\x9b31mred",  # the C1 form of an escape sequence
        "\u202egnp.exe",
        "\u2067left\u2069",
        "\u200b\ufeffnothing",
        "\u2028line\u2029paragraph",
        "a\rb\bc",
        "\ud800",
    ],
)
def test_nothing_a_terminal_obeys_gets_through(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    show([hostile], [[hostile]], "table", title="t")

    out = capsys.readouterr().out
    assert not [letter for letter in hostile if letter in out and (letter < " " or letter > "\x7f")]


def test_markup_in_a_value_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    show(["what"], [["[red]x[/red]"]], "table")

    assert "[red]x[/red]" in capsys.readouterr().out


def test_json_is_one_object_a_row_and_escapes_what_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(["a", "b", "c"], [[HOSTILE, float("nan"), [datetime(2026, 3, 1, tzinfo=UTC)]]], "json")

    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert json.loads(out) == {"a": HOSTILE, "b": None, "c": ["2026-03-01T00:00:00Z"]}


def test_an_empty_table_says_so_and_empty_json_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show(["a"], [], "table")
    show(["a"], [], "json")

    assert capsys.readouterr().out == "nothing found\n"


def test_ids_are_shortened_in_a_table_and_whole_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    whole = "4f1c2a09" + "b" * 24

    show(["id", "text"], [[whole, whole]], "table", ids=("id",))
    shown = capsys.readouterr().out
    show(["id", "text"], [[whole, whole]], "json", ids=("id",))

    assert shown.count(whole) == 1
    assert shown.count(whole[:8]) == 2
    assert "ids are shortened" in shown
    assert json.loads(capsys.readouterr().out) == {"id": whole, "text": whole}


def test_what_was_not_shortened_says_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    show(["id"], [["short"], [None]], "table", ids=("id",))

    assert "shortened" not in capsys.readouterr().out


def test_picked_columns_come_in_the_wanted_order_with_times_to_the_second() -> None:
    at = datetime(2026, 3, 1, 12, 0, 5, 678_000, tzinfo=UTC)

    assert picked(["a", "b", "at"], [[1, 2, at]], ("at", "a")) == (("at", "a"), [["2026-03-01 12:00:05Z", 1]])


def test_an_answer_without_rows_names_no_columns_and_nothing_is_picked_of_it() -> None:
    assert picked([], [], ["incident", "state"]) == (["incident", "state"], [])
