"""Each row of the ladder is reached by a case, and each row's "must not" is a case of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from schemas.commands import OutcomeResult, StepName
from schemas.envelope import TimeQuality, Trust
from schemas.records import IncidentResult, IncidentState
from schemas.signals import EvictionReason, FaultState, Severity
from tests.recovery.world import BROKEN, HBM, NOTICE, USER, World, always, silent

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def world(**annotations: str) -> World:
    given: dict[str, Any] = {"job_retry_num": "5", **annotations}
    return World().begin(**given)


class TestRow0HaOff:
    def test_without_job_retry_num_a_broken_chip_holds_its_node_and_leaves_the_job_alone(self) -> None:
        off = World().begin()
        off.fault(BROKEN)
        off.settle(MINUTE)
        assert off.begun() == []
        assert off.held == {"n1"}
        assert off.verdicts() == ["record"]

    @pytest.mark.parametrize("value", ["0", "-1", "129", "three", "", "1.5"])
    def test_zero_and_values_outside_the_domain_are_off(self, value: str) -> None:
        off = World().begin(job_retry_num=value)
        off.exit(1)
        off.settle(MINUTE)
        assert off.begun() == []

    def test_switched_off_during_an_incident_what_was_stopped_is_started_again(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = silent
        running.fault(HBM)
        running.settle(10 * SECOND)
        running.see_run(job_retry_num="0")
        running.settle(MINUTE)
        assert running.begun() == ["stop_processes", "heal_chips", "start_processes"]
        assert not running.held


class TestRow1Merge:
    def test_a_second_chip_joins_before_healing_begins_and_both_are_healed_once(self) -> None:
        running = world()
        running.fault(HBM, on="n1")
        running.fault(HBM, on="n2", chip=1)
        running.settle(MINUTE)
        heals = [c for c in running.commands if c.step is StepName.HEAL_CHIPS and c.action == "begin"]
        assert [{chip["chip"] for chip in heal.arguments["chips"]} for heal in heals] == [{"n1-c0", "n2-c1"}]
        assert "merge" in running.verdicts()

    def test_a_second_chip_during_healing_begins_a_new_attempt_of_the_same_incident(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = silent
        running.fault(HBM, on="n1")
        running.settle(10 * SECOND)
        first = running.incident
        del running.scripts[StepName.HEAL_CHIPS]
        running.fault("80A18008", on="n2")
        running.settle(MINUTE)
        assert first is not None
        assert running.incident is not None
        assert running.incident.id == first.id
        assert running.incident.attempt == 2
        assert running.incident.state is IncidentState.STABILISING

    def test_a_broken_chip_during_an_in_place_recovery_replaces_the_plan(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = silent
        running.fault(HBM)
        running.settle(10 * SECOND)
        running.fault(BROKEN, on="n2")
        running.settle(MINUTE)
        assert running.begun()[-2:] == ["suspend_job", "resume_job"]
        assert running.held == {"n2"}

    def test_peers_that_die_of_our_own_stop_start_nothing(self) -> None:
        running = world(job_unconditional_retry="true")
        running.fault(HBM)
        running.exit(143, on="n1", ordered=1)
        running.exit(1, on="n2")
        running.settle(MINUTE)
        assert running.begun() == ["stop_processes", "heal_chips", "start_processes"]
        assert running.counters.unconditional_chain == 0

    def test_a_thousand_ranks_that_end_together_are_one_incident_and_few_decisions(self) -> None:
        large = World(nodes=tuple(f"n{number}" for number in range(120)), size=100)
        large.begin(job_retry_num="3", job_unconditional_retry="true")
        for number in range(100):
            large.exit(1, on=f"n{number}")
        assert len({incident.incident for incident in large.incidents}) == 1
        assert len(large.decisions) < 30


class TestRow1bStabilising:
    def test_a_fault_while_stabilising_is_a_new_attempt_of_the_same_incident(self) -> None:
        running = world()
        running.fault(HBM, on="n1")
        running.settle(MINUTE)
        first = running.incident
        running.fault(HBM, on="n2")
        running.settle(MINUTE)
        assert first is not None
        assert running.incident is not None
        assert (running.incident.id, running.incident.attempt) == (first.id, 2)

    def test_without_a_word_stabilising_ends_as_incomplete(self) -> None:
        running = world()
        running.fault(HBM)
        running.settle(16 * MINUTE)
        assert running.incident is not None
        assert running.incident.result is IncidentResult.INCOMPLETE


class TestRow2Record:
    def test_a_record_class_fault_does_nothing_however_often(self) -> None:
        running = world()
        for _ in range(10):
            running.fault(NOTICE)
        running.settle(MINUTE)
        assert running.begun() == []
        assert not running.held

    def test_a_notice_without_a_row_is_recorded(self) -> None:
        running = world()
        running.fault("ABCDEF01", severity=Severity.NOTICE)
        running.settle(MINUTE)
        assert running.rules() == ["record-class"]


class TestRow3Preemption:
    @pytest.mark.parametrize(
        ("reason", "details"),
        [
            (EvictionReason.SCHEDULER, {}),
            (EvictionReason.EVICTION_API, {"ours": True}),
            (EvictionReason.EVICTION_API, {"draining": True}),
        ],
        ids=["by the scheduler", "by us", "from a node being drained"],
    )
    def test_a_pod_moved_off_on_purpose_costs_nothing(
        self, reason: EvictionReason, details: dict[str, Any]
    ) -> None:
        running = world()
        running.evict(reason, **details)
        running.settle(MINUTE)
        assert running.begun() == ["suspend_job", "resume_job"]
        assert (running.counters.job_retries_used, running.counters.unconditional_chain) == (0, 0)
        assert running.counters.schedule_count == 2
        assert not running.held

    def test_a_queue_that_requeues_by_itself_is_left_alone(self) -> None:
        running = world()
        running.evict(EvictionReason.QUEUE)
        running.settle(MINUTE)
        assert running.begun() == []

    def test_an_announced_preemption_reschedules_before_the_node_goes(self) -> None:
        running = world()
        running.notice()
        running.settle(MINUTE)
        assert running.begun() == ["suspend_job", "resume_job"]


class TestRow4Isolate:
    def test_a_broken_chip_isolates_at_once_and_moves_the_job(self) -> None:
        running = world()
        running.fault(BROKEN)
        running.settle(MINUTE)
        assert running.held == {"n1"}
        assert running.begun() == ["suspend_job", "resume_job"]
        assert {pod.node for pod in running.pods.values()} == {"n2", "n3"}

    def test_a_node_that_stays_not_ready_is_a_node_fault_of_its_runs(self) -> None:
        running = world()
        running.condition("not-ready")
        running.settle(59 * SECOND)
        assert running.begun() == []
        running.settle(2 * MINUTE)
        assert running.held == {"n1"}
        assert running.begun() == ["suspend_job", "resume_job"]

    def test_a_node_that_is_ready_again_within_its_grace_is_no_fault(self) -> None:
        running = world()
        running.condition("not-ready")
        running.settle(30 * SECOND)
        running.condition("not-ready", state=FaultState.CLEARED)
        running.settle(10 * MINUTE)
        assert running.begun() == []
        assert not running.held

    def test_healing_that_fails_isolates(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.FAILED, cause="still_faulty")
        running.fault(HBM)
        running.settle(5 * MINUTE)
        assert running.held == {"n1"}
        assert running.begun()[-2:] == ["suspend_job", "resume_job"]

    def test_healing_that_fails_on_one_of_two_nodes_isolates_only_that_one(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.FAILED, failed_on=("n2",))
        running.fault(HBM, on="n1")
        running.fault("80A18008", on="n2")
        running.settle(5 * MINUTE)
        assert running.held == {"n2"}

    def test_two_equal_faults_in_a_day_do_not_isolate(self) -> None:
        running = world()
        for _ in range(2):
            running.fault(HBM)
            running.settle(MINUTE)
            running.stable()
        running.settle(2 * MINUTE)
        assert not running.held
        assert running.counters.job_retries_used == 0

    def test_a_third_equal_fault_after_24_hours_does_not_isolate(self) -> None:
        running = world()
        for hours in (0, 1, 24):
            running.settle(timedelta(hours=hours) - timedelta(hours=max(0, hours - 24)))
            running.fault(HBM)
            running.settle(MINUTE)
            running.stable()
        running.settle(timedelta(hours=1))
        assert not running.held

    def test_three_faults_of_three_chips_do_not_isolate(self) -> None:
        running = World(nodes=("n1", "n2", "n3", "n4"), size=3).begin(job_retry_num="3")
        for name in ("n1", "n2", "n3"):
            running.fault(HBM, on=name)
            running.settle(2 * MINUTE)
            running.stable()
        assert not running.held

    def test_the_same_event_told_three_times_is_one_occurrence(self) -> None:
        running = world()
        for _ in range(3):
            running.fault(HBM, id="the-one-line-of-the-log")
            running.settle(MINUTE)
        running.settle(10 * MINUTE)
        assert running.begun().count("stop_processes") == 1
        assert not running.held

    def test_no_spare_for_a_fault_that_heals_stays_in_place(self) -> None:
        running = world()
        running.spare = False
        for _ in range(2):
            running.fault(HBM)
            running.settle(MINUTE)
            running.stable()
        running.commands.clear()
        running.fault(HBM)
        running.settle(5 * MINUTE)
        assert running.begun() == ["find_spare", "stop_processes", "heal_chips", "start_processes"]
        assert not running.held
        assert running.counters.job_retries_used == 0

    def test_a_guard_that_blocks_is_said_and_the_run_is_kept_off_all_the_same(self) -> None:
        running = world()
        running.scripts[StepName.ISOLATE_NODE] = always(OutcomeResult.BLOCKED, cause="guard:rate")
        running.fault(BROKEN)
        running.settle(3 * MINUTE)
        assert "not_isolated" in running.verdicts()
        assert {pod.node for pod in running.pods.values()} == {"n2", "n3"}

    def test_out_of_budget_the_isolation_is_finished_and_the_job_failed(self) -> None:
        running = world(job_retry_num="1")
        running.fault(BROKEN)
        running.settle(MINUTE)
        running.stable()
        running.fault(BROKEN, on="n2")
        running.settle(5 * MINUTE)
        assert running.held == {"n1", "n2"}
        assert running.begun()[-1] == "fail_job"
        assert running.incident is not None
        assert running.incident.cause == "budget_exhausted"
        (failing,) = [one for one in running.decisions if one.verdict == "fail_job"]
        assert failing.reason.endswith("; budget exhausted")

    @pytest.mark.parametrize("how", ["the heal fails", "another fault joins"])
    def test_out_of_budget_in_the_middle_of_a_recovery_the_decision_says_so_too(self, how: str) -> None:
        running = world(job_retry_num="1")
        running.fault(BROKEN)
        running.settle(MINUTE)
        running.stable()
        running.scripts[StepName.HEAL_CHIPS] = always(
            OutcomeResult.FAILED if how == "the heal fails" else OutcomeResult.PENDING
        )
        running.fault(HBM, on="n2")
        running.settle(5 * SECOND)
        if how == "another fault joins":
            running.fault(BROKEN, on="n2")
        running.settle(5 * MINUTE)
        (failing,) = [one for one in running.decisions if one.verdict == "fail_job"]
        assert failing.reason.endswith("; budget exhausted")

    def test_a_deferred_fault_leaves_the_running_job_alone_until_it_ends(self) -> None:
        running = world()
        running.condition("kernel-deadlock")
        running.settle(10 * MINUTE)
        assert running.begun() == []
        assert running.held == {"n1"}
        running.exit(1)
        running.settle(5 * MINUTE)
        assert running.begun() == ["suspend_job", "resume_job"]
        assert running.counters.unconditional_chain == 0


class TestRow5NothingIsolated:
    def test_three_user_class_faults_reschedule_and_isolate_nothing(self) -> None:
        running = world()
        for _ in range(2):
            running.fault(USER)
            running.settle(MINUTE)
            running.stable()
        running.fault(USER)
        running.settle(5 * MINUTE)
        assert running.begun()[-2:] == ["suspend_job", "resume_job"]
        assert not running.held
        assert running.counters.unconditional_chain == 1

    def test_the_run_s_limit_without_progress_reschedules_and_does_not_count_in_the_chain(self) -> None:
        names = tuple(f"n{number}" for number in range(9))
        running = World(nodes=names, size=8).begin(job_retry_num="3")
        for number in range(7):
            running.fault(HBM, on=f"n{number}")
            running.settle(2 * MINUTE)
        assert running.begun()[-2:] == ["suspend_job", "resume_job"]
        assert not running.held
        assert running.counters.unconditional_chain == 0

    def test_the_same_code_on_two_chips_at_once_is_not_counted_towards_isolation(self) -> None:
        running = world()
        for _ in range(4):
            running.fault(HBM, on="n1", settle=False)
            running.fault(HBM, on="n2")
            running.settle(10 * MINUTE)
            running.stable()
        assert not running.held
        assert "filtered-fault-came-again" in running.rules()


class TestRow6InPlace:
    def test_an_unsupervised_run_is_not_touched(self) -> None:
        running = World().begin(supervised=False, job_retry_num="3")
        running.fault(HBM)
        running.settle(10 * MINUTE)
        assert running.begun() == []
        assert not running.held

    def test_a_missing_pod_reschedules_and_isolates_nothing(self) -> None:
        running = world()
        running.take_away(running.pod_on("n2"))
        running.settle()
        running.fault(HBM, on="n1")
        running.settle(MINUTE)
        assert running.begun() == ["suspend_job", "resume_job"]
        assert not running.held
        assert running.counters.unconditional_chain == 0

    def test_a_reset_unit_with_a_foreign_process_reschedules_and_isolates_nothing(self) -> None:
        running = world()
        running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.FAILED, cause="foreign_process")
        running.fault(HBM)
        running.settle(2 * MINUTE)
        assert running.begun()[-2:] == ["suspend_job", "resume_job"]
        assert not running.held


class TestRow7Hang:
    def test_a_hang_is_told_but_not_acted_on_without_the_annotation(self) -> None:
        running = world()
        running.stall()
        running.settle(MINUTE)
        assert running.begun() == []
        assert running.rules() == ["hang-not-asked-for"]

    def test_three_hang_restarts_in_a_row_and_the_fourth_fails_the_job(self) -> None:
        running = world(hang_retry="true")
        for _ in range(3):
            running.stall()
            running.settle(2 * MINUTE)
            running.stable()
        assert running.begun() == ["stop_processes", "start_processes"] * 3
        running.stall()
        running.settle(2 * MINUTE)
        assert running.begun()[-1] == "fail_job"
        assert running.counters.job_retries_used == 0
        assert not running.held

    def test_progress_between_hangs_breaks_the_row(self) -> None:
        running = world(hang_retry="true")
        for number in range(6):
            running.stall()
            running.settle(2 * MINUTE)
            running.step(100 * number)
            running.step(100 * number + 50)
            running.stable()
        assert "fail_job" not in running.begun()


class TestRow8PreCheck:
    def test_a_failed_check_issues_the_job_again_elsewhere_and_isolates_nothing(self) -> None:
        running = world()
        running.check("disk-size root", on="n1")
        running.settle(MINUTE)
        assert running.begun() == ["suspend_job", "resume_job"]
        assert {pod.node for pod in running.pods.values()} == {"n2", "n3"}
        assert not running.held
        assert running.counters.job_retries_used == 1

    def test_fewer_devices_than_granted_isolate(self) -> None:
        running = world()
        running.check("npu-check", on="n1", granted=8, found=7)
        running.settle(MINUTE)
        assert running.held == {"n1"}

    def test_the_same_item_on_two_nodes_is_the_job_s_own_and_is_said_so(self) -> None:
        running = world()
        running.check("dns", on="n1")
        running.settle(MINUTE)
        running.check("dns", on="n2")
        running.settle(MINUTE)
        assert "pre-check-failed-everywhere" in running.rules()
        assert not running.held


class TestRow9Evicted:
    @pytest.mark.parametrize("reason", [EvictionReason.EVICTION_API, EvictionReason.KUBELET])
    def test_evicted_by_somebody_else_fails_the_job_after_the_window(self, reason: EvictionReason) -> None:
        running = world(job_unconditional_retry="true")
        running.evict(reason)
        assert running.begun() == []
        running.settle(2 * MINUTE)
        assert running.begun() == ["fail_job"]
        assert not running.held
        assert running.counters.job_retries_used == 0

    def test_a_node_fault_within_the_window_saves_the_job(self) -> None:
        running = world()
        running.evict(EvictionReason.KUBELET)
        running.fault(BROKEN)
        running.settle(5 * MINUTE)
        assert "fail_job" not in running.begun()
        assert running.begun() == ["suspend_job", "resume_job"]

    @pytest.mark.parametrize("reason", [EvictionReason.TAINT_MANAGER, EvictionReason.POD_GC])
    def test_removed_because_its_node_is_lost_is_a_node_fault(self, reason: EvictionReason) -> None:
        running = world()
        running.evict(reason)
        running.settle(5 * MINUTE)
        assert running.held == {"n1"}
        assert "fail_job" not in running.begun()


class TestRow10AbnormalEnd:
    def test_without_the_flag_the_job_is_left_to_kubernetes(self) -> None:
        running = world()
        running.exit(1)
        running.settle(MINUTE)
        assert running.begun() == ["release_job"]
        assert running.counters.job_retries_used == 0

    def test_nothing_is_decided_before_the_window_is_over(self) -> None:
        running = world(job_unconditional_retry="true")
        running.exit(1)
        running.settle(9 * SECOND)
        assert running.begun() == []
        running.settle(1.5 * SECOND)
        assert running.begun() == ["suspend_job"]

    def test_a_hardware_fault_in_the_window_isolates_instead_of_counting(self) -> None:
        running = world(job_unconditional_retry="true")
        running.exit(1)
        running.settle(9 * SECOND)
        running.fault(BROKEN)
        running.settle(5 * MINUTE)
        assert running.held == {"n1"}
        assert running.counters.unconditional_chain == 0

    def test_a_hardware_fault_heard_of_late_gives_back_the_retry_and_the_chain(self) -> None:
        running = world(job_unconditional_retry="true")
        before = running.now
        running.exit(1)
        running.settle(MINUTE)
        assert running.counters.job_retries_used == 1
        where = {pod.node for pod in running.pods.values()}
        bad = next(name for name in running.nodes if name not in where)
        running.fault(BROKEN, on=bad, placed=False, time=before)
        running.settle(MINUTE)
        assert running.counters.schedule_count == 2

    def test_exit_zero_is_no_abnormal_end(self) -> None:
        running = world(job_unconditional_retry="true")
        running.exit(0)
        running.settle(MINUTE)
        assert running.begun() == []
        assert running.decisions == []

    def test_a_start_that_fails_isolates_nobody(self) -> None:
        running = world(job_unconditional_retry="true")
        running.scripts[StepName.START_PROCESSES] = always(OutcomeResult.FAILED)
        running.fault(HBM)
        running.settle(5 * MINUTE)
        assert not running.held
        assert running.begun()[-2:] == ["suspend_job", "resume_job"]


class TestRow11NothingLeft:
    def test_no_capacity_is_its_own_cause_and_never_user_code(self) -> None:
        running = world(job_unconditional_retry="true")
        running.down.update(running.nodes)
        running.exit(1)
        running.settle(40 * MINUTE)
        assert running.incidents[-1].result is IncidentResult.FAILED
        assert running.incidents[-1].result_cause == "no_capacity"

    def test_a_job_that_may_not_be_created_again_fails_with_that_cause(self) -> None:
        running = world(job_unconditional_retry="true")
        running.scripts[StepName.RESUME_JOB] = always(OutcomeResult.FAILED, cause="not_admitted")
        running.exit(1)
        running.settle(40 * MINUTE)
        assert running.begun()[-1] == "fail_job"
        assert running.incidents[-1].result_cause == "not_admitted"

    def test_an_issue_that_failed_while_it_was_resumed_is_an_abnormal_end_of_its_own(self) -> None:
        running = world(job_unconditional_retry="true")
        running.scripts[StepName.RESUME_JOB] = always(OutcomeResult.FAILED, cause="ended_again")
        running.exit(1)
        running.settle(10 * MINUTE)
        assert running.begun().count("resume_job") == 3, "retried within the chain, then failed"
        assert running.begun()[-1] == "fail_job"
        assert running.incidents[-1].result_cause != "no_capacity"

    def test_three_resumes_at_the_same_step_end_as_no_progress(self) -> None:
        running = world(job_retry_num="20", job_unconditional_retry="true")
        for _ in range(3):
            running.exit(1)
            running.settle(MINUTE)
            running.step(500)
            running.stable()
        running.exit(1)
        running.settle(5 * MINUTE)
        assert running.begun()[-1] == "fail_job"
        assert running.incident is not None
        assert running.incident.cause == "no_progress"


class TestRow12AnythingElse:
    def test_a_code_nobody_knows_is_told_and_never_isolates(self) -> None:
        running = world()
        for _ in range(5):
            running.fault("12345678", namespace="somebody")
        running.settle(10 * MINUTE)
        assert running.begun() == []
        assert not running.held

    def test_another_system_s_word_isolates_nothing(self) -> None:
        running = world()
        running.fault(BROKEN, trust=Trust.EXTERNAL)
        running.settle(10 * MINUTE)
        assert running.begun() == []
        assert not running.held

    def test_a_fault_with_an_implausible_time_is_never_counted(self) -> None:
        running = world()
        for _ in range(4):
            running.fault(HBM, timequality=TimeQuality.CLAMPED)
            running.settle(2 * MINUTE)
            running.stable()
            running.step(running.counters.furthest_step + 10)
        assert not running.held or running.rules()[-1] == "chip-limit-reached"
        assert "same-fault-repeats" not in running.rules()
