"""A part of relight is killed or stands still at a random moment of each strategy: every incident ends right, and each effect is there once.

Stopped (SIGSTOP) it stays for longer than the broker, the Lease and the group wait for it, so that whoever takes its place has done so when it
goes on with what it had in hand. In half of the rounds somebody does take its place: a second process of the kind, started meanwhile. Nobody can
take an agent's. A part that ends by itself is started again, as a kubelet would.

Each round writes down its moment, the last command before it, and what its part said until then; with the stage's own story this is all a
failure needs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from sandbox.stage.program import Program
from sandbox.stage.stage import Stage
from schemas.records import IncidentState
from tests.end_to_end.plots import LONG_SEEDS, PLOTS, is_right
from tests.end_to_end.seen import FINISHED, RECOVERED, closed, finished, incident, train

PARTS: Final = ("recovery", "actuators", "watcher", "agent", "router")
STANDS_STILL: Final = 8.0
"""Seconds. Longer than session (3 s), rebalance (5 s), transaction (5 s) and the watcher's Lease (3 s) on a stage."""
AT_MOST_STILL: Final = 10.0
"""Seconds it is given for somebody to take its place: longer, and deadlines of the steps pass, which is another story."""
LOOK_EVERY: Final = 0.1
WAITS_AT: Final = 160
"""The step at which the job waits until the part is at work again: nobody's recovery is cut short by the job's end."""
SAID_LINES: Final = 15

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


@dataclass(frozen=True)
class Round:
    """What is done to which part, in which story.

    Args:
        part: of relight.
        plot: of `PLOTS`.
        seed: of the moment.
        relieved: somebody takes its place while it stands still.
    """

    part: str
    plot: str
    seed: int
    relieved: bool = False

    def __str__(self) -> str:
        return f"{self.part}-{self.plot}-{self.seed}{'-relieved' if self.relieved else ''}"


def _long() -> list[Round]:
    """Thirty: each part twice in each plot, the second time with somebody in its place."""
    plots = list(PLOTS)
    return [
        Round(PARTS[n % 5], plots[n // 5 % 3], seed, relieved=n >= 15 and PARTS[n % 5] != "agent")
        for n, seed in enumerate(LONG_SEEDS)
    ]


def _rounds(*quick: Round) -> list[object]:
    """Those of each run, then those of the long one."""
    long = [pytest.param(each, id=str(each), marks=pytest.mark.soak) for each in _long()]
    return [*(pytest.param(each, id=str(each)) for each in quick), *long]


@pytest.mark.parametrize(
    "told", _rounds(Round("recovery", "unconditional", 1), Round("agent", "in-place", 2))
)
def test_a_part_that_is_killed_at_any_moment_and_started_again(
    stage: Stage, told: Round, record_property: Callable[[str, object], None]
) -> None:
    def strike(victim: Program) -> None:
        victim.kill()
        victim.start()

    _play(stage, told, strike, record_property)


@pytest.mark.parametrize(
    "told",
    _rounds(Round("actuators", "isolated", 3, relieved=True), Round("watcher", "in-place", 4, relieved=True)),
)
def test_a_part_that_stands_still_at_any_moment_for_longer_than_it_is_waited_for(
    stage: Stage,
    relief: Callable[[str], Program],
    told: Round,
    record_property: Callable[[str, object], None],
) -> None:
    def strike(victim: Program) -> None:
        stopped = time.monotonic()
        victim.suspend()
        if told.relieved:
            _taken_over(stage, relief(told.part))
        time.sleep(max(0.0, stopped + STANDS_STILL - time.monotonic()))
        victim.resume()

    _play(stage, told, strike, record_property)


def _taken_over(stage: Stage, twin: Program) -> None:
    """It has taken the place; on a machine too busy for that it does so after the other goes on, which has to end right too."""
    twin.launch()
    ends = time.monotonic() + AT_MOST_STILL
    while not twin.works and time.monotonic() < ends:
        time.sleep(LOOK_EVERY)
    stage.note(f"{twin.name} has {'taken over' if twin.works else 'not taken over yet'}")


def _play(
    stage: Stage,
    told: Round,
    strike: Callable[[Program], None],
    record_property: Callable[[str, object], None],
) -> None:
    plot, after = PLOTS[told.plot], random.Random(told.seed).uniform(0.0, PLOTS[told.plot].lasts)
    job = stage.job(f"round-{told}"[:50], steps=WAITS_AT + 40)
    job.ask("hang-2", step=WAITS_AT)
    run = train(stage, job)
    node = stage.node_of(job, 1)
    isolated_before = len(stage.effects.isolations(node.uid))
    victim = stage.programs[node.agent.name if told.part == "agent" else told.part]

    plot.begin(stage, job, node)
    time.sleep(after)
    moment = _moment(stage, run, after)
    record_property("moment", moment)
    stage.note(f"{victim.name} struck {moment}; until then it said:\n{_end_of(victim)}")
    strike(victim)
    stage.note(f"{victim.name} at work again")
    _until(stage, "the recovery to be over", lambda: _is_over(stage, run), RECOVERED)
    job.let_go("hang-2")
    ended = _until(stage, "the incident to be closed", lambda: _is_closed(stage, run), RECOVERED)
    job.ask("hurry")
    _until(stage, "the job's end", lambda: stage.job_ended(job), FINISHED)
    finished(stage, job)

    assert is_right(closed(stage, run)), ended
    assert len(stage.records.incidents(run)) == 1
    plot.check(stage, job, node)
    assert len(stage.effects.isolations(node.uid)) - isolated_before <= 1


def _until(stage: Stage, what: str, condition: Callable[[], object], seconds: float) -> object:
    """Wait, and start again whoever ends by itself: one whose place is taken does."""

    def kept_up() -> object:
        for program in list(stage.programs.values()):
            if not program.is_running:
                stage.note(f"{program.name} had ended:\n{_end_of(program)}")
                program.launch()
        return condition()

    return stage.wait(what, kept_up, seconds)


def _is_over(stage: Stage, run: str) -> bool:
    """What the strategy does is done; whether the job is stable is another matter while it waits."""
    found = incident(stage, run)
    return found is not None and found.state in (IncidentState.STABILISING, IncidentState.CLOSED)


def _is_closed(stage: Stage, run: str) -> bool:
    found = incident(stage, run)
    return found is not None and found.state is IncidentState.CLOSED


def _moment(stage: Stage, run: str, after: float) -> str:
    """For whoever reads a failure, and for the long run's page."""
    stage.records.refresh()
    last = next(iter(stage.records.commands(run)[::-1]), None)
    step = "no command yet" if last is None else f"after {last.action} {last.step.value}"
    return f"{after:.2f} s from the fault, {step}"


def _end_of(program: Program) -> str:
    return "\n".join(f"    {line}" for line in program.said().splitlines()[-SAID_LINES:])
