"""Deadlines that passed while relight itself was away: nobody asked, so silence proves nothing; asked again, the answer counts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from schemas.commands import Command, OutcomeResult, StepName
from schemas.envelope import Payload
from schemas.records import IncidentState
from schemas.signals import ProcessState, ProcessStateName
from tests.recovery.world import HBM, World, always, silent

AWAY = timedelta(minutes=10)  # longer than any step of a recovery in place may take


def under_way(step: StepName) -> World:
    """A recovery in place that stands at a step nobody answers."""
    running = World().begin(job_retry_num="3")
    running.scripts[step] = silent
    running.fault(HBM)
    running.settle(timedelta(seconds=5))
    assert running.incident is not None
    assert running.incident.step is not None
    assert running.incident.step.step is step
    return running


def healed_when_looked_at(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    if command.action == "look":
        yield world.answer(command)


def stopped_when_looked_at(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    if command.action != "look":
        return
    yield world.answer(command, told=len(world.pods))
    for pod in world.pods.values():
        said = ProcessState(
            placement=world.where(pod),
            epoch=pod.epoch,
            attempt=command.attempt,
            state=ProcessStateName.STOPPED,
            start=pod.starts,
        )
        yield command.subject, said, timedelta(seconds=1)


def test_a_healing_that_ended_meanwhile_is_looked_at_before_anything_is_concluded() -> None:
    running = under_way(StepName.HEAL_CHIPS)
    running.now += AWAY
    running.scripts[StepName.HEAL_CHIPS] = healed_when_looked_at
    running.settle(timedelta(minutes=1))

    assert running.held == set()
    assert running.begun() == ["stop_processes", "heal_chips", "start_processes"]
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING


def test_a_healing_that_does_not_end_after_the_look_is_judged_as_ever() -> None:
    running = under_way(StepName.HEAL_CHIPS)
    running.now += AWAY
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
    running.settle(timedelta(minutes=10))

    assert running.held == {"n1"}
    assert running.begun()[:3] == ["stop_processes", "heal_chips", "suspend_job"]


def test_a_barrier_waits_for_the_reports_that_lie_behind_the_tick() -> None:
    running = under_way(StepName.STOP_PROCESSES)
    running.now += AWAY
    running.scripts[StepName.STOP_PROCESSES] = stopped_when_looked_at
    running.settle(timedelta(minutes=1))

    assert "hold" not in {decision.verdict for decision in running.decisions}
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING
