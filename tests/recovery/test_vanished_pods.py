"""A pod object that vanished proves nothing about its processes: no stop is complete before they are known gone (recovery 5)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from recovery.cells import PodCell, RunCell
from schemas.commands import Command, StepName
from schemas.envelope import Payload
from schemas.facts import PodEnded
from schemas.ids import run_subject
from schemas.mailbox import NodeNews
from schemas.records import IncidentState
from schemas.signals import ProcessState, ProcessStateName
from tests.recovery.rulebooks import with_settings
from tests.recovery.world import BROKEN, HBM, Pod, World, node

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
IN_PLACE = ["stop_processes", "heal_chips", "start_processes"]
BOUND = 5 * MINUTE


def stopping(world: World | None = None) -> tuple[World, Pod]:
    """Both pods are told to stop; n2's says nothing, and its object vanishes."""
    running = (world or World()).begin(job_retry_num="3")
    silent = running.pod_on("n2")
    running.silent.add(silent.uid)
    running.fault(HBM)
    running.settle(5 * SECOND)
    assert running.begun() == ["stop_processes"]
    running.take_away(silent, gone=False)
    running.settle(20 * SECOND)  # looks go on, and find one pod less to tell
    return running, silent


def says(running: World, pod: Pod, state: ProcessStateName, *, attempt: int | None = None) -> None:
    incident = running.incident
    number = attempt if attempt is not None else incident.attempt if incident else 0
    said = ProcessState(
        placement=running.where(pod), epoch=pod.epoch, attempt=number, state=state, start=pod.starts
    )
    running.post(run_subject(running.run), said)
    running.settle()


def cells(running: World, prefix: str) -> dict[str, PodCell]:
    found = running.cells[run_subject(running.run)].items()
    return {name: cell for name, cell in found if name.startswith(prefix) and isinstance(cell, PodCell)}


def run_cell(running: World) -> RunCell:
    cell = running.cells[run_subject(running.run)]["run"]
    assert isinstance(cell, RunCell)
    return cell


def ended_again(running: World, pod: Pod) -> None:
    """The kubelet's word, after the object went."""
    fact = PodEnded(node=node(pod.node), placement=running.where(pod), how="deleted", processes_gone=True)
    running.post(run_subject(running.run), fact)
    running.settle()


def test_a_stop_is_not_complete_while_a_vanished_pod_may_still_write() -> None:
    running, _ = stopping()
    assert running.begun() == ["stop_processes"]


def test_the_kubelet_s_word_completes_it() -> None:
    running, pod = stopping()
    ended_again(running, pod)
    assert running.begun()[:2] == IN_PLACE[:2]
    assert run_cell(running).pods == 1


def test_the_supervisor_s_word_for_this_attempt_completes_it() -> None:
    running, pod = stopping()
    says(running, pod, ProcessStateName.STOPPED)
    assert running.begun()[:2] == IN_PLACE[:2]
    assert not any(cell.unfenced for cell in cells(running, "pod/").values())


@pytest.mark.parametrize("state", [ProcessStateName.STOPPED, ProcessStateName.RUNNING])
def test_its_word_for_an_attempt_before_does_not(state: ProcessStateName) -> None:
    running, pod = stopping()
    says(running, pod, state, attempt=0)
    running.settle(20 * SECOND)
    assert running.begun() == ["stop_processes"]


def test_a_pod_that_reported_before_it_vanished_is_not_waited_for() -> None:
    running = World().begin(job_retry_num="3")
    first, second = running.pod_on("n1"), running.pod_on("n2")
    running.silent.update(running.pods)
    running.fault(HBM)
    running.settle(5 * SECOND)
    says(running, first, ProcessStateName.STOPPED)
    running.take_away(first, gone=False)
    running.settle(20 * SECOND)
    says(running, second, ProcessStateName.STOPPED)
    assert running.begun()[:2] == IN_PLACE[:2]


def test_its_node_that_is_gone_takes_the_processes_with_it() -> None:
    running, pod = stopping()
    gone = NodeNews(
        node=node("n2"),
        placement=running.where(pod),
        namespace="node",
        code="gone",
        state="asserted",
        evidence="e",
        seen_at=running.now,
    )
    running.post(run_subject(running.run), gone)
    running.settle()
    assert not any(cell.unfenced for cell in cells(running, "pod/").values())


