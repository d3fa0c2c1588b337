"""Fetching old interpreters: whole or not at all, and not believed before they ran. Maven is a script here; `make real` uses the real one."""

import os
import stat
import zipfile
from pathlib import Path

import pytest

from sandbox import old_python
from sandbox.errors import PartMissing

VERSION = min(old_python.BUILDS)
ROOT = "org/bytedeco/cpython/linux-x86_64/"
MAVEN = """#!/bin/sh
for argument in "$@"; do
    case "$argument" in -DoutputDirectory=*) cp "$JAR" "${argument#*=}/cpython.jar" ;; esac
done
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the test's own, on the machine that the jar is for."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(MAVEN, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAR", str(tmp_path / "cpython.jar"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return tmp_path / "cache" / "relight"


def publish(folder: Path, interpreter: str) -> None:
    with zipfile.ZipFile(folder / "cpython.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
        jar.writestr(f"{ROOT}bin/python3", f"#!/bin/sh\n{interpreter}\n")
        jar.writestr(f"{ROOT}bin/pip3", "")
        jar.writestr(f"{ROOT}lib/python3.7/os.py", "the library")
        jar.writestr(f"{ROOT}lib/python3.7/test/test_os.py", "")
        jar.writestr(f"{ROOT}libpython3.7m.so.1.0", "")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_an_interpreter_that_says_its_version_is_kept_with_its_library_and_nothing_else(
    tmp_path: Path, cache: Path
) -> None:
    publish(tmp_path, f"echo {VERSION}")

    program = old_python.fetch(VERSION)

    folder = cache / f"cpython-{VERSION}-{old_python.BUILDS[VERSION]}"
    kept = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert kept == ["bin/python3", "lib/python3.7/os.py", "libpython3.7m.so.1.0"]
    assert program == old_python.interpreter(VERSION) == folder / "bin" / "python3"
    assert os.access(program, os.X_OK)
    assert old_python.missing(VERSION) is None


@pytest.mark.parametrize("interpreter", ["echo 3.11.4", "echo no such library >&2; exit 127"])
def test_one_that_is_another_or_does_not_run_leaves_nothing_that_counts(
    tmp_path: Path, cache: Path, interpreter: str
) -> None:
    publish(tmp_path, interpreter)

    with pytest.raises(PartMissing, match=f"CPython {VERSION} does not run"):
        old_python.fetch(VERSION)

    assert names(cache) == []
    assert "make real" in (old_python.missing(VERSION) or "")


def test_a_machine_for_which_none_is_published_is_told_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")

    with pytest.raises(PartMissing, match="not s390x"):
        old_python.fetch(VERSION)

    assert names(cache) == []
