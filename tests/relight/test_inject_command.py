"""`relight inject`: job in, job out, the difference shown, and what its exit codes say."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relight.commands.inject import command
from tests.actuators.test_injection_text import JOB, OTHER


def run(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(command, list(arguments), input=given)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(f"{OTHER}---\n{JOB}")
    return path


def test_the_manifest_goes_to_standard_output_and_what_was_done_to_standard_error(file: Path) -> None:
    result = run(str(file))

    assert result.exit_code == 0
    assert result.stdout.startswith(f"{OTHER}---\n")
    assert "relight.dev/injected" in result.stdout
    assert "Job train: injected into container main" in result.stderr
    assert "ConfigMap settings: untouched, because it is no Job" in result.stderr


def test_what_comes_out_goes_in_again_and_stays(file: Path) -> None:
    once = run(str(file)).stdout

    again = run("-", given=once)

    assert again.exit_code == 0
    assert again.stdout == once
    assert "untouched, because it is injected already" in again.stderr


def test_the_difference_is_shown_and_nothing_is_written(file: Path) -> None:
    before = file.read_text()

    result = run("--diff", str(file))

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("--- ")
    assert lines[1].startswith("+++ ")
    assert '-        command: ["python", "train.py"]' in lines
    assert file.read_text() == before


def test_with_a_file_to_write_to_both_are_done(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.yaml"

    result = run("--diff", "-o", str(out), str(file))

    assert result.stdout.startswith("--- ")
    assert "relight.dev/injected" in out.read_text()


def test_strict_says_that_a_job_was_left_and_still_writes(file: Path) -> None:
    assert run("--strict", str(file)).exit_code == 0

    result = run("--strict", "--pod-security", "restricted", str(file))

    assert result.exit_code == 3
    assert result.stdout == file.read_text()
    assert "forbids hostPath" in result.stderr


def test_the_image_is_the_operators_choice(file: Path) -> None:
    assert (
        "image: registry.example/relight@sha256:abc"
        in run("--image", "registry.example/relight@sha256:abc", str(file)).stdout
    )


@pytest.mark.parametrize("text", ["a: [", "{"])
def test_what_is_no_manifest_ends_with_one(text: str) -> None:
    result = run("-", given=text)

    assert result.exit_code == 1
    assert result.stdout == ""


def test_a_file_that_is_not_there_ends_with_one() -> None:
    assert run("no-such-file.yaml").exit_code == 1


def test_wrong_usage_ends_with_two() -> None:
    assert run("--pod-security", "some", "-").exit_code == 2
