"""The demo as a whole: what fails is said in a line with the folder; else everything comes back and agrees, with nothing left running."""

from __future__ import annotations

import io
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from sandbox.demo import world as worlds
from sandbox.demo.acts import ACTS
from sandbox.demo.lines import Lines
from sandbox.demo.parts import Parts, choose
from sandbox.demo.performance import AGREES, DISAGREES, STORY_FILE, Evening, perform
from sandbox.errors import PartMissing, StartFailed


def console() -> Console:
    """Lines of any length."""
    return Console(file=io.StringIO(), width=200)


def said(out: Console) -> str:
    """What was printed."""
    return str(out.file.getvalue())  # type: ignore[attr-defined]


def left_running(folder: Path) -> list[str]:
    """Command lines of processes that know the folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if str(folder) in words:
            found.append(words)
    return found


def test_a_part_that_is_missing_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    def lacking(folder: Path) -> Parts:
        raise PartMissing(f"no Java for {folder}")

    out = console()

    assert perform(Evening(lacking, tmp_path / "w"), Lines(out), out) == DISAGREES
    assert "no Java for" in said(out)
    assert f"all of it lies in {tmp_path / 'w'}" in said(out)


class Store:
    """Notes what is done to it."""

    def __init__(self, _: Path) -> None:
        self.ended = False
        stores.append(self)

    def start(self) -> None:
        """It starts."""

    def stop(self) -> None:
        """It ends."""
        self.ended = True


stores: list[Store] = []


def test_a_start_that_fails_ends_what_was_started_and_tells_the_whole_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def fails() -> None:
        raise StartFailed("the broker did not serve:\nits log's end")

    def broken(_: Path) -> Parts:
        return Parts("a broker", None, None, (fails,), (lambda: ended.append("broker"),))  # type: ignore[arg-type]

    monkeypatch.setattr(worlds, "ClickHouse", Store)
    out = console()

    assert perform(Evening(broken, tmp_path / "w"), Lines(out), out) == DISAGREES
    assert ended == ["broker"]
    assert stores[-1].ended
    assert "the broker did not serve:" in said(out)
    assert "its log's end" not in said(out)
    assert "its log's end" in (tmp_path / "w" / STORY_FILE).read_text(encoding="utf-8")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_everything_comes_back_and_the_record_agrees_on_the_embedded_parts(tmp_path: Path) -> None:
    out = console()

    code = perform(Evening(choose(real=False), tmp_path / "w", to_read=0), Lines(out), out)

    assert code == AGREES, said(out)
    assert f"All {sum(len(act.recoveries) for act in ACTS)} recoveries came back" in said(out)
    assert (tmp_path / "w" / "report.html").stat().st_size > 0
    assert left_running(tmp_path / "w") == []
