"""What the live view and the plain lines say of events: each once, in words, and only what is news."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runtime.kubernetes import Object
from sandbox.demo.acts import ACTS
from sandbox.demo.board import Board
from sandbox.demo.course import latest
from sandbox.demo.happening import Happening, Kind, Teller
from sandbox.demo.lines import Lines
from sandbox.demo.shows import Screen, choose_show, save
from sandbox.demo.watching import Glance
from schemas.cluster import ISOLATED
from schemas.commands import StepName
from schemas.envelope import Event
from schemas.records import IncidentState
from schemas.signals import MilestoneName, Placement, ProcessExit, Progress
from tests.sandbox.demo.events import (
    RUN,
    at,
    command,
    decision,
    event,
    fault,
    incident,
    milestone,
    outcome,
    story,
)  # fmt: skip


def node(name: str, *, isolated: bool = False, ready: str = "True") -> Object:
    taints = [{"key": ISOLATED, "effect": "NoSchedule"}] if isolated else []
    return {
        "metadata": {"name": name},
        "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def pod(name: str, phase: str, on: str = "node-1") -> Object:
    labels = {"batch.kubernetes.io/job-completion-index": "1"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {"nodeName": on},
        "status": {"phase": phase},
    }


def told(events: list[object], ranks: int = 2) -> list[str]:
    teller = Teller(ranks)
    return [f"{line.kind.value}: {line.text}" for one in events for line in teller.event(one)]  # type: ignore[arg-type]


def test_a_recovery_is_told_from_the_fault_to_its_end_without_looks_and_pending_answers() -> None:
    assert told(list(story())) == [
        "signal: node-1: xid 46 once on chip GPU-1",
        "decision: in_place_recovery (rule self-heal, row 6): the fault heals",
        "recovery: acting: in_place_recovery",
        "step: stop_processes begins (attempt 1 of this recovery)",
        "step: stop_processes done, 2 pods told",
        "step: heal_chips begins (attempt 1 of this recovery)",
        "step: heal_chips done",
        "step: start_processes begins (attempt 1 of this recovery)",
        "step: start_processes done, 2 pods told",
        "recovery: stabilising: in_place_recovery",
        "phase: all 2 ranks: they have found each other",
        "phase: all 2 ranks: the checkpoint is loaded",
        "recovery: recovered by in_place_recovery",
    ]


def test_what_repeats_is_left_out() -> None:
    progress = Progress(placement=Placement(run="r", rank=0), step=7)

    assert (
        told([event("p", 1, progress), command(2, StepName.HEAL_CHIPS, "look"), command(2, StepName.NOTIFY)])
        == []
    )
    assert told([incident(1, IncidentState.ACTING), incident(2, IncidentState.ACTING)]) == [
        "recovery: acting: in_place_recovery"
    ]


def test_what_a_node_decides_is_told_only_when_something_comes_of_it() -> None:
    asked, nothing = decision(1, "hold"), decision(1, "record")

    assert told([nothing.model_copy(update={"subject": "node/n"})]) == []
    assert len(told([asked.model_copy(update={"subject": "node/n"}), nothing])) == 2


def test_a_decision_in_shadow_says_that_it_is_one_and_is_not_taken_for_what_was_done() -> None:
    shadow = decision(0.6, mode="shadow")

    of_the_site = shadow.model_copy(
        update={"data": shadow.data.model_copy(update={"rule": "ours", "row": ""})}
    )
    assert told([shadow, of_the_site]) == [
        "decision: only in shadow: in_place_recovery (rule self-heal, row 6): the fault heals",
        "decision: only in shadow: in_place_recovery (rule ours): the fault heals",
    ]
    course = latest([shadow, incident(1, IncidentState.ACTING)], 2, at(9))
    assert course is not None
    assert course.decision is None
    assert [phase.name for phase in course.phases] == ["detection"]


def ended(seconds: float, *, epoch: int = 1, **how: Any) -> Event:
    placement = Placement(run=RUN, pod="p-0", rank=0, epoch=epoch)
    return event(f"exit-{seconds}-{epoch}", seconds, ProcessExit(placement=placement, start=1, **how))


def test_an_end_says_whether_relight_ordered_it() -> None:
    assert told([ended(1, exit_code=1), ended(2, exit_code=0, signal=15, ordered_attempt=1)]) == [
        "signal: p-0: the training process ended with code 1, which relight did not order",
        "signal: p-0: the training process ended with signal 15, as relight ordered",
    ]


def test_a_normal_end_is_not_told_as_one_that_went_wrong() -> None:
    assert told([ended(1, exit_code=0)]) == [
        "signal: p-0: the training process ended with code 0, a normal end"
    ]


def test_an_end_of_a_pod_that_a_suspension_takes_away_is_told_as_that_and_a_later_one_is_not() -> None:
    lines = told(
        [
            ended(0, exit_code=1),
            command(1, StepName.SUSPEND_JOB),
            ended(2, exit_code=0, signal=15),
            ended(9, exit_code=0, signal=9, epoch=2),
            ended(0.5, exit_code=0, signal=11),  # before it, and told late
        ]
    )

    assert [line.rpartition(", ")[2] for line in lines if line.startswith("signal")] == [
        "which relight did not order",
        "as relight suspends the job",
        "which relight did not order",
        "which relight did not order",
    ]


def test_attempts_are_counted_within_a_recovery_though_their_numbers_run_on_over_the_run() -> None:
    def numbered(attempt: int, of: str, step: StepName = StepName.STOP_PROCESSES, **more: Any) -> Event:
        begun = command(attempt, step)
        data = begun.data.model_copy(update={"attempt": attempt, "incident": of, **more})
        return begun.model_copy(update={"data": data})

    assert told(
        [
            numbered(3, "second"),
            numbered(3, "second", StepName.START_PROCESSES),
            numbered(4, "second"),
            numbered(5, "third"),
            numbered(17, "of a node", StepName.ISOLATE_NODE, subject="node/n"),
        ]
    ) == [
        "step: stop_processes begins (attempt 1 of this recovery)",
        "step: start_processes begins (attempt 1 of this recovery)",
        "step: stop_processes begins (attempt 2 of this recovery)",
        "step: stop_processes begins (attempt 1 of this recovery)",
        "step: isolate_node begins",
    ]


def test_a_milestone_is_told_when_the_last_rank_has_reached_it_and_once() -> None:
    first, second = (milestone(1, MilestoneName.FIRST_STEP, rank) for rank in (0, 1))

    assert told([first, first]) == []
    assert told([first, second, second]) == ["phase: all 2 ranks: the first step is done"]


def test_edges_of_pods_and_taints_are_told_once() -> None:
    teller = Teller(2)

    assert [line.text for line in teller.pods([pod("a", "Pending")], at(0))] == [
        "a: Pending on node-1, issue 1"
    ]
    assert teller.pods([pod("a", "Pending")], at(1)) == []
    assert [line.text for line in teller.pods([], at(2))] == ["a: gone"]
    assert teller.nodes([node("n")], at(0)) == []
    assert "isolated" in teller.nodes([node("n", isolated=True)], at(1))[0].text
    assert teller.nodes([node("n", isolated=True)], at(2)) == []
    assert "released" in teller.nodes([node("n")], at(3))[0].text


def test_the_course_of_a_recovery_has_its_steps_and_phases_that_add_up_to_the_whole() -> None:
    course = latest(story(), 2, at(9))

    assert course is not None
    assert course.over
    assert course.state == "recovered"
    assert [(step.name, step.result) for step in course.steps] == [
        ("stop_processes", "done"), ("heal_chips", "done"), ("start_processes", "done"),
    ]  # fmt: skip
    assert [(phase.name, round(phase.seconds, 3)) for phase in course.phases] == [
        ("detection", 0.5), ("termination", 3.0), ("communication", 1.0), ("checkpoint", 0.2), ("stabilisation", 1.3),
    ]  # fmt: skip
    assert sum(phase.seconds for phase in course.phases) == pytest.approx(6.0)


def test_a_phase_under_way_lasts_until_now_and_the_next_have_not_begun() -> None:
    course = latest(story()[:5], 2, at(2))

    assert course is not None
    assert not course.over
    assert [(phase.name, round(phase.seconds, 3), phase.over) for phase in course.phases] == [
        ("detection", 0.5, True), ("termination", 1.5, False),
    ]  # fmt: skip
    assert course.steps[0].result == "done"


def test_before_the_first_incident_there_is_no_course() -> None:
    assert latest([fault()], 2, at(1)) is None


def test_a_new_issue_has_phases_for_its_pods() -> None:
    events = [
        fault(), decision(1, "isolated_job_reschedule"), incident(1, IncidentState.ACTING, strategy="isolated_job_reschedule"),
        command(2, StepName.SUSPEND_JOB), command(3, StepName.RESUME_JOB), outcome(5, StepName.RESUME_JOB),
    ]  # fmt: skip

    course = latest(events, 2, at(6))

    assert course is not None
    assert [(phase.name, phase.seconds, phase.over) for phase in course.phases] == [
        ("detection", 1.0, True), ("termination", 2.0, True), ("requeue", 2.0, True), ("warm_up", 1.0, False),
    ]  # fmt: skip


def text_of(board: Board, glance: Glance, *, width: int = 124, height: int = 38) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(board.frame(glance))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_frame_shows_the_act_the_nodes_the_course_and_the_last_lines() -> None:
    board = Board(2)
    board.act(1, 3, ACTS[0])
    for number in range(99):
        board.tell(Happening(at(number), Kind.STEP, f"line {number}"))
    step = Progress(placement=Placement(run="r", rank=1, pod_uid="uid-p"), step=260)
    nodes = [node("node-0", isolated=True), node("node-1"), node("node-2", ready="Unknown")]

    shown = text_of(board, Glance(at(9), nodes, [pod("p", "Running")], [*story(), event("s", 8, step)]))

    for wanted in (
        "Act 1 of 3",
        ACTS[0].title,
        "isolated",
        "NotReady",
        "Running",
        "260",
        "✓ heal_chips",
        "termination\N{NO-BREAK SPACE}3.0",
        "line 98",
    ):
        assert wanted in shown, wanted
    assert "line 1 " not in shown


def test_text_of_others_is_shown_as_it_is() -> None:
    board = Board(2)
    board.tell(Happening(at(1), Kind.POD, "[bold]x[/bold] [/oops]"))

    assert "[bold]x[/bold] [/oops]" in text_of(board, Glance(at(2)))


def test_without_a_terminal_each_happening_is_one_plain_line() -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out, width=40))
    lines.act(1, 3, ACTS[0])
    lines.tell(
        Happening(
            at(1.25), Kind.DECISION, "a reason that is much longer than the width of this console [/oops]"
        )
    )

    headline, line = out.getvalue().splitlines()
    assert headline.startswith("--- act 1 of 3")
    assert (
        line == "12:00:01.250  decision  a reason that is much longer than the width of this console [/oops]"
    )


def test_the_screen_is_for_terminals_that_did_not_ask_for_lines() -> None:
    terminal, pipe = (
        Console(file=io.StringIO(), force_terminal=True),
        Console(file=io.StringIO(), force_terminal=False),
    )

    assert isinstance(choose_show(terminal, plain=False, record=None), Screen)
    assert isinstance(choose_show(terminal, plain=True, record=None), Lines)
    assert isinstance(choose_show(pipe, plain=False, record=None), Lines)


def test_a_picture_is_an_svg_that_needs_nothing_else(tmp_path: Path) -> None:
    board = Board(2)
    board.act(2, 3, ACTS[1])

    save(board.frame(Glance(at(9), [node("node-1")], [], story())), tmp_path / "demo.svg")

    drawn = (tmp_path / "demo.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "heal_chips" in drawn
    assert "url(http" not in drawn
