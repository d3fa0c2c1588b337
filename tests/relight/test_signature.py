"""`--by` and `--reason`: a release or an order has a name under it, an order a reason, in every command that asks for one."""

from __future__ import annotations

import getpass

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from relight.cli import main
from relight.signature import LONGEST_NAME, LONGEST_REASON, by_option
from schemas.mailbox import PauseOrder, RulebookSwitch
from schemas.records import RulebookRelease

RUN = "run/00000000-0000-4000-8000-000000000001"
SIGNED = {
    "pause": ("pause", RUN, "--reason", "x"),
    "resume": ("resume", RUN, "--reason", "x"),
    "cancel": ("cancel", RUN, "--reason", "x"),
    "release": ("release", "node-0", "--reason", "x"),
    "rules release": ("rules", "release", "--cluster", "c1", "--bootstrap", "127.0.0.1:1", "--dry-run"),
}


@click.command()
@by_option("Who.")
def sign(by: str) -> None:
    click.echo(f"<{by}>")


@pytest.mark.parametrize("command", SIGNED)
@pytest.mark.parametrize("nobody", ["", "  "])
def test_an_empty_name_is_refused_before_anything_is_done(command: str, nobody: str) -> None:
    result = CliRunner().invoke(main, [*SIGNED[command], "--by", nobody])

    assert result.exit_code == 2
    assert "'--by': is empty, and the record keeps it: give a name" in result.output


@pytest.mark.parametrize("command", SIGNED)
def test_a_name_longer_than_the_record_keeps_is_refused_before_anything_is_done(command: str) -> None:
    result = CliRunner().invoke(main, [*SIGNED[command], "--by", "x" * (LONGEST_NAME + 1)])

    assert result.exit_code == 2
    assert "'--by': has 201 characters, and the record keeps 200" in result.output


@pytest.mark.parametrize(("reason", "says"), [(" ", "is empty"), ("x" * 2001, "has 2,001 characters")])
@pytest.mark.parametrize("command", ["pause", "resume", "cancel", "release"])
def test_a_reason_that_is_none_or_a_novel_is_refused_before_anything_is_done(
    command: str, reason: str, says: str
) -> None:
    result = CliRunner().invoke(main, [*SIGNED[command], "--by", "sre", "--reason", reason])

    assert result.exit_code == 2
    assert f"'--reason': {says}" in result.output


@pytest.mark.parametrize(
    ("model", "field", "longest"),
    [
        (PauseOrder, "by", LONGEST_NAME),
        (PauseOrder, "reason", LONGEST_REASON),
        (RulebookRelease, "released_by", LONGEST_NAME),
        (RulebookSwitch, "released_by", LONGEST_NAME),
    ],
)
def test_what_is_taken_here_is_what_the_record_takes(
    model: type[BaseModel], field: str, longest: int
) -> None:
    assert [bound.max_length for bound in model.model_fields[field].metadata] == [longest]


def test_commands_that_ask_who_it_is_are_those_above() -> None:
    """`publish preemption-notice` apart: there it is one of three kinds, and empty is none of them."""
    asking = set()
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        inner = command.commands.items() if isinstance(command, click.Group) else ()
        for path, one in [(name, command), *((f"{name} {word}", found) for word, found in inner)]:
            asking |= {path for option in one.params if "--by" in option.opts}

    assert asking - {"publish preemption-notice"} == set(SIGNED)


def test_a_name_is_taken_and_without_one_it_is_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")

    assert CliRunner().invoke(sign, ["--by", " sre "]).output == "<sre>\n"
    assert CliRunner().invoke(sign, []).output == "<ada>\n"


def test_who_has_no_login_is_asked_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nobody)

    result = CliRunner().invoke(sign, [])

    assert result.exit_code == 2
    assert "give a name" in result.output
