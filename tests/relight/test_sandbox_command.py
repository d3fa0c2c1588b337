"""`relight sandbox kafka` empties only what is its own; commands without a broker say at once which address they tried."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from relight.cli import main
from relight.commands.sandbox import claim, empty

ASK_THE_BROKER = (
    "topics create",
    "topics check",
    "topics tail decisions.v1 --for 1",
    "rules release --by me",
    "pause run/00000000-0000-4000-8000-000000000001 --reason x",
    "publish --source /x chip-fault --node n --chip c --namespace xid --code 79",
)


def test_a_folder_with_somebody_s_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("years of work")

    result = CliRunner().invoke(main, ["sandbox", "kafka", str(tmp_path)])

    assert result.exit_code == 2
    assert "is not empty" in result.output
    assert (tmp_path / "data" / "thesis.txt").read_text() == "years of work"


def test_a_new_folder_and_one_that_was_the_sandbox_s_are_taken(tmp_path: Path) -> None:
    claim(tmp_path / "new")
    (tmp_path / "new" / "server.log").touch()

    claim(tmp_path / "new")

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    with pytest.raises(click.UsageError):
        claim(tmp_path / "other")


@pytest.mark.slow
def test_a_folder_a_sandbox_runs_in_is_refused_until_it_has_ended(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from relight.commands.sandbox import claim; claim(Path(sys.argv[1]))"
    other = subprocess.Popen(
        [sys.executable, "-c", f"{program}; print('claimed', flush=True); sys.stdin.read()", str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"claimed\n"
        with pytest.raises(click.UsageError, match="a sandbox runs in"):
            claim(tmp_path)
        other.kill()
    claim(tmp_path)


def test_what_an_earlier_world_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    world = tmp_path / "world"
    claim(world)
    (world / "stage").mkdir()
    (world / "env").touch()
    (world / "link").symlink_to(elsewhere)

    empty(world)
    claim(world)  # still known as the sandbox's own

    assert [left.name for left in world.iterdir()] == [".relight-sandbox"]
    assert (elsewhere / "kept").exists()


def test_an_act_nobody_knows_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(main, ["sandbox", "demo", "--act", "tragedy"])

    assert result.exit_code == 2
    assert "right would be heals, third, exit" in result.output


def test_a_fault_without_a_world_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELIGHT_SANDBOX", raising=False)

    result = CliRunner().invoke(main, ["sandbox", "fault", "chip", "node-2"])

    assert result.exit_code == 2
    assert ". FOLDER/env" in result.output
    assert "--world FOLDER" in result.output


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_without_a_broker_the_address_that_was_tried_is_named_soon() -> None:
    """All commands at once: each is patient with the broker for ten seconds."""
    environment = {**os.environ, "RELIGHT_KAFKA__BOOTSTRAP": "127.0.0.1:1", "RELIGHT_CLUSTER": "lab"}
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for command in ASK_THE_BROKER:
            words = [sys.executable, "-m", "relight.cli", *shlex.split(command)]
            running[command] = subprocess.Popen(
                words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        # Ten seconds, and what it takes on a busy machine to start so many.
        said = {command: process.communicate(timeout=60)[0] for command, process in running.items()}
    finally:
        for process in running.values():
            with process:
                process.kill()

    for command, output in said.items():
        assert running[command].returncode not in {0, -signal.SIGKILL}, command
        assert "127.0.0.1:1" in output, (command, output)
        assert "RELIGHT_KAFKA__BOOTSTRAP" in output, (command, output)
        assert "Traceback" not in output, (command, output)
