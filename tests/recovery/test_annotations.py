"""What a training team writes on its job: bad values are said and count as absent, a lowered number leaves none (recovery 2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery.annotations import HaSettings, read_annotations
from recovery.counters import job_budget_left, pod_budget_left
from schemas.commands import OutcomeResult, StepName
from tests.recovery.rulebooks import with_pod_reschedule
from tests.recovery.world import BROKEN, World, always

MINUTE = timedelta(minutes=1)
RESCHEDULED = ["suspend_job", "resume_job"]
NO_SWITCH = ["True", "TRUE", "yes", "1", "on", "", " true", "true "]
NO_NUMBER = ["-1", "1.5", "two", "", "1e3", "0x10", "+3", "\u0663", "9" * 30]


def read(**annotations: str) -> HaSettings:
    named = {f"fault-tolerance/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return read_annotations(named, pod_retry_default=2)


def bad(running: World) -> list[str]:
    return [decision.reason for decision in running.decisions if decision.rule == "bad-annotation"]


def told(running: World) -> list[str]:
    notices = (command for command in running.commands if command.step is StepName.NOTIFY)
    return [notice.reason for notice in notices if notice.arguments["about"] == "bad_annotation"]


def world(**annotations: Any) -> World:
    return World(rulebook=with_pod_reschedule()).begin(**{"job_retry_num": "3", **annotations})


def test_a_notice_says_by_which_name_the_job_is_found() -> None:
    running = world(job_retry_num="many")

    notice = next(command for command in running.commands if command.step is StepName.NOTIFY)

    assert (notice.arguments["namespace"], notice.arguments["name"]) == ("team", "train")


class TestReading:
    @pytest.mark.parametrize("value", NO_NUMBER)
    @pytest.mark.parametrize(("name", "absent"), [("job_retry_num", 0), ("pod_retry_num", 2)])
    def test_what_is_no_number_counts_as_absent_and_says_what_would_be_right(
        self, name: str, absent: int, value: str
    ) -> None:
        settings = read(**{name: value})
        assert getattr(settings, name) == absent
        (problem,) = settings.problems
        assert name.replace("_", "-") in problem
        assert "a whole number" in problem

    @pytest.mark.parametrize("value", NO_SWITCH)
    @pytest.mark.parametrize(
        ("name", "field"), [("job_unconditional_retry", "unconditional"), ("hang_retry", "hang_retry")]
    )
    def test_what_is_neither_true_nor_false_counts_as_absent(self, name: str, field: str, value: str) -> None:
        settings = read(**{name: value})
        assert getattr(settings, field) is False
        (problem,) = settings.problems
        assert '"true" or "false"' in problem

    def test_good_values_are_read_and_nothing_is_said(self) -> None:
        settings = read(
            job_retry_num="128", pod_retry_num=" 7 ", job_unconditional_retry="true", hang_retry="false"
        )
        assert settings == HaSettings(
            job_retry_num=128, unconditional=True, hang_retry=False, pod_retry_num=7
        )

    @pytest.mark.parametrize(("value", "right"), [("128", True), ("129", False), ("0", True)])
    def test_job_retry_num_has_an_upper_end(self, value: str, right: bool) -> None:
        assert (read(job_retry_num=value).problems == ()) == right

    def test_each_bad_value_is_said_by_itself(self) -> None:
        assert len(read(job_retry_num="x", pod_retry_num="x", hang_retry="x").problems) == 3


class TestBadValuesOfARun:
    def test_a_bad_pod_retry_num_leaves_no_pod_reschedule_and_is_told(self) -> None:
        running = world(pod_retry_num="many")
        running.fault(BROKEN)
        running.settle(2 * MINUTE)
        assert running.begun() == RESCHEDULED
        assert running.counters.pod_retries_used == 0
        assert len(bad(running)) == 1
        assert "pod-retry-num: 'many'" in bad(running)[0]
        assert told(running) == bad(running)

    def test_a_bad_unconditional_switch_leaves_the_job_to_kubernetes_and_is_told(self) -> None:
        running = world(job_unconditional_retry="True")
        running.exit(1)
        running.settle(MINUTE)
        assert running.begun() == ["release_job"]
        assert "job-unconditional-retry: 'True'" in bad(running)[0]
        assert told(running) == bad(running)

    def test_a_bad_hang_switch_restarts_nothing_and_is_told(self) -> None:
        running = world(hang_retry="1")
        running.stall()
        running.settle(MINUTE)
        assert running.begun() == []
        assert "hang-retry: '1'" in bad(running)[0]
        assert told(running) == bad(running)

    def test_the_same_bad_value_is_said_once_however_often_the_job_is_seen(self) -> None:
        running = world(hang_retry="1")
        for _ in range(5):
            running.see_run()
            running.settle()
        assert len(bad(running)) == 1

    def test_a_value_that_becomes_bad_is_said_when_it_does(self) -> None:
        running = world(hang_retry="true")
        running.see_run(job_retry_num="3", hang_retry="sometimes")
        running.settle()
        assert len(bad(running)) == 1
        running.stall()
        running.settle(MINUTE)
        assert running.begun() == []


class TestLowered:
    def test_job_retries_lowered_below_what_is_used_leave_none(self) -> None:
        running = world(job_unconditional_retry="true")
        for _ in range(2):
            running.exit(1, on=next(iter(running.pods.values())).node)
            running.settle(MINUTE)
            running.stable()
        assert running.counters.job_retries_used == 2
        running.see_run(job_retry_num="1", job_unconditional_retry="true")
        running.exit(1, on=next(iter(running.pods.values())).node)
        running.settle(2 * MINUTE)
        assert running.begun()[-1] == "fail_job"
        assert running.incident is not None
        assert running.incident.cause == "budget_exhausted"
        assert running.counters.job_retries_used == 2

    def test_pod_retries_lowered_below_what_is_used_leave_none(self) -> None:
        running = world(pod_retry_num="2")
        running.scripts[StepName.DELETE_PODS] = always(OutcomeResult.DONE)
        running.fault(BROKEN, on="n1")
        running.settle(2 * MINUTE)
        running.stable()
        assert running.counters.pod_retries_used == 1
        running.see_run(job_retry_num="3", pod_retry_num="0")
        running.fault(BROKEN, on="n2")
        running.settle(2 * MINUTE)
        assert running.begun()[-2:] == RESCHEDULED
        assert running.counters.pod_retries_used == 1

    @pytest.mark.parametrize(("allowed", "used", "left"), [(3, 5, 0), (3, 3, 0), (3, 2, 1), (0, 0, 0)])
    def test_what_is_left_is_never_negative(self, allowed: int, used: int, left: int) -> None:
        running = world()
        counters = running.counters
        changed = type(counters)(job_retries_used=used, pod_retries_used=used)
        wanted = HaSettings(job_retry_num=allowed, pod_retry_num=allowed)
        assert (job_budget_left(changed, wanted), pod_budget_left(changed, wanted)) == (left, left)
