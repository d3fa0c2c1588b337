"""`relight rules`: what it prints and how it ends, without a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relight.cli import main
from rules.compiled import default_rulebook

WARNED = (
    "strategies:\n  - id: hang_restart\n    override: merge\n    enabled: false\n    disabled_because: ''\n"
)
BROKEN = "rules:\n  - id: hang\n    override: merge\n    when: run.haa\n"


def relight(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(main, ["rules", *map(str, arguments)])


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, text: str) -> Path:
    (folder / "site.yaml").write_text(text, encoding="utf-8")
    return folder


def test_the_default_rulebook_checks_clean() -> None:
    result = relight("check", "--strict")

    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == f"0 errors, 0 warnings; {len(default_rulebook().rules)} rules\n"


def test_an_error_is_shown_with_its_line_and_ends_with_1(site: Path) -> None:
    result = relight("check", write(site, BROKEN))

    assert result.exit_code == 1
    assert result.stderr == "1 error, 0 warnings\n"
    assert result.stdout.splitlines() == [
        f"{site}/site.yaml:4:15: error RL206 'run' has no 'haa'",
        "  4 |     when: run.haa",
        "    |               ^^^",
        "  did you mean 'ha'?",
    ]


def test_a_warning_ends_with_0_and_with_3_under_strict(site: Path) -> None:
    write(site, WARNED)

    assert relight("check", site).exit_code == 0
    assert relight("check", "--strict", site).exit_code == 3


def test_an_error_beats_strict(site: Path) -> None:
    assert relight("check", "--strict", write(site, BROKEN)).exit_code == 1


def test_wrong_usage_ends_with_2(site: Path) -> None:
    assert relight("check", site / "nowhere").exit_code == 2
    assert relight("check", "--without-default").exit_code == 2
    assert relight("check", "--format", "xml").exit_code == 2


def test_json_is_data_alone(site: Path) -> None:
    result = relight("check", "--format", "json", write(site, BROKEN))

    assert result.exit_code == 1
    (entry,) = json.loads(result.stdout)
    assert (entry["code"], entry["line"], entry["column"], entry["length"]) == ("RL206", 4, 15, 3)
    assert json.loads(relight("check", "--format", "json").stdout) == []


def test_a_base_of_ones_own_stands_without_the_default(site: Path) -> None:
    result = relight("check", "--without-default", write(site, "rules: []\nstrategies: []\n"))

    assert result.exit_code == 1
    assert "RL102 settings lacks the key 'attribution_window'" in result.stdout


def test_show_prints_the_effective_rulebook(site: Path) -> None:
    write(site, "settings:\n  hang_in_a_row: 7\n")

    shown = relight("show", site)

    assert shown.exit_code == 0
    assert "  hang_in_a_row: 7\n" in shown.stdout
    changed = set(shown.stdout.splitlines()) ^ set(relight("show").stdout.splitlines())
    assert changed == {"  hang_in_a_row: 7", "  hang_in_a_row: 3"}


@pytest.mark.slow
def test_show_tells_what_a_folder_changes(site: Path) -> None:
    write(site, "settings:\n  hang_in_a_row: 7\n")

    assert relight("show", "--changes", site).stdout == "~ setting hang_in_a_row: 3 -> 7\n"
    assert relight("show", "--changes").stdout == ""


def test_nothing_is_shown_of_a_broken_rulebook(site: Path) -> None:
    result = relight("show", write(site, BROKEN))

    assert result.exit_code == 1
    assert "RL206" in result.stdout
    assert "settings:" not in result.stdout


def test_the_schema_is_printed_as_json() -> None:
    assert json.loads(relight("schema").stdout)["title"] == "relight rulebook"


def test_a_broken_rulebook_is_not_released_and_no_broker_is_asked(site: Path) -> None:
    result = relight(
        "release", write(site, BROKEN), "--cluster", "c1", "--by", "me", "--bootstrap", "127.0.0.1:1"
    )

    assert result.exit_code == 1
    assert "RL206" in result.stdout


def test_a_rulebook_with_warnings_is_not_released_under_strict(site: Path) -> None:
    result = relight(
        "release",
        "--strict",
        write(site, WARNED),
        "--cluster",
        "c1",
        "--by",
        "me",
        "--bootstrap",
        "127.0.0.1:1",
    )

    assert result.exit_code == 3


def test_a_release_needs_to_know_its_cluster() -> None:
    result = relight("release", "--by", "me", "--bootstrap", "127.0.0.1:1")

    assert result.exit_code == 2
    assert "give --cluster or set RELIGHT_CLUSTER" in result.stderr
