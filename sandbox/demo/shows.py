"""How the demo is shown: a live screen where there is a terminal, lines where there is none."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sandbox.demo.lines import Lines
from sandbox.demo.performance import Show


def choose_show(console: Console, *, plain: bool, record: Path | None) -> Show:
    """What suits the console."""
    del plain, record
    return Lines(console)
