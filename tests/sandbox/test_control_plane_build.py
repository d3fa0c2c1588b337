"""Building the control plane: once a machine, whole or not at all. Go is a script here; `make real` uses the real one."""

import os
import stat
from pathlib import Path

import pytest

from sandbox import control_plane_build
from sandbox.control_plane_build import KUBERNETES_PROGRAMS, PROGRAMS, STAGING_VERSION
from sandbox.errors import PartMissing

KUBERNETES_GO_MOD = """\
module k8s.io/kubernetes

go 1.26.0

require (
	github.com/JeffAshton/win_pdh v0.0.0-20161109143554-76bb4ee9f0ab
	k8s.io/api v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
	example.com/kept => example.com/fork v1.2.3
)
"""

# It downloads a go.mod, notes what it was asked to do and with which go.mod, and "compiles" empty files.
GO_THAT_WORKS = """#!/bin/sh
set -e
echo "$@" >> "$GO_RUNS"
case "$1 $2" in
"mod download") echo "{\\"GoMod\\": \\"$GO_MOD_OF_KUBERNETES\\"}" ;;
"mod tidy") cat go.mod >> "$GO_MODS" ;;
build*) while [ "$1" != -o ]; do shift; done; touch "$2" ;;
esac
"""
GO_THAT_FAILS_LATE = (
    GO_THAT_WORKS
    + """
case "$2" in */kube-scheduler) echo 'undefined: scheduler' >&2; exit 1 ;; esac
"""
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the test's own."""
    go_mod = tmp_path / "kubernetes.mod"
    go_mod.write_text(KUBERNETES_GO_MOD, encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GO_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("GO_MODS", str(tmp_path / "mods"))
    monkeypatch.setenv("GO_MOD_OF_KUBERNETES", str(go_mod))
    return tmp_path / "cache" / "relight"


def install_go(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bin" / "go"
    program.parent.mkdir()
    program.write_text(script, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_every_program_is_there_and_nothing_else(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(tmp_path, GO_THAT_WORKS, monkeypatch)

    folder = control_plane_build.build()

    assert names(folder) == sorted(PROGRAMS)
    assert names(cache) == [folder.name]
    assert control_plane_build.missing() is None


def test_a_second_build_finds_what_the_first_left(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(tmp_path, GO_THAT_WORKS, monkeypatch)
    control_plane_build.build()
    monkeypatch.setenv("PATH", str(tmp_path))  # no Go any more

    assert control_plane_build.build() == cache / control_plane_build.programs_folder().name


@pytest.mark.usefixtures("cache")
def test_staging_modules_are_replaced_by_their_published_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(tmp_path, GO_THAT_WORKS, monkeypatch)

    control_plane_build.build()

    replaced = [line for line in (tmp_path / "mods").read_text("utf-8").splitlines() if "=>" in line]
    assert replaced == [
        f"replace k8s.io/api => k8s.io/api {STAGING_VERSION}",
        f"replace k8s.io/client-go => k8s.io/client-go {STAGING_VERSION}",
    ]
    assert len(KUBERNETES_PROGRAMS) + 1 == (tmp_path / "runs").read_text("utf-8").count("build -ldflags")


def test_a_failed_build_says_why_and_leaves_nothing_that_counts(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(tmp_path, GO_THAT_FAILS_LATE, monkeypatch)

    with pytest.raises(PartMissing, match=r"(?s)kube-scheduler.*undefined: scheduler"):
        control_plane_build.build()

    assert names(cache) == []
    assert "make real" in (control_plane_build.missing() or "")


def test_a_machine_without_go_is_told_what_to_install(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PartMissing, match="`go`"):
        control_plane_build.build()

    assert names(cache) == []
