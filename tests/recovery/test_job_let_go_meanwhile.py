"""relight was away, its suspended job was resumed by `relight let-go`: the incident goes on with the job as it runs, and counts once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from schemas.commands import Command, OutcomeResult, StepName
from schemas.envelope import Payload
from schemas.records import IncidentResult, IncidentState
from tests.recovery.world import Script, World

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def _runs_as_it_was(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    """The job had been resumed at the epoch it had: pods are there, and nothing is written."""
    if not world.pods:
        world.place(world.nodes[: world.size])
    yield world.answer(command, epoch=world.epoch)


def _given_back(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    """Suspending began, then nobody looked for long, and let-go was there meanwhile."""
    if command.action == "begin":
        for pod in list(world.pods.values()):
            world.take_away(pod)
        yield world.answer(command, OutcomeResult.PENDING, cause="terminating")
    else:
        yield world.answer(command, OutcomeResult.REFUSED, cause="not_suspended")


def _given_back_unheard(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    """The same, but whoever suspended it died before its answer was confirmed."""
    if command.action == "begin":
        for pod in list(world.pods.values()):
            world.take_away(pod)
    else:
        yield world.answer(
            command, OutcomeResult.REFUSED, cause="not_suspended", effects=("suspended before",)
        )


def ended() -> World:
    world = World().begin(job_retry_num="5", job_unconditional_retry="true")
    world.scripts[StepName.RESUME_JOB] = _runs_as_it_was
    return world


def test_a_resume_that_finds_it_resumed_is_done_at_the_epoch_the_pods_have() -> None:
    world = ended()
    world.exit(1)
    world.settle(MINUTE)
    assert world.incident is not None
    assert world.incident.state is IncidentState.STABILISING
    assert world.begun() == ["suspend_job", "resume_job"]
    assert (world.counters.schedule_count, world.counters.job_retries_used) == (1, 1)
    world.stable()
    assert world.incident.result is IncidentResult.RECOVERED


@pytest.mark.parametrize("suspending", [_given_back, _given_back_unheard], ids=["heard", "unheard"])
def test_a_suspension_that_was_ended_leads_to_that_resume_and_not_to_a_second_suspension(
    suspending: Script,
) -> None:
    world = ended()
    world.scripts[StepName.SUSPEND_JOB] = suspending
    world.exit(1)
    world.settle(5 * MINUTE)
    assert world.incident is not None
    assert world.incident.state is IncidentState.STABILISING
    assert world.begun() == ["suspend_job", "resume_job"]
    assert world.counters.schedule_count == 1


def test_what_happens_to_those_pods_later_is_news_and_the_next_issue_has_the_next_epoch() -> None:
    world = ended()
    world.exit(1)
    world.settle(MINUTE)
    world.stable()
    del world.scripts[StepName.RESUME_JOB]
    world.exit(1)
    world.settle(MINUTE)
    assert world.begun() == ["suspend_job", "resume_job"] * 2
    assert (world.counters.schedule_count, world.counters.job_retries_used) == (2, 2)
    assert {pod.epoch for pod in world.pods.values()} == {2}
