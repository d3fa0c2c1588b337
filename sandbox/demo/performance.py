"""The demo from beginning to end: start the world, play the acts before whoever watches, compare what was seen with the record, say so.

Guarantees: returns 0 only if every recovery came back as expected and the record agrees; whatever happens, nothing is left running, and the
folder with everything that was written is named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console
from rich.text import Text

from audit.errors import AuditError
from runtime.errors import ApiError
from sandbox.demo import recorded, seen, summary
from sandbox.demo.acts import ACTS, Act
from sandbox.demo.checks import Expected, disagreements
from sandbox.demo.happening import Happening
from sandbox.demo.parts import Parts
from sandbox.demo.recorded import Recorded
from sandbox.demo.stagehand import Stagehand
from sandbox.demo.watching import Watching
from sandbox.demo.world import World
from sandbox.errors import SandboxError

STEPS: Final = 3000
"""More than the acts can take at 50 ms a step; what is left at the end is done in a hurry."""
TO_READ: Final = 2.0
"""Seconds between two acts."""
STORY_FILE: Final = "story.txt"
AGREES, DISAGREES = 0, 1


class Show(Protocol):
    """What is shown while it plays: a screen, or lines."""

    def tell(self, happening: Happening) -> None:
        """Something happened."""
        ...

    def act(self, number: int, of: int, act: Act) -> None:
        """An act begins."""
        ...

    def on(self, watching: Watching) -> AbstractContextManager[object]:
        """Show what is watched while this context is open."""
        ...


@dataclass(frozen=True)
class Evening:
    """What one performance consists of."""

    parts: Callable[[Path], Parts]
    folder: Path
    acts: Sequence[Act] = ACTS
    to_read: float = TO_READ


def perform(evening: Evening, show: Show, console: Console) -> int:
    """Play it; returns the exit code. What goes wrong on the way is said, and is 1 too."""
    try:
        world = World(evening.folder, evening.parts(evening.folder), console.print, steps=STEPS)
        with world:
            return _play(world, evening, show, console)
    except (SandboxError, AuditError, ApiError) as error:
        _say_what_went_wrong(str(error), evening.folder, console)
        return DISAGREES


def _say_what_went_wrong(told: str, folder: Path, console: Console) -> None:
    """Its first line; the rest, which is the whole story where somebody waited in vain, goes into a file."""
    first, _, rest = told.partition("\n")
    console.print(Text(first, style="bold red"), soft_wrap=True)
    if rest:
        story = folder / STORY_FILE
        story.write_text(told, encoding="utf-8")
        console.print(Text(f"story:   {story}"), soft_wrap=True)
    summary.where(console, folder, folder / "stage" / "logs", None)


def _play(world: World, evening: Evening, show: Show, console: Console) -> int:
    watching = Watching(world, show.tell)
    stagehand = Stagehand(world, watching.say)
    with watching, show.on(watching):
        stagehand.wait_until_it_trains()
        for number, act in enumerate(evening.acts, 1):
            show.act(number, len(evening.acts), act)
            time.sleep(evening.to_read)
            act.play(stagehand)
        watching.say("all acts are over; the job trains what is left, in a hurry")
        world.job.ask("hurry")
        ended = stagehand.wait_for_the_end()
    console.print("comparing what was seen with the record")
    expected = Expected.of(evening.acts, world.job.ranks)
    found, kept = _both_sides(world, stagehand, ended)
    wrong = disagreements(expected, found, kept)
    console.print(summary.recovery_times(kept.recoveries))
    console.print(summary.verdict(wrong, len(expected.strategies)), soft_wrap=True)
    report = evening.folder / "report.html"
    world.stage.run("report", "--output", str(report))
    summary.where(console, evening.folder, world.logs, report)
    return DISAGREES if wrong else AGREES


def _both_sides(world: World, stagehand: Stagehand, ended: str) -> tuple[seen.Seen, Recorded]:
    found = seen.look(world, stagehand, ended)
    with recorded.reader(world.store.port) as store:
        return found, recorded.read_when_caught_up(store, world.run, found.ids)
