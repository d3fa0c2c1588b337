"""When silence of a pod's processes is a hang - and, mostly, when it is none. Virtual time; a look every ten seconds unless said."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from producers.supervisors import line as words
from producers.supervisors.standstills import AWAY, Edge
from schemas.cluster import Desired, ProcessOrder
from tests.producers.supervisors.silence import DEFAULT, DEVICES, HOUR, MINUTE, Ear, Scene, states, training
from tests.producers.supervisors.supervised import own_pod

UNTIL = datetime(2026, 3, 1, 13, tzinfo=UTC)

# ---------------------------------------------------------------- a hang


def test_silence_for_half_an_hour_after_a_step_is_told_once_with_the_last_word_as_its_time() -> None:
    scene = training()
    scene.passes(HOUR / 4)
    scene.step(7)
    last = scene.wall

    assert scene.passes(DEFAULT - 10) == []
    (edge,) = scene.passes(20)
    assert (edge.state, edge.launch, edge.last_progress) == ("stalled", 1, last)
    assert edge.peer.placement.pod_uid == "pod-1"
    assert scene.passes(10 * HOUR) == []


def test_a_word_after_it_is_told_as_moving_and_a_second_stall_is_a_second_event() -> None:
    scene = training()
    assert states(scene.passes(HOUR)) == ["stalled"]
    scene.step(2)
    moved = scene.wall

    assert scene.passes(MINUTE) == [Edge(scene.peer(), "moving", 1, moved)]
    assert states(scene.passes(HOUR)) == ["stalled"]


@pytest.mark.parametrize(("minutes", "silent"), [(90.0, 90), (5, 5), (0.5, 0.5)])
def test_how_long_is_too_long_is_the_run_s_own_word(minutes: float, silent: float) -> None:
    scene = Scene()
    scene.hello(hang_minutes=minutes)
    scene.step()

    assert scene.passes(silent * MINUTE - 10) == []
    assert states(scene.passes(30)) == ["stalled"]


def test_the_operator_sets_it_for_runs_that_do_not_say() -> None:
    scene = training(after="2h")

    assert scene.passes(2 * HOUR - 10) == []
    assert states(scene.passes(30)) == ["stalled"]


def test_of_two_pods_the_one_that_is_silent_is_told() -> None:
    scene = training()
    scene.pods["pod-2"] = own_pod("pod-2", container=DEVICES)
    other = Ear()
    hello = words.Hello(type="hello", spool="s", state="running", ha=True, launch=1, hang_minutes=None)
    scene.heard.opened(other, scene.peer("pod-2"), hello)
    found = []
    for number in range(40):
        scene.says("progress", line=other, uid="pod-2", step=number)
        found += scene.passes(MINUTE)

    assert [edge.peer.pod.uid for edge in found] == ["pod-1"]
    assert [edge.peer.pod.uid for edge in scene.passes(HOUR)] == ["pod-2"]


# ---------------------------------------------------------------- never


def test_a_process_that_never_told_a_step_is_never_told_whatever_else_it_says() -> None:
    scene = Scene()
    scene.hello()
    scene.says("started")
    scene.says("milestone", name="communication_ready")

    assert scene.passes(24 * HOUR) == []


def test_a_run_that_tells_that_its_steps_are_long_is_left_alone() -> None:
    scene = Scene()
    scene.hello(hang_minutes=90)
    found = []
    for number in range(20):
        scene.step(number)
        found += scene.passes(40 * MINUTE)

    assert found == []


@pytest.mark.parametrize(
    "word",
    [
        ("progress", {"step": 1}),
        ("milestone", {"name": "stable"}),
        ("milestone", {"name": "of-a-newer-release"}),
        ("checkpoint", {"step": 1}),
        ("phase", {"name": "evaluation", "edge": "end"}),
    ],
)
def test_any_word_of_the_processes_is_a_sign_of_life_the_same_step_again_included(
    word: tuple[str, dict[str, Any]],
) -> None:
    scene = training()
    found = []
    for _ in range(10):
        found += scene.passes(25 * MINUTE)
        scene.says(word[0], **word[1])

    assert found == []


@pytest.mark.parametrize("phase", ["start_up", "checkpoint", "evaluation", "compilation"])
def test_no_step_is_due_in_a_phase_that_is_long_by_nature_and_the_time_begins_anew_after_it(
    phase: str,
) -> None:
    scene = training()
    scene.says("phase", name=phase, edge="begin")
    assert scene.passes(6 * HOUR) == []
    scene.says("phase", name=phase, edge="end")

    assert scene.passes(DEFAULT - 10) == []
    assert states(scene.passes(30)) == ["stalled"]


def test_a_checkpoint_that_began_and_has_not_ended_is_such_a_phase() -> None:
    scene = training()
    scene.says("checkpoint", step=1, edge="begin")
    assert scene.passes(6 * HOUR) == []
    scene.says("checkpoint", step=1, edge="end", tier="remote", path="/c/1")

    assert states(scene.passes(HOUR)) == ["stalled"]


def test_steps_during_a_save_do_not_end_it() -> None:
    scene = training()
    scene.says("checkpoint", step=1, edge="begin")
    scene.step(2)

    assert scene.passes(6 * HOUR) == []


def test_a_phase_is_over_only_when_all_that_began_have_ended() -> None:
    scene = training()
    scene.says("phase", name="evaluation", edge="begin")
    scene.says("checkpoint", step=1, edge="begin")
    scene.says("checkpoint", step=1, edge="end")

    assert scene.passes(6 * HOUR) == []


def test_the_end_of_a_checkpoint_does_not_end_the_phase_around_it() -> None:
    scene = training()
    scene.says("phase", name="checkpoint", edge="begin")
    scene.says("checkpoint", step=1, edge="begin")
    scene.says("checkpoint", step=1, edge="end")
    assert scene.passes(6 * HOUR) == []
    scene.says("phase", name="checkpoint", edge="end")

    assert states(scene.passes(HOUR)) == ["stalled"]


def test_a_phase_several_processes_of_a_pod_are_in_is_over_when_the_last_one_ended_it() -> None:
    scene = training()
    for edge, times in (("begin", 8), ("end", 7)):
        for _ in range(times):
            scene.says("phase", name="evaluation", edge=edge)
    assert scene.passes(6 * HOUR) == []
    scene.says("phase", name="evaluation", edge="end")

    assert states(scene.passes(HOUR)) == ["stalled"]


def test_what_is_said_of_another_checkpoint_does_not_end_the_save_under_way() -> None:
    scene = training()
    scene.says("checkpoint", step=2, edge="begin")
    scene.says("checkpoint", step=1, edge="verified")
    assert scene.passes(6 * HOUR) == []
    scene.says("checkpoint", step=2, edge="broken")

    assert states(scene.passes(HOUR)) == ["stalled"]


def test_too_many_ends_do_not_end_what_begins_after_them() -> None:
    scene = training()
    for edge in ("end", "end", "begin"):
        scene.says("checkpoint", step=1, edge=edge)

    assert scene.passes(6 * HOUR) == []


def test_a_step_says_what_is_open_whatever_became_of_the_edges() -> None:
    scene = training()
    scene.says("checkpoint", step=1, edge="begin", tier="nfs")  # unreadable
    scene.step(open=["save"])
    assert scene.passes(6 * HOUR) == []
    scene.step(open=[])
    assert states(scene.passes(HOUR)) == ["stalled"]


@pytest.mark.parametrize("phases", [{}, {"evaluation": "1h"}])
def test_a_phase_whose_name_is_not_known_may_last_for_ever(phases: dict[str, str]) -> None:
    scene = training(phases=phases)
    scene.step(open=["evaluation", "export"])
    assert scene.passes(24 * HOUR) == []

    scene.hello(progress={"step": 1, "open": ["export"]})
    assert scene.passes(24 * HOUR) == []


def test_a_step_of_an_older_supervisor_says_nothing_of_what_is_open() -> None:
    scene = training()
    scene.says("checkpoint", step=1, edge="begin")
    scene.step(2)

    assert scene.passes(6 * HOUR) == []


def test_a_phase_may_be_silent_as_long_as_the_run_may_whatever_the_operator_gives_the_phase() -> None:
    scene = Scene(phases={"checkpoint": "10m"})
    scene.hello(hang_minutes=180)
    scene.step()
    scene.says("checkpoint", step=1, edge="begin")

    assert scene.passes(3 * HOUR - 10) == []
    assert states(scene.passes(30)) == ["stalled"]


def test_a_number_a_process_puts_into_its_step_is_none_of_the_reports() -> None:
    scene = Scene()
    scene.hello(progress={"step": 1, "reported": 50})
    found = []
    for number in range(10):
        scene.step(number, seq=3)
        found += scene.passes(25 * MINUTE)

    assert found == []


def test_a_begin_left_over_from_a_process_that_ended_says_nothing_of_the_next() -> None:
    scene = training()
    scene.says("phase", name="evaluation", edge="begin")
    scene.says("exit", code=1)
    scene.says("started", launch=2)
    scene.step(5, launch=2)

    assert states(scene.passes(HOUR)) == ["stalled"]


def test_the_operator_may_say_how_long_a_phase_may_be_silent_and_of_several_the_longest_counts() -> None:
    scene = training(phases={"checkpoint": "1h", "evaluation": "3h"})
    scene.says("phase", name="evaluation", edge="begin")
    scene.says("checkpoint", step=1, edge="begin")
    assert scene.passes(3 * HOUR - 10) == []
    assert states(scene.passes(30)) == ["stalled"]
    scene.says("phase", name="compilation", edge="begin")  # not named
    assert states(scene.passes(24 * HOUR)) == ["moving"]


def test_a_start_up_of_its_own_is_looked_at_only_where_the_operator_gives_it_a_time() -> None:
    for phases, told in (({}, []), ({"start_up": "2h"}, ["stalled"])):
        scene = Scene(phases=phases)
        scene.hello()
        scene.says("started")
        scene.says("phase", name="start_up", edge="begin")
        assert scene.passes(HOUR) == []
        assert states(scene.passes(2 * HOUR)) == told


@pytest.mark.parametrize("state", [ProcessOrder.STOP, ProcessOrder.RELEASE])
def test_nothing_is_told_while_an_order_of_ours_to_stop_or_to_let_go_stands(state: ProcessOrder) -> None:
    scene = training()
    until = UNTIL if state is ProcessOrder.STOP else None
    scene.passes(DEFAULT - MINUTE)
    scene.change(desired=Desired(epoch=1, attempt=1, state=state, until=until))
    assert scene.passes(5 * HOUR) == []
    scene.change(desired=Desired(epoch=1, attempt=2, state=ProcessOrder.RUN))

    assert scene.passes(DEFAULT - 10) == []  # and the time begins anew
    assert states(scene.passes(30)) == ["stalled"]


@pytest.mark.parametrize("state", ["checking", "waiting", "stopping", "stopped", "held", "ending"])
def test_processes_that_do_not_run_are_not_expected_to_move(state: str) -> None:
    scene = Scene()
    scene.hello(state=state, progress={"step": 3})
    assert scene.passes(5 * HOUR) == []

    scene = training()
    scene.says("state", state=state)
    assert scene.passes(5 * HOUR) == []


def test_a_process_that_ended_does_not_stand_still() -> None:
    scene = training()
    scene.says("exit", code=0)

    assert scene.passes(5 * HOUR) == []


def test_a_process_started_anew_is_not_judged_by_the_steps_of_the_one_before() -> None:
    scene = training()
    scene.says("exit", code=1, ordered=True)
    scene.says("started", launch=2)
    scene.step(9, launch=1)  # the last word of the one before, heard late

    assert scene.passes(5 * HOUR) == []
    scene.step(10, launch=2)
    assert states(scene.passes(HOUR)) == ["stalled"]


@pytest.mark.parametrize(
    "change", [{"gone": True}, {"leaving": True}, {"phase": "Succeeded"}, {"phase": "Failed"}]
)
def test_a_pod_that_ends_or_is_gone_does_not_stand_still(change: dict[str, Any]) -> None:
    scene = training()
    scene.change(**change)
    assert scene.passes(5 * HOUR) == []

    scene = training()
    del scene.pods["pod-1"]
    assert scene.passes(5 * HOUR) == []


def test_a_pod_without_devices_is_no_training_that_hangs_are_looked_for_on() -> None:
    scene = training()
    scene.change(resources={}, chips=())
    assert scene.passes(5 * HOUR) == []
    scene.change(chips=("index:0",))  # Ascend's, by annotation
    assert states(scene.passes(HOUR)) == ["stalled"]


@pytest.mark.parametrize(
    "hello",
    [
        {"ha": False},
        {"hang_minutes": 0},
        {"hang_minutes": 0.0},
    ],
)
def test_switched_off_by_the_run_nothing_is_told(hello: dict[str, Any]) -> None:
    scene = Scene()
    scene.hello(**hello)
    scene.step()

    assert scene.passes(24 * HOUR) == []


def test_a_supervisor_that_does_not_say_what_its_run_asks_for_is_not_looked_at() -> None:
    scene = Scene()
    message = words.parse(
        b'{"v": 1, "type": "hello", "spool": "s", "state": "running", "ha": true, "launch": 1}'
    )
    assert isinstance(message, words.Hello)
    scene.heard.opened(scene.line, scene.peer(), message)
    scene.step()

    assert scene.passes(24 * HOUR) == []


def test_switched_off_by_the_operator_nothing_is_told_whatever_runs_ask() -> None:
    scene = Scene(enabled=False)
    scene.hello(hang_minutes=5)
    scene.step()

    assert scene.passes(24 * HOUR) == []


def test_a_clock_that_is_set_makes_nobody_silent() -> None:
    scene = training()
    found = scene.passes(5 * MINUTE)
    for jump in (timedelta(days=3), -timedelta(days=9)):
        scene.wall += jump
        found += scene.passes(5 * MINUTE)
        scene.step(2)

    assert found == []
    assert states(scene.passes(HOUR)) == ["stalled"]


def test_an_agent_that_was_held_up_itself_does_not_take_its_absence_for_silence() -> None:
    scene = training()
    scene.passes(DEFAULT - MINUTE)
    scene.passes(5 * HOUR, looking=False)

    assert scene.passes(DEFAULT - 10) == []
    assert states(scene.passes(30)) == ["stalled"]


def told_and_then_nobody_could_be_told() -> Scene:
    scene = training()
    assert states(scene.passes(DEFAULT + 20)) == ["stalled"]
    scene.passes(HOUR, looking=False)
    return scene


def test_a_stall_told_right_before_nobody_could_be_told_is_told_once_more_after_as_much_silence() -> None:
    scene = told_and_then_nobody_could_be_told()

    assert scene.passes(DEFAULT - 10) == []
    assert states(scene.passes(30)) == ["stalled"]
    assert scene.passes(5 * HOUR) == []


def test_a_stall_that_was_heard_is_not_told_again_because_the_agent_is_away_later() -> None:
    scene = training()
    assert states(scene.passes(HOUR)) == ["stalled"]
    scene.passes(HOUR, looking=False)

    assert scene.passes(5 * HOUR) == []


def test_a_pod_that_moved_meanwhile_is_told_to_move_and_not_to_stand_still_again() -> None:
    scene = told_and_then_nobody_could_be_told()
    scene.step(2)

    assert states(scene.passes(DEFAULT - 10)) == ["moving"]
    assert states(scene.passes(HOUR)) == ["stalled"]  # a second one


def test_what_came_while_a_look_was_late_is_read_before_anything_is_told() -> None:
    scene = training()
    scene.passes(DEFAULT - 20)
    scene.passes(AWAY / 2, looking=False)
    assert scene.heard.look() == ()  # too long, but nothing was read for half a minute
    scene.step(2)

    assert scene.passes(DEFAULT - 10) == []


def test_what_waits_to_be_read_of_a_line_may_be_a_sign_of_life() -> None:
    scene = training()
    scene.passes(MINUTE)
    scene.heard.listens(scene.line, listens=False)  # a report of it waits for room in the spool
    assert scene.passes(5 * HOUR) == []
    scene.heard.listens(scene.line, listens=True)

    assert scene.passes(DEFAULT - 10) == []
    assert states(scene.passes(30)) == ["stalled"]


def test_lines_that_are_read_at_once_do_not_put_it_off() -> None:
    scene = training()
    found = []
    for _ in range(40):
        scene.heard.listens(scene.line, listens=False)
        scene.heard.listens(scene.line, listens=True)
        scene.says("refused", reason="not an order")
        found += scene.passes(MINUTE)

    assert states(found) == ["stalled"]


def test_while_the_line_is_down_nothing_is_known_and_the_time_begins_anew_with_the_next() -> None:
    scene = training()
    scene.passes(DEFAULT - MINUTE)
    scene.heard.closed(scene.line)
    assert scene.passes(5 * HOUR) == []
    scene.hello(progress={"step": 1, "silent": 6 * HOUR})

    assert scene.passes(DEFAULT - 10) == []
    assert states(scene.passes(30)) == ["stalled"]


def test_a_line_whose_supervisor_has_a_new_one_is_not_listened_to_any_more() -> None:
    scene = training()
    old = scene.line
    scene.hello(progress={"step": 1})
    found = []
    for number in range(40):
        scene.step(number)
        found += scene.passes(MINUTE)
    scene.heard.closed(old)

    assert found == []
    assert states(scene.passes(HOUR)) == ["stalled"]