def test_so_does_its_node_s_object_that_goes_after_it() -> None:
    running, _ = stopping()
    running.lose("n2")
    running.settle(20 * SECOND)
    assert running.begun()[:2] == IN_PLACE[:2]


def test_so_does_one_that_had_gone_before_it() -> None:
    running = World().begin(job_retry_num="3")
    silent = running.pod_on("n2")
    running.silent.add(silent.uid)
    running.lose("n2")
    running.fault(HBM)
    running.settle(5 * SECOND)
    assert running.begun() == ["stop_processes"]
    running.take_away(silent, gone=False)
    running.settle(20 * SECOND)
    assert running.begun()[:2] == IN_PLACE[:2]


def test_the_object_of_another_node_that_goes_says_nothing_of_it() -> None:
    running, _ = stopping()
    running.lose("n3")
    running.settle(20 * SECOND)
    assert running.begun() == ["stop_processes"]


def test_another_node_that_is_gone_does_not() -> None:
    running, pod = stopping()
    gone = NodeNews(
        node=node("n3"),
        placement=running.where(pod),
        namespace="node",
        code="gone",
        state="asserted",
        evidence="e",
        seen_at=running.now,
    )
    running.post(run_subject(running.run), gone)
    running.settle()
    assert any(cell.unfenced for cell in cells(running, "pod/").values())


def test_at_the_barrier_s_deadline_it_is_a_silent_pod_and_nobody_is_isolated() -> None:
    running, _ = stopping()
    running.settle(2 * MINUTE)
    held = [decision for decision in running.decisions if "held" in decision.flags]
    assert len(held) == 1
    assert "vanished" in held[0].reason
    assert not running.held


def test_after_its_time_it_is_waited_for_no_longer_and_the_decision_says_so() -> None:
    running, pod = stopping()
    running.settle(BOUND)
    told = [decision for decision in running.decisions if "unfenced" in decision.flags]
    assert len(told) == 1
    assert pod.uid in told[0].reason
    assert "heal_chips" in running.begun()


def test_that_time_is_a_setting() -> None:
    running, _ = stopping(World(rulebook=with_settings(unfenced_pod="40s")))
    assert running.begun() == ["stop_processes"]
    running.settle(25 * SECOND)
    assert running.begun()[:2] == IN_PLACE[:2]


def test_silence_ends_it_whatever_happens() -> None:
    running, _ = stopping()
    running.silence()
    assert not cells(running, "pod/pod-2")
    assert running.incident is None


def test_a_pod_deleted_by_a_human_leads_to_a_rebuild_at_the_next_fault() -> None:
    running = World().begin(job_retry_num="3")
    running.take_away(running.pod_on("n2"), gone=False)
    running.settle(SECOND)
    running.fault(HBM)
    running.settle(MINUTE)
    assert running.begun() == ["suspend_job", "resume_job"]
    assert run_cell(running).pods == 2


