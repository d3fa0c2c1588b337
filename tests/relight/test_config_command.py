"""`relight config`: every setting has a meaning, secrets stay secret, the source is told."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from relight.cli import main
from relight.commands.config import PROCESSES, _kind
from relight.settings_shown import shown

REQUIRED = {"RELIGHT_CLUSTER": "lab", "RELIGHT_NODE__NAME": "n", "RELIGHT_NODE__UID": "u"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REQUIRED.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("process", PROCESSES)
def test_every_setting_says_what_it_means(process: str) -> None:
    silent = [setting.variable for setting in shown(_kind(process)()) if not setting.meaning]

    assert not silent


@pytest.mark.parametrize("process", PROCESSES)
def test_the_settings_of_every_process_are_shown(process: str) -> None:
    result = CliRunner().invoke(main, ["config", process])

    assert result.exit_code == 0, result.output
    assert "RELIGHT_KAFKA__BOOTSTRAP" in result.output.replace("\n", "")


def test_what_the_environment_sets_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_BATCH__ROWS", "77")

    result = CliRunner().invoke(main, ["config", "audit", "--changed", "-o", "json"])

    rows = {
        row["setting"]: (row["value"], row["source"]) for row in map(json.loads, result.output.splitlines())
    }
    assert rows["RELIGHT_BATCH__ROWS"] == ("77", "environment")
    assert "RELIGHT_BATCH__WAIT" not in rows


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_STORE__WRITER__PASSWORD", "hunter2")
    monkeypatch.setenv("RELIGHT_KAFKA__CLIENT", '{"sasl.password": "hunter2", "sasl.username": "me"}')

    result = CliRunner().invoke(main, ["config", "audit", "-o", "json"])

    assert result.exit_code == 0, result.output
    assert "hunter2" not in result.output
    assert "(secret)" in result.output


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_BATCH__ROWS", "none")

    result = CliRunner().invoke(main, ["config", "audit"])

    assert result.exit_code == 1
    assert "RELIGHT_BATCH__ROWS" in result.output
