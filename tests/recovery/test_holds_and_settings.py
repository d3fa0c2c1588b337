"""Holds, pauses, the budget matrix, and settings that have an alternative."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery.cells import IsolationCell
from rules.compiled import CompiledRulebook
from schemas.commands import OutcomeResult, StepName
from schemas.facts import NodeSeen
from schemas.ids import node_subject, run_subject
from schemas.mailbox import PauseOrder, ReleaseNodeOrder, ResumeOrder
from schemas.records import IncidentState
from schemas.signals import EvictionReason, Severity
from tests.recovery.rulebooks import with_pod_reschedule, with_settings
from tests.recovery.world import BROKEN, HBM, USER, World, always, node, silent

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
RESCHEDULED = ["suspend_job", "resume_job"]
IN_PLACE = ["stop_processes", "heal_chips", "start_processes"]


def world(rulebook: CompiledRulebook | None = None, **annotations: Any) -> World:
    begun = World(rulebook=rulebook) if rulebook else World()
    return begun.begin(**{"job_retry_num": "5", **annotations})


class TestMatrix:
    """Research 2.8: job retries, pod retries, unconditional chain, hang chain, MA_SCHEDULE_CNT."""

    @staticmethod
    def numbers(running: World) -> tuple[int, ...]:
        c = running.counters
        return (c.job_retries_used, c.pod_retries_used, c.unconditional_chain, c.hang_chain, c.schedule_count)

    @staticmethod
    def after_an_unconditional_restart(**annotations: Any) -> World:
        running = world(job_unconditional_retry="true", **annotations)
        running.exit(1)
        running.settle(MINUTE)
        running.stable()
        running.settle(15 * MINUTE)
        assert TestMatrix.numbers(running) == (1, 0, 1, 0, 2)
        return running

    @pytest.mark.parametrize(("code", "chain"), [(HBM, 0), (USER, 1)], ids=["hardware", "user"])
    def test_in_place_costs_nothing_and_only_hardware_breaks_the_chain(self, code: str, chain: int) -> None:
        running = self.after_an_unconditional_restart()
        running.fault(code, on=next(iter(running.pods.values())).node)
        running.settle(MINUTE)
        assert self.numbers(running) == (1, 0, chain, 0, 2)

    def test_a_hang_restart_costs_nothing_and_adds_to_its_own_chain(self) -> None:
        running = self.after_an_unconditional_restart(hang_retry="true")
        running.stall(on=next(iter(running.pods.values())).node)
        running.settle(MINUTE)
        assert self.numbers(running) == (1, 0, 1, 1, 2)

    def test_isolated_takes_a_retry_and_breaks_the_chain(self) -> None:
        running = self.after_an_unconditional_restart()
        running.fault(BROKEN, on=next(iter(running.pods.values())).node)
        running.settle(MINUTE)
        assert self.numbers(running) == (2, 0, 0, 0, 3)

    def test_unconditional_takes_a_retry_and_adds_to_the_chain(self) -> None:
        running = self.after_an_unconditional_restart()
        running.exit(1, on=next(iter(running.pods.values())).node)
        running.settle(MINUTE)
        assert self.numbers(running) == (2, 0, 2, 0, 3)

    def test_preemption_costs_nothing_but_is_a_new_issue(self) -> None:
        running = self.after_an_unconditional_restart()
        running.evict(EvictionReason.SCHEDULER, on=next(iter(running.pods.values())).node)
        running.settle(MINUTE)
        assert self.numbers(running) == (1, 0, 1, 0, 3)

    def test_a_pre_check_reissue_takes_a_retry_and_leaves_the_chains(self) -> None:
        running = self.after_an_unconditional_restart()
        running.check(on=next(iter(running.pods.values())).node)
        running.settle(MINUTE)
        assert self.numbers(running) == (2, 0, 1, 0, 3)

    def test_after_a_failed_pod_reschedule_the_chain_is_zero_and_pods_that_never_ran_add_nothing(
        self,
    ) -> None:
        running = world(with_pod_reschedule(), pod_retry_num="1", job_unconditional_retry="true")
        running.scripts[StepName.DELETE_PODS] = always(OutcomeResult.FAILED)
        running.fault(BROKEN)
        running.settle(2 * MINUTE)
        assert running.begun() == ["stop_processes", "delete_pods", *RESCHEDULED]
        assert self.numbers(running) == (1, 1, 0, 0, 2)
        assert running.held == {"n1"}

    def test_a_pod_reschedule_whose_processes_started_is_a_new_issue_and_takes_no_job_retry(self) -> None:
        running = world(with_pod_reschedule(), pod_retry_num="1")
        running.scripts[StepName.DELETE_PODS] = always(OutcomeResult.DONE)
        running.fault(BROKEN)
        running.settle(2 * MINUTE)
        assert running.begun() == ["stop_processes", "delete_pods", "start_processes"]
        assert self.numbers(running) == (0, 1, 0, 0, 2)


class TestHolds:
    def test_an_idle_node_is_held_for_its_own_fault(self) -> None:
        running = world()
        running.fault(BROKEN, on="n3")
        running.settle(MINUTE)
        assert running.held == {"n3"}
        assert running.begun() == []

    def test_a_node_that_we_do_not_hold_is_never_released(self) -> None:
        running = world()
        running.post(node_subject("n1"), NodeSeen(node=node("n1"), ready=True, cordoned=True))
        running.post(node_subject("n1"), ReleaseNodeOrder(by="ann", reason="seems fine"))
        running.settle(MINUTE)
        assert [c for c in running.commands if c.step is StepName.RELEASE_NODE] == []

    def test_a_human_s_order_releases_what_we_hold(self) -> None:
        running = world()
        running.fault(BROKEN, on="n3")
        running.settle(MINUTE)
        running.post(node_subject("n3"), ReleaseNodeOrder(by="ann", reason="replaced"))
        running.settle(MINUTE)
        assert not running.held
        assert running.holds("n3") == []

    def test_taking_our_taint_off_cancels_what_is_pending(self) -> None:
        running = world()
        running.scripts[StepName.ISOLATE_NODE] = silent
        running.fault(BROKEN, on="n3")
        running.post(node_subject("n3"), NodeSeen(node=node("n3"), ready=True, released_by="kubectl"))
        running.settle(timedelta(hours=2))
        assert running.holds("n3") == []

    def test_uncordoning_ends_the_holds_and_takes_our_taint_off(self) -> None:
        running = world()
        running.fault(BROKEN, on="n3")
        running.settle(MINUTE)
        assert running.held == {"n3"}
        uncordoned = NodeSeen(node=node("n3"), ready=True, our_taint=True, released_by="kubectl-uncordon")
        running.post(node_subject("n3"), uncordoned)
        running.settle(timedelta(hours=2))
        assert running.holds("n3") == []
        assert not running.held
        assert running.begun(of=node_subject("n3")) == ["isolate_node", "release_node"]

    def test_a_blocked_isolation_is_asked_again_and_then_a_human_is_told(self) -> None:
        running = world()
        running.scripts[StepName.ISOLATE_NODE] = always(OutcomeResult.BLOCKED, cause="guard")
        running.fault(BROKEN, on="n3")
        running.settle(timedelta(hours=3))
        tries = [c for c in running.commands if c.step is StepName.ISOLATE_NODE and c.action == "begin"]
        assert len(tries) == running.rulebook.settings.hold_tries
        assert [d.verdict for d in running.decisions].count("give_up") == 1

    def test_runs_that_ask_while_it_is_under_way_do_not_ask_again(self) -> None:
        running = world()
        running.scripts[StepName.ISOLATE_NODE] = silent
        running.fault(BROKEN)
        running.settle(4 * SECOND)
        begun = [c for c in running.commands if c.step is StepName.ISOLATE_NODE and c.action == "begin"]
        assert len(begun) == 1

    def test_nothing_is_asked_of_a_node_that_is_gone(self) -> None:
        running = world()
        running.lose("n3")
        running.fault(BROKEN, on="n3")
        running.settle(timedelta(hours=2))
        cells = running.cells[node_subject("n3")].values()
        assert not any(isinstance(cell, IsolationCell) for cell in cells)
        assert not running.held


class TestPause:
    def test_a_pause_freezes_deadlines_and_resume_moves_them(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
        running.fault(HBM)
        running.settle(10 * SECOND)
        running.post(run_subject(running.run), PauseOrder(by="ann", reason="look"))
        running.settle(timedelta(hours=5))
        assert running.incident is not None
        assert running.incident.strategy == "in_place_recovery"
        assert not running.held
        running.post(run_subject(running.run), ResumeOrder(by="ann", reason="seen"))
        running.settle(2 * MINUTE)
        assert not running.held  # 180 s of healing began 10 s before the pause
        running.settle(2 * MINUTE)
        assert running.held == {"n1"}

    def test_an_incident_that_opens_in_a_pause_sends_nothing_until_it_is_resumed(self) -> None:
        running = world()
        running.post(run_subject(running.run), PauseOrder(by="ann", reason="look"))
        running.settle()
        running.fault(HBM)
        running.settle(timedelta(hours=1))
        assert running.begun() == []
        running.post(run_subject(running.run), ResumeOrder(by="ann", reason="seen"))
        running.settle(MINUTE)
        assert running.begun() == IN_PLACE


class TestSettings:
    def test_drain_is_fail_takes_the_seed_to_the_letter(self) -> None:
        running = world(with_settings(drain_is="fail"))
        running.evict(EvictionReason.EVICTION_API, draining=True)
        running.settle(2 * MINUTE)
        assert running.begun() == ["fail_job"]

    @pytest.mark.parametrize(("choice", "held"), [("isolate", {"n1"}), ("unconditional", set())])
    def test_a_user_class_code_that_still_stands_after_healing(self, choice: str, held: set[str]) -> None:
        running = world(with_settings(user_class_heal_failed=choice))
        running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.FAILED, cause="still_faulty")
        running.fault(USER)
        running.settle(2 * MINUTE)
        assert running.held == held
        assert running.begun()[-2:] == RESCHEDULED

    def test_without_in_place_among_what_retry_num_implies_a_healing_fault_is_recorded(self) -> None:
        running = world(with_settings(retry_num_implies=["isolated_job", "pre_check"]))
        running.fault(HBM)
        running.settle(MINUTE)
        assert running.begun() == []
        assert not running.held

    def test_pod_retries_have_a_default_only_when_the_settings_give_one(self) -> None:
        running = world(with_pod_reschedule(pod_retry_default=2))
        running.scripts[StepName.DELETE_PODS] = always(OutcomeResult.DONE)
        running.fault(BROKEN)
        running.settle(2 * MINUTE)
        assert running.counters.pod_retries_used == 1

    def test_mindcluster_s_severity_mapping_can_be_chosen(self) -> None:
        mapping = {"notice": "record", "minor": "self_heal_reset", "major": "isolate", "critical": "isolate"}
        running = world(with_settings(severity_fallback=mapping))
        running.fault("ABCDEF02", severity=Severity.MAJOR)
        running.settle(MINUTE)
        assert running.held == {"n1"}

    @pytest.mark.parametrize(
        ("choice", "last"), [("stay", "start_processes"), ("wait", "resume_job"), ("fail", "fail_job")]
    )
    def test_every_choice_without_a_spare(self, choice: str, last: str) -> None:
        running = world(with_settings(no_spare={"self_heal": choice, "isolate": "wait"}))
        running.spare = False
        for _ in range(2):
            running.fault(HBM)
            running.settle(MINUTE)
            running.stable()
        running.fault(HBM)
        running.settle(2 * MINUTE)
        assert running.begun()[-1] == last


class TestBarrier:
    def test_many_silent_pods_isolate_nobody_and_end_safely(self) -> None:
        names = tuple(f"n{number}" for number in range(8))
        running = World(nodes=names, size=6).begin(job_retry_num="3")
        running.silent.update(list(running.pods)[:5])
        running.fault(HBM)
        running.settle(20 * MINUTE)
        assert not running.held
        assert running.begun() == ["stop_processes", "start_processes", "release_job"]
        assert running.incidents[-1].state is IncidentState.CLOSED

    def test_few_silent_pods_on_ready_nodes_isolate_nobody(self) -> None:
        running = world()
        running.silent.add(running.pod_on("n2").uid)
        running.fault(HBM)
        running.settle(20 * MINUTE)
        assert not running.held

    def test_a_silent_api_holds_and_isolates_nobody(self) -> None:
        running = world()
        running.scripts[StepName.STOP_PROCESSES] = always(OutcomeResult.UNREACHABLE)
        running.fault(HBM)
        running.settle(14 * MINUTE)
        assert not running.held
        assert "hold" in running.verdicts()
        running.settle(timedelta(hours=2))
        assert not running.held
        assert running.incidents[-1].state is IncidentState.CLOSED
        assert "fail_job" not in running.begun()

    def test_a_silent_pod_on_a_node_that_is_not_ready_isolates_that_node(self) -> None:
        running = world()
        running.silent.add(running.pod_on("n2").uid)
        running.fault(HBM, on="n1")
        running.condition("not-ready", on="n2")
        running.settle(5 * MINUTE)
        assert running.held == {"n2"}


def test_a_node_held_for_a_fault_that_was_merged_says_why_that_fault_wants_it() -> None:
    world = World().begin(job_retry_num="3")
    world.fault(HBM, on="n2")
    world.fault(HBM, on="n2")
    world.fault(BROKEN, on="n1")  # the incident's own rule is another one

    world.fault(HBM, on="n2", placed=False)  # the third of its chip in a day
    world.settle(SECOND)

    assert [(hold.cause.code, hold.rule) for hold in world.holds("n2")] == [(HBM, "same-fault-repeats")]


def test_steps_of_processes_about_to_be_replaced_are_no_progress_since() -> None:
    world = World().begin(job_retry_num="3")
    world.step(7)
    world.scripts[StepName.STOP_PROCESSES] = silent
    world.fault(HBM, on="n1")
    assert world.counters.in_place_since_progress == 1

    world.step(8)

    assert world.counters.in_place_since_progress == 1
