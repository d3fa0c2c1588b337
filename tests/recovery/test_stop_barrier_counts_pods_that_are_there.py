"""A stop is complete when every process that is there is stopped: who ended stands for nobody else, who runs again is not stopped."""

from __future__ import annotations

from datetime import timedelta

from schemas.commands import Command, OutcomeResult, StepName
from schemas.ids import run_subject
from schemas.records import IncidentState
from schemas.signals import ProcessState, ProcessStateName
from tests.recovery.world import HBM, Pod, World, always, silent

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
IN_PLACE = ["stop_processes", "heal_chips", "start_processes"]


def stopping() -> World:
    """Two pods are told to stop, and have said nothing yet."""
    running = World().begin(job_retry_num="3")
    running.silent.update(running.pods)
    running.fault(HBM)
    running.settle(5 * SECOND)
    return running


def says(running: World, pod: Pod, state: ProcessStateName, *, start: int = 1) -> None:
    incident = running.incident
    assert incident is not None
    said = ProcessState(
        placement=running.where(pod), epoch=pod.epoch, attempt=incident.attempt, state=state, start=start
    )
    running.post(run_subject(running.run), said)
    running.settle()


def last(running: World, step: StepName) -> Command:
    return [command for command in running.commands if command.step is step][-1]


def told(running: World, count: int) -> None:
    """The actuator looks again and finds so many pods to tell."""
    running.post(*running.answer(last(running, StepName.STOP_PROCESSES), told=count)[:2])
    running.settle()


def test_a_pod_that_reported_and_ended_does_not_stand_for_one_that_still_runs() -> None:
    running = stopping()
    first, second = running.pod_on("n1"), running.pod_on("n2")
    says(running, first, ProcessStateName.STOPPED)
    running.take_away(first)
    running.settle()
    told(running, 1)
    assert running.begun() == ["stop_processes"]
    says(running, second, ProcessStateName.STOPPED)
    assert running.begun()[:2] == ["stop_processes", "heal_chips"]


def test_nor_while_its_end_has_not_been_heard_of() -> None:
    running = stopping()
    says(running, running.pod_on("n1"), ProcessStateName.STOPPED)
    told(running, 1)
    assert running.begun() == ["stop_processes"]


def test_the_end_of_the_last_pod_that_was_waited_for_completes_the_stop() -> None:
    running = stopping()
    says(running, running.pod_on("n1"), ProcessStateName.STOPPED)
    told(running, 1)
    running.take_away(running.pod_on("n2"))
    running.settle()
    assert running.begun()[:2] == ["stop_processes", "heal_chips"]


def test_a_process_that_runs_again_because_its_stop_ended_by_itself_is_not_stopped() -> None:
    running = stopping()
    first, second = running.pod_on("n1"), running.pod_on("n2")
    says(running, first, ProcessStateName.STOPPED)
    says(running, first, ProcessStateName.RUNNING, start=2)
    says(running, second, ProcessStateName.STOPPED)
    assert running.begun() == ["stop_processes"]


def test_processes_that_ran_again_by_themselves_before_the_start_still_answer_it() -> None:
    running = World().begin(job_retry_num="3")
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
    running.fault(HBM)
    running.settle(10 * SECOND)
    for pod in running.pods.values():
        says(running, pod, ProcessStateName.RUNNING, start=2)
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.DONE)
    running.settle(MINUTE)
    assert running.begun() == IN_PLACE
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING


def test_a_start_is_not_met_by_what_ran_before_it_was_ordered() -> None:
    running = World().begin(job_retry_num="3")
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
    running.scripts[StepName.START_PROCESSES] = silent
    running.fault(HBM)
    running.settle(10 * SECOND)
    for pod in running.pods.values():
        says(running, pod, ProcessStateName.RUNNING, start=2)
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.DONE)
    running.settle(10 * SECOND)
    running.post(*running.answer(last(running, StepName.START_PROCESSES), told=2)[:2])
    running.settle()
    assert running.incident is not None
    assert running.incident.state is IncidentState.ACTING
