"""Settings with an alternative: what each of their values does (recovery 9)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rules.compiled import CompiledRulebook, default_rulebook
from rules.model import LadderClass
from schemas.commands import Command, OutcomeResult, StepName
from schemas.signals import FaultState
from tests.recovery.rulebooks import with_pod_reschedule, with_settings
from tests.recovery.world import BROKEN, HBM, USER, World, always

MINUTE = timedelta(minutes=1)
RESCHEDULED = ["suspend_job", "resume_job"]
IN_PLACE = ["stop_processes", "heal_chips", "start_processes"]
TWICE = HBM
"""Its own table isolates the second time in a day."""
THRICE = "80E18005"
LINK_DOWN = "81078603"
"""Record class; its own table isolates the fifth time in a day."""
NO_NUMBERS = "80AD8009"
"""Heals by reset; its row has no numbers of its own."""


def world(rulebook: CompiledRulebook, **annotations: Any) -> World:
    return World(rulebook=rulebook).begin(**{"job_retry_num": "9", **annotations})


def repeat(running: World, code: str, times: int) -> World:
    for _ in range(times):
        running.fault(code)
        running.settle(2 * MINUTE)
        if running.pods:
            running.stable()
    return running


class TestEscalation:
    """Recovery 3: three in 24 h as seed 000 has it, or the numbers of the code's own table."""

    @pytest.mark.parametrize(
        ("choice", "code", "times", "isolated"),
        [
            ("off", TWICE, 2, False),
            ("off", TWICE, 3, True),
            ("table", TWICE, 1, False),
            ("table", TWICE, 2, True),
            ("table", THRICE, 2, False),
            ("table", THRICE, 3, True),
            ("off", LINK_DOWN, 9, False),
            ("table", LINK_DOWN, 4, False),
            ("table", LINK_DOWN, 5, True),
            ("table", NO_NUMBERS, 2, False),
            ("table", NO_NUMBERS, 3, True),
            ("table", USER, 2, False),
        ],
    )
    def test_how_often_a_code_may_come(self, choice: str, code: str, times: int, isolated: bool) -> None:
        running = repeat(world(with_settings(escalation=choice)), code, times)
        assert ("n1" in running.held) == isolated

    def test_user_class_is_not_isolated_by_its_number(self) -> None:
        running = repeat(world(with_settings(escalation="table")), USER, 3)
        assert not running.held

    def test_the_table_s_window_is_its_own(self) -> None:
        running = world(with_settings(escalation="table"))
        repeat(running, TWICE, 1)
        running.settle(timedelta(hours=25))
        repeat(running, TWICE, 1)
        assert not running.held

    def test_a_decision_says_how_many_of_how_many(self) -> None:
        running = repeat(world(with_settings(escalation="table")), LINK_DOWN, 2)
        considered = running.decisions[-1].considered or running.decisions[-2].considered
        details = {item.detail for item in considered if item.rule == "repeats-by-its-own-table"}
        assert details == {"2 of 5 in its window"}

    def test_the_default_knows_no_repeat_rule_of_a_table(self) -> None:
        assert default_rulebook().repeat("ascend", TWICE) is None
        found = with_settings(escalation="table").repeat("ascend", TWICE)
        assert found is not None
        assert (found.at_least, found.within, found.ladder_class) == (
            2,
            timedelta(days=1),
            LadderClass.ISOLATE,
        )


class TestRankZero:
    """A28: rank 0 takes part in pod reschedule, as in seed 000, or its site excludes it."""

    @pytest.mark.parametrize(
        ("allowed", "where", "begun"),
        [
            (True, "n1", ["stop_processes", "delete_pods", "start_processes"]),
            (True, "n2", ["stop_processes", "delete_pods", "start_processes"]),
            (False, "n1", RESCHEDULED),
            (False, "n2", ["stop_processes", "delete_pods", "start_processes"]),
        ],
    )
    def test_whose_pod_may_be_made_anew_alone(self, allowed: bool, where: str, begun: list[str]) -> None:
        running = world(with_pod_reschedule(rank_zero_in_pod_reschedule=allowed), pod_retry_num="2")
        running.scripts[StepName.DELETE_PODS] = always(OutcomeResult.DONE)
        assert running.pod_on("n1").rank == 0
        running.fault(BROKEN, on=where)
        running.settle(2 * MINUTE)
        assert running.begun() == begun
        assert running.held == {where}

    def test_after_a_failed_healing_too(self) -> None:
        running = world(with_pod_reschedule(rank_zero_in_pod_reschedule=False), pod_retry_num="2")
        running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.FAILED)
        running.fault(HBM, on="n1")
        running.settle(2 * MINUTE)
        assert running.begun() == ["stop_processes", "heal_chips", *RESCHEDULED]
        assert running.counters.pod_retries_used == 0

    def test_a_heavier_fault_under_way_too(self) -> None:
        running = world(with_pod_reschedule(rank_zero_in_pod_reschedule=False), pod_retry_num="2")
        running.fault(HBM, on="n2")
        running.fault(BROKEN, on="n1")
        running.settle(2 * MINUTE)
        assert running.begun() == ["stop_processes", *RESCHEDULED]


