"""How the demo is shown: a live screen where there is a terminal, lines where there is none, a picture of it for those who were away."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.layout import Layout
from rich.live import Live

from sandbox.demo.acts import ELSEWHERE, Act
from sandbox.demo.board import Board
from sandbox.demo.happening import Happening
from sandbox.demo.lines import Lines
from sandbox.demo.performance import Show
from sandbox.demo.watching import Watching
from sandbox.demo.world import RANKS

A_SECOND: Final = 4
"""Frames."""
FONT_FROM_AFAR: Final = re.compile(r"@font-face \{[^}]*\}\s*")
PICTURE: Final = (124, 38)
"""Columns and lines of a picture."""


class Screen:
    """A live screen; what it showed is gone at the end, and the last words stand on the usual one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._board = Board(RANKS)

    def tell(self, happening: Happening) -> None:
        """See `performance.Show`."""
        self._board.tell(happening)

    def act(self, number: int, of: int, act: Act) -> None:
        """See `performance.Show`."""
        self._board.act(number, of, act)

    def on(self, watching: Watching) -> AbstractContextManager[object]:
        """The screen, drawn anew by itself."""
        return Live(
            get_renderable=lambda: self._board.frame(watching.glance),
            console=self._console,
            screen=True,
            refresh_per_second=A_SECOND,
        )


class Picture:
    """Another show, of which a picture is taken: when the job came back elsewhere, else at the end."""

    def __init__(self, show: Show, file: Path) -> None:
        self._show = show
        self._file = file
        self._board = Board(RANKS)
        self._watching: Watching | None = None
        self._act: Act | None = None
        self._frame: Layout | None = None

    def tell(self, happening: Happening) -> None:
        """See `performance.Show`."""
        self._board.tell(happening)
        self._show.tell(happening)

    def act(self, number: int, of: int, act: Act) -> None:
        """Before the next one begins, the last one is seen whole."""
        self._take()
        self._act = act
        self._board.act(number, of, act)
        self._show.act(number, of, act)

    @contextmanager
    def on(self, watching: Watching) -> Iterator[object]:
        """Show it, then write the picture."""
        self._watching = watching
        with self._show.on(watching) as shown:
            yield shown
        self._take()
        if self._frame is not None:
            save(self._frame, self._file)

    def _take(self) -> None:
        taken = self._frame is not None
        wanted = self._act is not None and ELSEWHERE in self._act.recoveries
        if self._watching is not None and (wanted or not taken):
            self._frame = self._board.frame(self._watching.glance)
        if wanted:
            self._watching = None


def save(frame: Layout, file: Path) -> None:
    """Draw a frame into an SVG file that fetches nothing: letters are those of whoever looks, each set to its place."""
    width, height = PICTURE
    console = Console(
        record=True,
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(frame)
    drawn = console.export_svg(title="make demo")
    file.write_text(FONT_FROM_AFAR.sub("", drawn), encoding="utf-8")


def choose_show(console: Console, *, plain: bool, record: Path | None) -> Show:
    """What suits the console."""
    show: Show = Lines(console) if plain or not console.is_terminal else Screen(console)
    return show if record is None else Picture(show, record)