def deletes_in_place(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    """Suspends the way the Job controller does: pods vanish, and the kubelet is not asked."""
    if command.action == "begin":
        for pod in list(world.pods.values()):
            world.take_away(pod, gone=False)
        yield world.answer(command)


def test_pods_that_a_suspension_deletes_hold_nothing_up() -> None:
    running = World().begin(job_retry_num="3")
    running.scripts[StepName.SUSPEND_JOB] = deletes_in_place
    running.fault(BROKEN)
    running.settle(MINUTE)
    assert running.incident is not None
    assert running.incident.state is IncidentState.STABILISING
    assert set(cells(running, "pod/")) == {f"pod/{uid}" for uid in running.pods}
    running.stable()
    running.fault(HBM, on="n2")
    running.settle(MINUTE)
    assert running.begun()[-3:] == IN_PLACE


def test_nor_do_those_of_a_job_its_user_suspended() -> None:
    running = World().begin(job_retry_num="3")
    running.see_run(suspended=True)
    for pod in list(running.pods.values()):
        running.take_away(pod, gone=False)
    running.settle()
    assert not cells(running, "pod/")


def test_a_replacement_does_not_stand_for_the_one_that_vanished() -> None:
    running = World().begin(job_retry_num="3")
    lost = running.pod_on("n2")
    running.take_away(lost, gone=False)
    new = Pod(uid="new", node="n3", rank=1, epoch=1)
    running.pods[new.uid] = new
    running._tell_bound(new)
    running.settle()
    running.fault(HBM)
    running.settle(30 * SECOND)
    assert running.begun() == ["stop_processes"]
    ended_again(running, lost)
    assert running.begun()[:2] == IN_PLACE[:2]


class TestSecondReporterOfAnExit:
    """(pod, start) is the identity of an exit, whatever became of the pod meanwhile."""

    @pytest.mark.parametrize("gone", [True, False])
    def test_past_the_pod_s_end_it_changes_nothing(self, gone: bool) -> None:
        running = World().begin(job_retry_num="3")
        pod = running.pod_on("n2")
        running.exit(1, on="n2")
        running.take_away(pod, gone=gone)
        running.settle(10 * MINUTE)
        before = len(running.decisions), len(running.commands)
        running.pods[pod.uid], pod.starts = pod, 1
        running.exit(1, on="n2")
        running.settle(MINUTE)
        assert (len(running.decisions), len(running.commands)) == before

    def test_an_exit_first_heard_of_past_the_end_is_judged_once(self) -> None:
        running = World().begin(job_retry_num="3")
        pod = running.pod_on("n2")
        running.take_away(pod)
        for _ in range(2):
            running.pods[pod.uid], pod.starts = pod, 1
            running.exit(1, on="n2")
            running.settle(10 * MINUTE)
        assert running.rules().count("abnormal-exit") == 1

    def test_what_was_kept_for_it_goes_with_the_issue(self) -> None:
        running = World().begin(job_retry_num="3", job_unconditional_retry="true")
        running.take_away(running.pod_on("n2"))
        running.settle()
        assert len(cells(running, "exit/")) == 1
        running.exit(1)
        running.settle(MINUTE)
        assert running.counters.schedule_count == 2
        assert not cells(running, "exit/")


class TestWordBeforeTheWatchers:
    """A supervisor may be heard before its pod is known to be bound."""

    @staticmethod
    def unbound(running: World, name: str = "n3") -> Pod:
        pod = Pod(uid=f"early-{name}", node=name, rank=1, epoch=running.epoch)
        running.pods[pod.uid] = pod
        return pod

    def test_its_stop_is_counted(self) -> None:
        running = World().begin(job_retry_num="3")
        running.take_away(running.pod_on("n2"))
        new = self.unbound(running)
        says(running, new, ProcessStateName.RUNNING, attempt=0)
        running._tell_bound(new)
        running.settle()
        running.silent.update(running.pods)
        running.fault(HBM)
        running.settle(5 * SECOND)
        says(running, running.pod_on("n1"), ProcessStateName.STOPPED)
        late = self.unbound(running, "n4")
        running.take_away(new)
        running.settle()
        says(running, late, ProcessStateName.STOPPED)
        running.settle(20 * SECOND)
        assert running.begun()[:2] == IN_PLACE[:2]

    def test_the_watcher_s_word_completes_it_and_keeps_what_was_said(self) -> None:
        running = World().begin(job_retry_num="3")
        new = self.unbound(running)
        says(running, new, ProcessStateName.RUNNING, attempt=4)
        assert run_cell(running).early_pods == 1
        running._tell_bound(new)
        running.settle()
        cell = cells(running, "pod/")[f"pod/{new.uid}"]
        assert (cell.node.uid, cell.running_attempt, cell.due) == ("n3", 4, None)
        assert (run_cell(running).early_pods, run_cell(running).pods) == (0, 3)

    def test_there_are_no_more_of_them_than_the_run_has_pods(self) -> None:
        running = World().begin(job_retry_num="3")
        for number in range(9):
            says(running, self.unbound(running, f"m{number}"), ProcessStateName.RUNNING, attempt=0)
        assert len(cells(running, "pod/early")) == running.size

    def test_who_is_never_bound_is_forgotten_in_time(self) -> None:
        running = World().begin(job_retry_num="3")
        says(running, self.unbound(running), ProcessStateName.RUNNING, attempt=0)
        running.settle(10 * MINUTE)
        assert not cells(running, "pod/early")
        assert run_cell(running).early_pods == 0

    def test_a_pod_that_has_ended_and_one_of_the_issue_before_are_not_made_again(self) -> None:
        running = World().begin(job_retry_num="3", job_unconditional_retry="true")
        old = running.pod_on("n2")
        running.take_away(old)
        running.settle()
        says(running, old, ProcessStateName.STOPPED, attempt=0)
        assert not cells(running, f"pod/{old.uid}")
        running.exit(1)
        running.settle(MINUTE)
        says(running, old, ProcessStateName.STOPPED, attempt=0)
        assert not cells(running, f"pod/{old.uid}")
