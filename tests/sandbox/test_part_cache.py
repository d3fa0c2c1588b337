"""A part gets into the cache whole or not at all, and once, however many ask and whoever is killed."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox import part_cache
from sandbox.part_cache import provide


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_many_that_ask_at_once_fill_once(tmp_path: Path) -> None:
    filled: list[Path] = []

    def fill(folder: Path) -> None:
        filled.append(folder)
        time.sleep(0.05)  # the others come while this one works
        (folder / "program").touch()

    with ThreadPoolExecutor(max_workers=8) as pool:
        tasks = [pool.submit(provide, tmp_path / "cache" / "part-1", fill) for _ in range(8)]

    assert {task.result() for task in tasks} == {tmp_path / "cache" / "part-1"}
    assert len(filled) == 1
    assert names(tmp_path / "cache" / "part-1") == ["program"]


def test_what_cannot_be_filled_leaves_nothing_that_counts(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        provide(tmp_path / "part-1", fill)

    assert names(tmp_path) == []


def test_one_that_was_killed_while_filling_leaves_nothing_that_counts(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from sandbox.part_cache import provide\n"
        "def fill(folder):\n"
        "    (folder / 'half').touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "provide(pathlib.Path(sys.argv[1]), fill)\n"
    )
    part = tmp_path / "part-1"
    subprocess.run([sys.executable, "-c", script, str(part)], check=False)
    assert not part.exists()
    assert len(names(tmp_path)) == 1

    provide(part, lambda folder: (folder / "program").touch())

    assert names(tmp_path) == ["part-1"]
    assert names(part) == ["program"]


def test_versions_live_side_by_side(tmp_path: Path) -> None:
    for version in ("1", "2"):
        provide(tmp_path / f"part-{version}", lambda folder: (folder / "program").touch())

    assert names(tmp_path) == ["part-1", "part-2"]


def test_the_cache_is_where_its_specification_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))

    assert part_cache.cache_folder() == tmp_path / "relight"


def test_a_relative_cache_folder_is_ignored_as_its_specification_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")

    assert part_cache.cache_folder() == Path.home() / ".cache" / "relight"
