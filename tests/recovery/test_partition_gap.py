"""What was lost unread: asked again, revalidated, never concluded from; nothing waits longer for it (design 5)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from recovery.cells import IncidentCell
from schemas.commands import Command, OutcomeResult, StepName
from schemas.envelope import Event, Origin
from schemas.ids import node_subject, run_subject
from schemas.mailbox import HoldAnswer, PartitionGap, PauseOrder
from schemas.records import IncidentState
from tests.recovery.rulebooks import with_pod_reschedule
from tests.recovery.world import BROKEN, HBM, World, always, silent

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def world(**annotations: Any) -> World:
    return World().begin(**{"job_retry_num": "5", "job_unconditional_retry": "true", **annotations})


def lose(running: World, *subjects: str) -> None:
    """The stage tells subjects of a partition that messages of theirs are gone; without an origin, as the stage does."""
    for subject in subjects:
        running.post(subject, PartitionGap(first_lost=10, first_kept=17))
    running.settle()


def looks(running: World, step: StepName) -> list[Command]:
    return [c for c in running.commands if c.step is step and c.action == "look"]


def incident(running: World) -> IncidentCell:
    found = running.incident
    assert found is not None
    return found


def heal_silently(running: World) -> World:
    running.scripts[StepName.HEAL_CHIPS] = silent
    running.fault(HBM)
    running.settle(10 * SECOND)
    assert incident(running).step is not None
    return running


def test_the_step_under_way_is_asked_again_at_once() -> None:
    running = heal_silently(world())
    before = len(looks(running, StepName.HEAL_CHIPS))
    lose(running, run_subject(running.run))
    asked = looks(running, StepName.HEAL_CHIPS)
    assert len(asked) == before + 1
    assert asked[-1].command == asked[0].command, "the same step, asked again"


def test_an_outcome_that_was_lost_comes_with_the_next_look() -> None:
    running = heal_silently(world())
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.DONE)
    lose(running, run_subject(running.run))
    running.settle(MINUTE)
    assert running.begun()[-1] == "start_processes"


def test_it_moves_no_deadline() -> None:
    running = heal_silently(world())
    before = incident(running).deadline
    lose(running, run_subject(running.run))
    lose(running, run_subject(running.run))
    assert incident(running).deadline == before


def test_what_is_asked_again_can_still_be_obeyed_and_names_the_epoch_it_is_meant_for() -> None:
    running = heal_silently(world())
    lose(running, run_subject(running.run))
    asked = running.commands[-1]
    assert asked.not_after > running.now, "an actuator refuses what comes too late"
    assert asked.epoch == running.epoch


def a_silent_pod_on_a_bad_node(*, gap: bool) -> World:
    """A stop barrier that n2's pod does not answer, while n2 is known to be bad."""
    running = World(rulebook=with_pod_reschedule()).begin(job_retry_num="5", pod_retry_num="5")
    running.silent.add(running.pod_on("n2").uid)
    running.condition("not-ready", on="n2")
    running.settle(30 * SECOND)
    running.fault(BROKEN, on="n1")
    if gap:
        lose(running, run_subject(running.run))
    running.settle(2 * MINUTE)
    return running


def test_pods_whose_reports_may_be_lost_are_no_fault_of_their_nodes() -> None:
    running = a_silent_pod_on_a_bad_node(gap=True)
    assert "hold" in running.verdicts()
    assert "pod_reschedule/stop_processes" not in running.rules()
    assert incident(running).held_since is not None


def test_without_a_gap_the_same_silence_is_a_fault_of_the_node() -> None:
    running = a_silent_pod_on_a_bad_node(gap=False)
    assert "hold" not in running.verdicts()
    assert "pod_reschedule/stop_processes" in running.rules()


def test_a_node_s_answer_that_was_lost_is_asked_for_again() -> None:
    running = world()
    route = running._route
    lost: list[Event] = []

    def lose_the_first_answer(topic: str, event: Event, origin: Origin) -> None:
        if isinstance(event.data, HoldAnswer) and not lost:
            lost.append(event)
            return
        route(topic, event, origin)

    running._route = lose_the_first_answer  # type: ignore[method-assign]
    running.fault(BROKEN)
    running.settle(5 * SECOND)
    assert len(lost) == 1
    assert running.begun() == []
    lose(running, run_subject(running.run))
    running.settle(5 * SECOND)
    assert running.begun() == ["suspend_job", "resume_job"]
    assert "not_isolated" not in running.verdicts()


def test_a_node_asks_again_how_its_isolation_stands() -> None:
    running = world()
    running.scripts[StepName.ISOLATE_NODE] = silent
    running.fault(BROKEN, on="n3")
    before = len(looks(running, StepName.ISOLATE_NODE))
    lose(running, node_subject("n3"))
    asked = looks(running, StepName.ISOLATE_NODE)
    assert len(asked) == before + 1


def test_nothing_is_asked_in_a_pause() -> None:
    running = heal_silently(world())
    running.post(run_subject(running.run), PauseOrder(by="ann", reason="look"))
    running.settle()
    before = len(running.commands)
    lose(running, run_subject(running.run))
    assert len(running.commands) == before


def test_decisions_say_for_a_day_that_counts_may_be_too_low() -> None:
    running = world()
    lose(running, run_subject(running.run))
    running.fault(HBM)
    assert "gap" in running.decisions[-1].flags
    running.settle(MINUTE)
    running.stable()
    running.settle(timedelta(hours=25))
    running.fault(HBM)
    assert "gap" not in running.decisions[-1].flags


def test_a_run_and_a_node_with_nothing_open_only_remember_it() -> None:
    running = world()
    told = len(running.decisions), len(running.commands)
    lose(running, run_subject(running.run), node_subject("n1"), node_subject("n2"))
    assert (len(running.decisions), len(running.commands)) == told
    assert "gap" in running.cells[run_subject(running.run)]


@pytest.mark.parametrize("subject", ["run/unheard-of", "node/unheard-of"])
def test_a_subject_nobody_knows_begins_nothing(subject: str) -> None:
    running = world()
    lose(running, subject)
    assert "gap" not in running.cells[subject]
    assert running.commands == []


def _while_attributing(running: World) -> None:
    running.exit(1)


def _while_stabilising(running: World) -> None:
    running.fault(HBM)
    running.settle(MINUTE)
    assert incident(running).state is IncidentState.STABILISING


def _at_a_barrier(running: World) -> None:
    running.silent.update(running.pods)
    running.fault(HBM)


@pytest.mark.parametrize("when", [heal_silently, _while_attributing, _while_stabilising, _at_a_barrier])
def test_whatever_was_lost_silence_alone_still_ends_the_incident(when: Callable[[World], object]) -> None:
    running = world()
    when(running)
    lose(running, run_subject(running.run), *(node_subject(name) for name in running.nodes))
    running.scripts = dict.fromkeys(StepName, silent)
    running.silence()
    assert not incident_is_open(running)


def incident_is_open(running: World) -> bool:
    return running.incident is not None and running.incident.open
