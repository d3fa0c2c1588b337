"""Fetching Kafka's jars: once a machine, whole or not at all. Maven is a script here; `make real` uses the real one."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox import kafka_jars
from sandbox.errors import PartMissing

MAVEN_THAT_WORKS = """#!/bin/sh
echo run >> "$MAVEN_RUNS"
for argument in "$@"; do
    case "$argument" in -DoutputDirectory=*) mkdir -p "${argument#*=}" && touch "${argument#*=}/kafka.jar" ;; esac
done
"""
MAVEN_THAT_FAILS = """#!/bin/sh
echo run >> "$MAVEN_RUNS"
echo 'no such artifact'
exit 1
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MAVEN_RUNS", str(tmp_path / "runs"))
    return tmp_path / "cache" / "relight"


def install_maven(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(script, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def times_maven_ran(folder: Path) -> int:
    return len((folder / "runs").read_text(encoding="utf-8").splitlines())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_a_second_fetch_finds_what_the_first_left(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_maven(tmp_path, MAVEN_THAT_WORKS, monkeypatch)

    assert kafka_jars.fetch() == kafka_jars.fetch() == kafka_jars.jars_folder()

    assert names(kafka_jars.jars_folder()) == ["kafka.jar"]
    assert names(cache) == [kafka_jars.jars_folder().name]
    assert times_maven_ran(tmp_path) == 1


@pytest.mark.usefixtures("cache")
def test_many_that_fetch_at_once_fetch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_maven(tmp_path, MAVEN_THAT_WORKS, monkeypatch)

    with ThreadPoolExecutor(max_workers=8) as pool:
        folders = {task.result() for task in [pool.submit(kafka_jars.fetch) for _ in range(8)]}

    assert folders == {kafka_jars.jars_folder()}
    assert times_maven_ran(tmp_path) == 1


def test_a_failed_fetch_says_why_and_leaves_nothing_that_counts(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_maven(tmp_path, MAVEN_THAT_FAILS, monkeypatch)

    with pytest.raises(PartMissing, match="no such artifact"):
        kafka_jars.fetch()

    assert names(cache) == []
    assert "make real" in (kafka_jars.missing() or "")


def test_what_a_killed_fetch_left_is_cleared_away(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover = cache / f".{kafka_jars.jars_folder().name}.part-killed"
    (leftover / "jars").mkdir(parents=True)
    install_maven(tmp_path, MAVEN_THAT_WORKS, monkeypatch)

    kafka_jars.fetch()

    assert names(cache) == [kafka_jars.jars_folder().name]


def test_a_machine_without_maven_is_told_what_to_install(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PartMissing, match="`mvn`"):
        kafka_jars.fetch()

    assert names(cache) == []


def test_a_machine_without_java_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "`java`" in (kafka_jars.missing() or "")
