"""A run may say that it is stable before the command that started it is answered: the order in which the two are heard makes no difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.cells import CountersCell
from rules.compiled import CompiledRulebook, default_rulebook
from schemas.commands import Command, OutcomeResult, StepName
from schemas.envelope import Payload
from schemas.ids import run_subject
from schemas.records import IncidentResult, IncidentState
from schemas.signals import Milestone, MilestoneName, ProcessState
from tests.recovery.rulebooks import with_start_that_may_fail
from tests.recovery.world import BROKEN, DEFAULT_SCRIPTS, HBM, NOTICE, Script, World

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
FAR = timedelta(days=1)


def answered_after(step: StepName, delay: timedelta, *, reports: bool = True) -> Script:
    """The step has its effect at once; its answer, and with `reports` the supervisors' words too, come later."""
    usual = DEFAULT_SCRIPTS[step]

    def script(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
        if command.action != "begin":
            return
        for subject, data, after in usual(world, command):
            is_held = reports or not isinstance(data, ProcessState)
            yield subject, data, (delay if is_held else after)

    return script


def ended_by_a_fault(world: World) -> None:
    world.fault(HBM)


def ended_on_a_broken_node(world: World) -> None:
    world.fault(BROKEN)


def ended_by_itself(world: World) -> None:
    world.exit(1)


def stalled(world: World) -> None:
    world.stall()


STORIES: dict[str, tuple[Callable[[World], None], StepName, dict[str, Any]]] = {
    "in place": (ended_by_a_fault, StepName.START_PROCESSES, {}),
    "hang restart": (stalled, StepName.START_PROCESSES, {"hang_retry": "true"}),
    "isolated reschedule": (ended_on_a_broken_node, StepName.RESUME_JOB, {}),
    "unconditional reschedule": (
        ended_by_itself,
        StepName.RESUME_JOB,
        {"job_unconditional_retry": "true"},
    ),
}


def restarting(
    story: str, answer_after: timedelta, *, rulebook: CompiledRulebook | None = None, **details: Any
) -> World:
    """The processes were started again and nobody has said that they were."""
    happen, step, annotations = STORIES[story]
    world = World(rulebook=rulebook or default_rulebook()).begin(job_retry_num="5", **annotations)
    world.scripts[step] = answered_after(step, answer_after, **details)
    happen(world)
    while not any(command.step is step for command in world.commands):
        world.settle(SECOND)
    world.settle()
    assert world.incident is not None
    assert world.incident.state is IncidentState.ACTING
    return world


def say_stable(
    world: World, attempt: int | None, *, after: timedelta = timedelta(0), **envelope: Any
) -> None:
    pod = next(iter(world.pods.values()))
    said = Milestone(placement=world.where(pod), name=MilestoneName.STABLE, attempt=attempt)
    world.post(run_subject(world.run), said, after=after, **envelope)


def counted(world: World) -> CountersCell:
    """What was counted, without the moments at which it was."""
    return replace(world.counters, last_restart_at=None, charged_at=None, seconds_to_stable=0, due=None)


@pytest.mark.parametrize("says_attempt", [True, False])
@pytest.mark.parametrize("story", sorted(STORIES))
def test_the_order_of_stable_and_the_answer_makes_no_difference(story: str, says_attempt: bool) -> None:
    stable = timedelta(seconds=9)  # after the answer, or after the start where it comes before the answer
    ends = []
    for answered, said in ((4 * SECOND, 4 * SECOND + stable), (4 * SECOND + stable, stable)):
        world = restarting(story, answered)
        assert world.incident is not None
        own = world.incident.attempt if STORIES[story][1] is StepName.START_PROCESSES else 0
        say_stable(world, own if says_attempt else None, after=said)
        world.settle(MINUTE)
        assert world.incident is not None
        assert world.incident.result is IncidentResult.RECOVERED
        assert world.incidents[-1].result is IncidentResult.RECOVERED
        assert world.counters.last_restart_at is not None
        assert world.counters.seconds_to_stable == stable.total_seconds()
        ends.append((counted(world), world.begun(), world.verdicts()))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("story", sorted(STORIES))
def test_what_was_said_before_the_processes_were_started_is_of_the_old_ones(story: str) -> None:
    world = restarting(story, MINUTE)
    assert world.incident is not None
    say_stable(
        world, world.incident.attempt - 1 if "reschedule" not in story else None, time=world.now - MINUTE
    )
    world.settle(2 * MINUTE)
    assert world.incident is not None
    assert world.incident.state is IncidentState.STABILISING


def test_a_run_of_which_a_part_did_not_start_is_not_stable_whatever_the_other_part_says() -> None:
    world = restarting("in place", FAR)
    assert world.incident is not None
    first = world.incident.attempt
    say_stable(world, first)
    world.scripts.clear()
    world.settle(20 * MINUTE)
    assert world.incidents[-1].state is IncidentState.CLOSED
    assert world.incidents[-1].attempt > first
    assert IncidentResult.RECOVERED not in {record.result for record in world.incidents}


def test_a_process_that_ends_again_before_the_answer_takes_its_word_along() -> None:
    world = restarting("unconditional reschedule", MINUTE)
    assert world.incident is not None
    first = world.incident.attempt
    say_stable(world, 0)
    world.settle(SECOND)
    assert world.incident.stable_at is not None
    world.exit(1, on=next(iter(world.pods.values())).node)
    world.settle(5 * MINUTE)
    assert world.incident.attempt > first
    assert world.incident.state is IncidentState.STABILISING
    assert world.incident.stable_at is None


@pytest.mark.parametrize(
    ("story", "happens"),
    [("in place", World.exit), ("hang restart", World.exit), ("hang restart", World.stall)],
    ids=["in place, ended", "hang restart, ended", "hang restart, stands still"],
)
def test_what_happens_to_the_new_processes_before_the_answer_takes_their_word_along(
    story: str, happens: Callable[[World], None]
) -> None:
    world = restarting(story, 50 * SECOND)
    assert world.incident is not None
    say_stable(world, world.incident.attempt)
    world.settle(SECOND)
    happens(world)
    world.settle(MINUTE)
    assert world.incident.state is IncidentState.STABILISING


def test_a_word_from_a_clock_that_runs_fast_does_not_make_the_next_recovery_patient() -> None:
    world = restarting("in place", 10 * SECOND)
    assert world.incident is not None
    say_stable(world, world.incident.attempt, after=3 * SECOND, time=world.now + 20 * FAR)
    world.settle(MINUTE)
    assert world.incident.result is IncidentResult.RECOVERED
    assert world.counters.seconds_to_stable == 3


def test_a_fault_that_asks_for_nothing_leaves_the_word_as_it_is() -> None:
    world = restarting("in place", 50 * SECOND)
    assert world.incident is not None
    say_stable(world, world.incident.attempt)
    world.settle(SECOND)
    world.fault(NOTICE)
    world.settle(MINUTE)
    assert world.incident.result is IncidentResult.RECOVERED


def test_a_failed_start_after_which_the_plan_goes_on_is_not_recovered_by_an_early_word() -> None:
    world = restarting("in place", FAR, rulebook=with_start_that_may_fail())
    assert world.incident is not None
    say_stable(world, world.incident.attempt)
    world.settle(SECOND)
    command = next(c for c in world.commands if c.step is StepName.START_PROCESSES)
    subject, outcome, _ = world.answer(command, OutcomeResult.FAILED, cause="timeout")
    world.post(subject, outcome)
    world.settle(SECOND)
    assert world.incident.state is IncidentState.STABILISING


def test_a_start_that_is_refused_is_not_recovered_by_an_early_word() -> None:
    world = restarting("in place", FAR)
    assert world.incident is not None
    say_stable(world, world.incident.attempt)
    world.settle(SECOND)
    command = next(c for c in world.commands if c.step is StepName.START_PROCESSES)
    subject, outcome, _ = world.answer(command, OutcomeResult.FAILED, cause="timeout")
    world.post(subject, outcome)
    world.settle(SECOND)
    assert world.incident.result is None
