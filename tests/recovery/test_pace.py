"""Stable is 5 steps in a row within 10 % of the median of the last 50 before the fault (recovery 8), and nothing less."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from schemas.ids import run_subject
from schemas.records import IncidentResult, IncidentState
from schemas.signals import Placement, Progress
from tests.recovery.test_each_row import MINUTE, world
from tests.recovery.world import HBM, World


class Trainer:
    """Tells steps of a run."""

    def __init__(self, running: World) -> None:
        self.world = running
        self.number = 0

    def steps(
        self,
        *seconds: float | None,
        rank: int | None = 0,
        attempt: int | None = None,
        late: timedelta = timedelta(0),
    ) -> None:
        for duration in seconds:
            self.number += 1
            pod = next(iter(self.world.pods.values()))
            where = Placement(**{**self.world.where(pod).model_dump(), "rank": rank})
            told = Progress(placement=where, step=self.number, step_seconds=duration, attempt=attempt)
            at: dict[str, Any] = {"time": self.world.now - late} if late else {}
            self.world.post(run_subject(self.world.run), told, **at)
            self.world.settle(timedelta(seconds=1))


def restarted(*before: float) -> Trainer:
    trainer = Trainer(world())
    trainer.steps(*before)
    trainer.world.fault(HBM)
    trainer.world.settle(MINUTE)
    assert trainer.world.incident is not None
    assert trainer.world.incident.state is IncidentState.STABILISING
    return trainer


def result(trainer: Trainer) -> IncidentResult | None:
    incident = trainer.world.incident
    assert incident is not None
    return incident.result


def test_five_steps_as_fast_as_before_are_stable() -> None:
    trainer = restarted(*[1.0] * 50)
    trainer.steps(9.0, 1.05, 0.95, 1.0, 1.1)
    assert result(trainer) is None

    trainer.steps(0.9)

    assert result(trainer) is IncidentResult.RECOVERED


@pytest.mark.parametrize("slow", [1.11, 0.89, 3.0])
def test_one_step_that_is_off_begins_the_count_anew(slow: float) -> None:
    trainer = restarted(*[1.0] * 50)

    trainer.steps(1.0, 1.0, 1.0, 1.0, slow, 1.0, 1.0, 1.0, 1.0)

    assert result(trainer) is None


def test_without_a_baseline_nothing_is_said_to_be_stable() -> None:
    trainer = restarted()
    trainer.steps(*[1.0] * 20)
    assert result(trainer) is None

    trainer.world.settle(16 * MINUTE)

    assert result(trainer) is IncidentResult.INCOMPLETE


def test_the_median_is_of_the_last_fifty_only() -> None:
    trainer = restarted(*[10.0] * 100, *[1.0] * 50)

    trainer.steps(*[1.0] * 5)

    assert result(trainer) is IncidentResult.RECOVERED


def test_a_single_slow_step_before_the_fault_does_not_move_the_median() -> None:
    trainer = restarted(*[1.0] * 20, 60.0)

    trainer.steps(*[1.0] * 5)

    assert result(trainer) is IncidentResult.RECOVERED


def test_steps_without_a_duration_say_nothing_of_the_pace() -> None:
    trainer = restarted(*[1.0] * 50)

    trainer.steps(*[None] * 20)

    assert result(trainer) is None


def test_ranks_that_are_not_the_lowest_are_not_mixed_in() -> None:
    trainer = restarted(*[1.0] * 50)

    trainer.steps(*[1.0] * 20, rank=3)

    assert result(trainer) is None


def test_steps_of_the_time_before_the_restart_that_come_late_are_no_proof() -> None:
    trainer = restarted(*[1.0] * 50)

    trainer.steps(*[1.0] * 10, late=timedelta(minutes=5))
    trainer.steps(*[1.0] * 10, attempt=0)

    assert result(trainer) is None


def test_what_was_fast_in_an_earlier_try_does_not_help_the_next() -> None:
    trainer = restarted(*[1.0] * 50)
    trainer.steps(1.0, 1.0, 1.0, 1.0)
    trainer.world.fault(HBM, on="n2")
    trainer.world.settle(MINUTE)

    trainer.steps(1.0, 1.0, 1.0, 1.0)
    assert result(trainer) is None
    trainer.steps(1.0)

    assert result(trainer) is IncidentResult.RECOVERED


def test_the_next_fault_is_compared_with_what_was_usual_and_not_with_the_way_back() -> None:
    trainer = restarted(*[1.0] * 50)
    trainer.steps(30.0, 20.0, *[1.0] * 5)
    assert result(trainer) is IncidentResult.RECOVERED
    trainer.world.fault(HBM, on="n2")
    trainer.world.settle(MINUTE)

    trainer.steps(*[1.0] * 5)

    assert result(trainer) is IncidentResult.RECOVERED
