"""A step that was refused before it touched anything costs nothing, and a job that runs keeps its high availability (recovery 1, row 12)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from recovery.cells import ChipCell, RunCell
from schemas.commands import Command, OutcomeResult, StepName
from schemas.envelope import Payload
from schemas.ids import run_subject
from schemas.records import IncidentResult
from tests.recovery.world import BROKEN, HBM, Pod, Script, World, always

MINUTE = timedelta(minutes=1)
IN_PLACE = ["stop_processes", "heal_chips", "start_processes"]
REFUSALS = [
    (OutcomeResult.REFUSED, "no_pods"),
    (OutcomeResult.UNSUPPORTED, "not_injected"),
    (OutcomeResult.BLOCKED, "guard:paused"),
    (OutcomeResult.REFUSED, "gone"),
]


def world(**annotations: Any) -> World:
    return World().begin(**{"job_retry_num": "5", "job_unconditional_retry": "true", **annotations})


def run_cell(running: World) -> RunCell:
    cell = running.cells[run_subject(running.run)]["run"]
    assert isinstance(cell, RunCell)
    return cell


def in_place_counted(running: World) -> int:
    cells = running.cells[run_subject(running.run)].values()
    return sum(len(cell.in_place_at) for cell in cells if isinstance(cell, ChipCell))


def first_then(first: Script, then: Script) -> Script:
    """An actuator that answers the first command in one way and every later one in another."""
    seen: list[str] = []

    def script(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
        seen.append(command.command)
        return (first if len(seen) == 1 else then)(world, command)

    return script


@pytest.mark.parametrize(("result", "cause"), REFUSALS)
def test_a_stop_that_nobody_was_told_of_leaves_the_job_as_it_was(result: OutcomeResult, cause: str) -> None:
    running = world()
    for step in (StepName.STOP_PROCESSES, StepName.START_PROCESSES):
        running.scripts[step] = always(result, cause=cause)
    running.fault(HBM)
    running.settle(20 * MINUTE)
    assert running.begun() == ["stop_processes"]
    assert running.incidents[-1].result is IncidentResult.CANCELLED
    assert not run_cell(running).let_go
    assert running.counters.in_place_since_progress == 0
    assert in_place_counted(running) == 0
    said = running.decisions[-1]
    assert said.verdict == "cancelled"
    assert cause in said.reason


def test_a_run_that_an_actuator_found_succeeded_has_ended_and_was_not_let_go() -> None:
    running = world()
    running.scripts[StepName.STOP_PROCESSES] = always(OutcomeResult.REFUSED, cause="succeeded")
    running.fault(HBM)
    running.settle(MINUTE)
    ended = running.incidents[-1]
    assert (ended.result, ended.result_cause) == (IncidentResult.RUN_ENDED, "succeeded")
    assert running.begun() == ["stop_processes"]
    assert not run_cell(running).let_go

    running.end("succeeded")
    running.settle(MINUTE)
    assert running.incidents[-1] == ended


def test_so_has_one_that_had_succeeded_before_it_was_suspended() -> None:
    running = world()
    running.scripts[StepName.SUSPEND_JOB] = always(OutcomeResult.REFUSED, cause="succeeded")
    running.fault(BROKEN)
    running.settle(MINUTE)
    ended = running.incidents[-1]
    assert (ended.result, ended.result_cause) == (IncidentResult.RUN_ENDED, "succeeded")
    assert "resume_job" not in running.begun()


def test_the_job_is_recovered_at_the_next_fault() -> None:
    running = world()
    running.scripts[StepName.STOP_PROCESSES] = always(OutcomeResult.BLOCKED, cause="guard:paused")
    running.fault(HBM)
    running.settle(MINUTE)
    running.scripts.clear()
    running.commands.clear()
    running.fault("80E18005")
    running.settle(MINUTE)
    assert running.begun() == IN_PLACE
    assert running.counters.in_place_since_progress == 1


def test_what_earlier_recoveries_counted_stays_counted() -> None:
    running = world()
    running.fault(HBM)
    running.settle(MINUTE)
    running.stable()
    running.scripts[StepName.STOP_PROCESSES] = always(OutcomeResult.BLOCKED, cause="guard:paused")
    running.fault("80E18005")
    running.settle(MINUTE)
    assert in_place_counted(running) == 1
    assert running.counters.in_place_since_progress == 1


def test_a_hang_that_was_not_restarted_is_not_in_the_chain() -> None:
    running = world(hang_retry="true")
    running.scripts[StepName.STOP_PROCESSES] = always(OutcomeResult.REFUSED, cause="no_pods")
    running.stall()
    running.settle(MINUTE)
    assert running.counters.hang_chain == 0
    assert running.begun() == ["stop_processes"]


def test_a_stop_that_some_pods_were_told_of_is_ended_by_a_start() -> None:
    running = world()
    running.silent.update(running.pods)
    pending = always(OutcomeResult.PENDING, told=1)
    running.scripts[StepName.STOP_PROCESSES] = first_then(
        pending, always(OutcomeResult.REFUSED, cause="no_pods")
    )
    running.fault(HBM)
    running.settle(MINUTE)
    assert running.begun() == ["stop_processes", "start_processes"]


def test_so_is_one_that_may_have_been_told_while_the_api_was_away() -> None:
    running = world()
    running.silent.update(running.pods)
    away = always(OutcomeResult.UNREACHABLE, cause="api")
    running.scripts[StepName.STOP_PROCESSES] = first_then(
        away, always(OutcomeResult.BLOCKED, cause="guard:paused")
    )
    running.fault(HBM)
    running.settle(MINUTE)
    assert running.begun() == ["stop_processes", "start_processes"]


def test_a_rebuild_that_is_refused_takes_no_retry() -> None:
    running = world()
    running.scripts[StepName.SUSPEND_JOB] = always(OutcomeResult.BLOCKED, cause="guard:paused")
    running.fault(BROKEN)
    running.settle(5 * MINUTE)
    assert running.begun() == ["suspend_job"]
    assert running.counters.job_retries_used == 0
    assert running.held == {"n1"}, "the node is isolated all the same"
    assert not run_cell(running).let_go


def test_nor_does_it_when_the_job_had_ended_and_then_the_job_is_let_go() -> None:
    running = world()
    running.scripts[StepName.SUSPEND_JOB] = always(OutcomeResult.BLOCKED, cause="guard:paused")
    running.exit(1)
    running.settle(5 * MINUTE)
    assert running.begun() == ["suspend_job", "release_job"]
    assert running.counters.job_retries_used == 0
    assert running.counters.unconditional_chain == 0


@pytest.mark.parametrize(
    "details", [{"result": OutcomeResult.PENDING}, {"result": OutcomeResult.UNREACHABLE}]
)
def test_a_rebuild_that_had_begun_keeps_its_retry(details: dict[str, Any]) -> None:
    running = world()
    running.scripts[StepName.SUSPEND_JOB] = first_then(
        always(**details), always(OutcomeResult.REFUSED, cause="not_ours")
    )
    running.fault(BROKEN)
    running.settle(5 * MINUTE)
    assert running.counters.job_retries_used == 1
    assert running.begun()[:2] == ["suspend_job", "resume_job"]


def test_processes_that_an_earlier_attempt_stopped_are_not_left_stopped() -> None:
    running = world()
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.FAILED, cause="still_faulty")
    running.scripts[StepName.SUSPEND_JOB] = always(OutcomeResult.BLOCKED, cause="guard:paused")
    running.scripts[StepName.RESUME_JOB] = always(OutcomeResult.BLOCKED, cause="guard:paused")
    running.fault(HBM)
    running.settle(5 * MINUTE)
    assert running.begun()[-1] == "release_job", "their supervisors are told to go on without us"
    assert running.counters.job_retries_used == 0


class TestEpochOfTheEnd:
    """The resume reached the job and nobody told us: the watcher is down, and no word of the actuator came."""

    @pytest.mark.parametrize("at", [1, 2])
    def test_the_job_is_failed_at_the_epoch_it_is_at(self, at: int) -> None:
        running = self.resumed(at=at)
        running.settle(timedelta(hours=1))
        failed = [c.epoch for c in running.commands if c.step is StepName.FAIL_JOB and c.action == "begin"]
        assert failed == ([1] if at == 1 else [1, 2])
        ends = [d for d in running.decisions if d.verdict == "fail_job"]
        assert len({d.attempt for d in ends}) == len(failed), "every attempt has its decision"
        assert running.incidents[-1].result is IncidentResult.FAILED

    def test_an_epoch_that_no_resume_of_ours_began_is_left_alone(self) -> None:
        running = self.resumed(at=3)
        running.settle(timedelta(hours=1))
        assert "fail_job" in running.begun()
        assert running.incidents[-1].result is IncidentResult.RELEASED

    def test_nor_is_one_failed_whose_resume_was_never_begun(self) -> None:
        running = self.resumed(at=2)
        running.scripts[StepName.SUSPEND_JOB] = always(OutcomeResult.FAILED, cause="x")
        running.settle(timedelta(hours=1))
        epochs = {c.epoch for c in running.commands if c.step is StepName.FAIL_JOB}
        assert epochs == {1}

    def test_a_run_to_be_suspended_again_is_suspended_at_that_epoch(self) -> None:
        running = self.resumed(at=2)
        running.settle(MINUTE)
        assert running.begun()[-1] == "resume_job"
        running.commands.clear()
        running.scripts[StepName.SUSPEND_JOB] = self.only_at(2)
        running.pods["new"] = Pod(uid="new", node="n2", rank=0, epoch=2)
        running.fault(BROKEN, on="n2")
        running.settle(MINUTE)
        asked = [(c.step.value, c.epoch) for c in running.commands if c.action == "begin" and c.epoch]
        assert asked == [("suspend_job", 1), ("suspend_job", 2), ("resume_job", 2)]

    @staticmethod
    def only_at(epoch: int) -> Script:
        def script(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
            if command.epoch == epoch:
                return (world.answer(command),)
            return (world.answer(command, OutcomeResult.REFUSED, cause="other_epoch"),)

        return script

    def resumed(self, *, at: int) -> World:
        """A rebuild whose resume never becomes complete; the job is at the epoch `at`."""
        running = world()
        running.scripts[StepName.RESUME_JOB] = always(OutcomeResult.PENDING, cause="no_capacity")
        running.scripts[StepName.FAIL_JOB] = self.only_at(at)
        running.scripts[StepName.RELEASE_JOB] = self.only_at(at)
        running.exit(1)
        return running
