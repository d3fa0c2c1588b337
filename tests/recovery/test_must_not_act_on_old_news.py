"""What speaks of a replaced issue, a dead process, or our own doing must start nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from schemas.commands import OutcomeResult, StepName
from schemas.ids import run_subject
from schemas.records import IncidentResult, IncidentState
from schemas.signals import EvictionReason, HangEvidence, Placement, ProcessExit
from tests.recovery.world import BROKEN, HBM, World, always, node, silent

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
RESCHEDULED = ["suspend_job", "resume_job"]
IN_PLACE = ["stop_processes", "heal_chips", "start_processes"]


def world(**annotations: Any) -> World:
    return World().begin(**{"job_retry_num": "5", "job_unconditional_retry": "true", **annotations})


def test_a_late_exit_of_a_pod_that_was_suspended_restarts_nothing() -> None:
    running = world()
    running.exit(1)
    running.settle(MINUTE)
    where = Placement(run=running.run, pod_uid="pod-2", rank=1, epoch=1)
    running.post(
        run_subject(running.run), ProcessExit(node=node("n2"), placement=where, start=1, exit_code=137)
    )
    running.settle(MINUTE)
    assert running.begun() == RESCHEDULED
    assert running.counters.job_retries_used == 1


def test_a_stall_of_the_process_that_was_replaced_restarts_nothing() -> None:
    running = world(hang_retry="true")
    pod = running.pod_on("n2")
    old = pod.starts
    running.stall(on="n1")
    pod.starts += 1
    running.settle(MINUTE)
    stalled = HangEvidence(
        placement=running.where(pod), state="stalled", method="io", last_progress=running.now, start=old
    )
    running.post(run_subject(running.run), stalled)
    running.settle(MINUTE)
    assert running.begun() == ["stop_processes", "start_processes"]
    assert running.counters.hang_chain == 1


def test_our_own_kill_heard_of_after_the_incident_closed_is_no_abnormal_end() -> None:
    running = world()
    running.fault(HBM)
    running.settle(MINUTE)
    running.stable()
    running.exit(143, ordered=1)
    running.settle(MINUTE)
    assert running.begun() == IN_PLACE


def test_a_preemption_does_not_make_later_ends_of_the_same_incident_free() -> None:
    running = world()
    running.evict(EvictionReason.SCHEDULER)
    running.settle(MINUTE)
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING
    running.exit(1, on=next(iter(running.pods.values())).node)
    running.settle(MINUTE)
    assert running.rules()[-1] == "end-unconditional"
    assert running.counters.job_retries_used == 1


def test_a_process_of_the_new_pods_that_ends_before_resume_is_answered_is_judged() -> None:
    running = world()
    running.exit(1)
    running.scripts[StepName.RESUME_JOB] = always(OutcomeResult.PENDING)
    running.settle(20 * SECOND)
    running.epoch = 2
    running.see_run()
    running.place(("n1", "n2"))
    running.settle()
    running.exit(1)
    del running.scripts[StepName.RESUME_JOB]
    running.settle(MINUTE)
    assert running.counters.unconditional_chain == 2
    assert running.counters.schedule_count >= 2


def test_a_thousand_stalls_are_one_notice() -> None:
    running = World(nodes=tuple(f"n{number}" for number in range(40)), size=40).begin(job_retry_num="1")
    for number in range(40):
        running.stall(on=f"n{number}")
    notices = [command for command in running.commands if command.step is StepName.NOTIFY]
    assert len(notices) == 1


def test_cancelled_before_anything_was_stopped_the_job_just_goes_on() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = silent
    running.fault(BROKEN)
    running.see_run(job_retry_num="0")
    running.settle(10 * MINUTE)
    assert running.begun() == []
    assert running.incident is None or running.incident.result is IncidentResult.CANCELLED


def test_switched_off_meanwhile_a_later_end_does_not_fail_the_job() -> None:
    running = world()
    running.scripts[StepName.HEAL_CHIPS] = silent
    running.fault(HBM)
    running.settle(10 * SECOND)
    running.see_run(job_retry_num="0")
    running.settle(MINUTE)
    running.exit(1)
    running.settle(MINUTE)
    assert running.begun() == IN_PLACE


def test_a_rebuild_that_waits_longer_than_ten_minutes_outlives_its_failed_object() -> None:
    running = world()
    running.down.update(running.nodes)
    running.exit(1)
    running.settle(20 * SECOND)
    running.end("failed")
    running.settle(15 * MINUTE)
    running.down.clear()
    running.settle(MINUTE)
    assert running.pods
    assert running.incidents[-1].result is not IncidentResult.RUN_ENDED