class TestRetainedPods:
    """A29: the start counter of pods that a pod reschedule keeps goes on, or begins at 1 as a sentence of seed 000 has it."""

    @pytest.mark.parametrize("choice", ["continue", "reset"])
    def test_whoever_starts_their_processes_is_told(self, choice: str) -> None:
        running = world(with_pod_reschedule(retained_pod_counter=choice), pod_retry_num="2")
        running.scripts[StepName.DELETE_PODS] = always(OutcomeResult.DONE)
        running.fault(BROKEN)
        running.settle(2 * MINUTE)
        (start,) = [c for c in running.commands if c.step is StepName.START_PROCESSES and c.action == "begin"]
        assert start.arguments["counter"] == choice

    def test_a_restart_in_place_keeps_all_pods_and_says_nothing_of_it(self) -> None:
        running = world(with_settings(retained_pod_counter="reset"))
        running.fault(HBM)
        running.settle(2 * MINUTE)
        starts: list[Command] = [c for c in running.commands if c.step is StepName.START_PROCESSES]
        assert starts
        assert all("counter" not in start.arguments for start in starts)


class TestNoSpare:
    """A30 for isolate class: isolate at once and wait for capacity, or look first and fail the job at once."""

    @staticmethod
    def broken(choice: str, *, spare: bool) -> World:
        running = world(with_settings(no_spare={"self_heal": "stay", "isolate": choice}))
        running.spare = spare
        running.fault(BROKEN)
        running.settle(2 * MINUTE)
        return running

    def test_wait_isolates_at_once_and_asks_nobody(self) -> None:
        running = self.broken("wait", spare=False)
        assert running.begun() == RESCHEDULED
        assert running.held == {"n1"}

    def test_fail_isolates_and_fails_the_job_with_its_own_cause(self) -> None:
        running = self.broken("fail", spare=False)
        assert running.begun() == ["find_spare", "fail_job"]
        assert running.held == {"n1"}
        assert running.incidents[-1].result_cause == "no_spare"
        assert "no_spare" in {flag for decision in running.decisions for flag in decision.flags}

    def test_fail_with_a_spare_goes_on_as_ever(self) -> None:
        running = self.broken("fail", spare=True)
        assert running.begun() == ["find_spare", *RESCHEDULED]
        assert running.held == {"n1"}

    def test_fail_with_no_answer_takes_silence_for_no_spare(self) -> None:
        running = world(with_settings(no_spare={"self_heal": "stay", "isolate": "fail"}))
        running.scripts[StepName.FIND_SPARE] = always(OutcomeResult.PENDING)
        running.fault(BROKEN)
        running.settle(2 * MINUTE)
        assert running.begun()[-1] == "fail_job"


class TestTablesAreFound:
    """What producers emit finds its class: namespaces of exporters, and servers' codes told as conditions of nodes."""

    @pytest.mark.parametrize(
        ("namespace", "code", "held"),
        [
            ("dcgm", "row-remap-failure", True),
            ("dcgm", "nvlink-crc-rate", False),
            ("dcgm", "nvlink-replay-rate", False),
            ("ascend-status", "unhealthy", False),
            ("ascend-status", "link-down", False),
        ],
    )
    def test_a_signal_of_an_exporter(self, namespace: str, code: str, held: bool) -> None:
        running = world(default_rulebook())
        running.fault(code, namespace=namespace, state=FaultState.ASSERTED)
        running.settle(2 * MINUTE)
        assert ("n1" in running.held) == held
        assert running.begun() == (RESCHEDULED if held else [])
        assert "unknown-code" not in running.rules()

    @pytest.mark.parametrize(
        ("namespace", "code"),
        [
            ("dcgm", "pcie-replay-rate"),
            ("dcgm", "nvlink-recovery-rate"),
            ("ascend-status", "network-unhealthy"),
        ],
    )
    def test_a_link_that_is_bad_takes_no_new_work_and_stops_no_running_job(
        self, namespace: str, code: str
    ) -> None:
        running = world(default_rulebook())
        running.fault(code, namespace=namespace, state=FaultState.ASSERTED)
        running.settle(10 * MINUTE)
        assert running.held == {"n1"}
        assert running.begun() == []

    def test_a_server_s_code_told_as_a_condition_isolates_as_its_row_says(self) -> None:
        running = world(default_rulebook())
        running.condition("2C000031", on="n1")
        running.settle(3 * MINUTE)
        assert running.held == {"n1"}
        assert running.begun() == RESCHEDULED

    def test_a_server_s_deferred_code_leaves_the_running_job_alone(self) -> None:
        running = world(default_rulebook())
        running.condition("0000001D", on="n1")
        running.settle(3 * MINUTE)
        assert running.held == {"n1"}
        assert running.begun() == []
