"""What an agent that starts anew knows of its pods' silence: what supervisors say on new lines, and which stalls it has told already."""

from collections.abc import Callable
from typing import Any

import pytest

from producers.supervisors import line as words
from producers.supervisors.standstills import TOLD_AT_MOST
from tests.producers.supervisors.silence import DEFAULT, DEVICES, HOUR, MINUTE, Ear, Scene, states, training
from tests.producers.supervisors.supervised import own_pod


def test_after_its_own_restart_the_time_begins_anew_and_the_last_word_is_still_known() -> None:
    scene = training()
    last = scene.wall
    scene.passes(DEFAULT - MINUTE)
    scene = scene.again()
    scene.hello(progress={"step": 1, "silent": DEFAULT - MINUTE})

    assert scene.passes(DEFAULT - 10) == []
    (edge,) = scene.passes(30)
    assert edge.last_progress == last


@pytest.mark.parametrize(
    "progress",
    [{}, {"step": None}, {"step": 1, "open": ["evaluation"]}, {"step": 1, "open": ["save", "unknown"]}],
)
def test_what_began_before_its_restart_is_known_after_it(progress: dict[str, Any]) -> None:
    scene = training().again()
    scene.hello(progress=progress)

    assert scene.passes(24 * HOUR) == []


def test_reports_from_before_the_hello_change_nothing_of_what_it_says() -> None:
    scene = Scene()
    scene.hello(progress={"step": 9, "reported": 5})
    scene.says("started", seq=2)
    scene.says("phase", name="evaluation", edge="begin", seq=4)
    scene.says("state", state="stopped", seq=5)
    assert states(scene.passes(HOUR)) == ["stalled"]
    scene.says("phase", name="evaluation", edge="end", seq=5)
    assert scene.passes(MINUTE) == []
    scene.says("phase", name="evaluation", edge="begin", seq=6)

    assert states(scene.passes(24 * HOUR)) == ["moving"]


def test_a_stall_that_was_told_is_not_told_again_by_the_next_agent() -> None:
    scene = training()
    assert states(scene.passes(HOUR)) == ["stalled"]
    scene = scene.again()
    scene.hello(progress={"step": 1, "silent": HOUR})

    assert scene.passes(24 * HOUR) == []
    assert scene.heard.standing == 1
    scene.step(2)
    assert states(scene.passes(MINUTE)) == ["moving"]
    assert states(scene.passes(HOUR)) == ["stalled"]


def test_what_was_told_before_an_agent_that_can_tell_nobody_is_told_once_more() -> None:
    """It was started anew while the broker was away: what its predecessor told may lie in the spool until it is too old."""
    scene = training()
    assert states(scene.passes(DEFAULT + 20)) == ["stalled"]
    scene = scene.again()
    scene.hello(progress={"step": 1, "silent": DEFAULT})
    scene.passes(HOUR, looking=False)

    assert scene.passes(DEFAULT - 10) == []
    assert states(scene.passes(30)) == ["stalled"]
    assert scene.passes(5 * HOUR) == []


def test_a_source_that_starts_again_within_the_agent_still_knows_what_was_not_heard() -> None:
    scene = training()
    assert states(scene.passes(DEFAULT + 20)) == ["stalled"]
    scene.passes(HOUR, looking=False)
    assert scene.passes(MINUTE) == []
    scene.heard.restore(scene.heard.state())

    assert states(scene.passes(DEFAULT)) == ["stalled"]


def test_that_it_moved_while_the_agent_was_away_is_told() -> None:
    scene = training()
    assert states(scene.passes(HOUR)) == ["stalled"]
    scene = scene.again()
    scene.hello(progress={"step": 40, "silent": 1.0})

    assert states(scene.passes(MINUTE)) == ["moving"]
    assert states(scene.passes(HOUR)) == ["stalled"]


@pytest.mark.parametrize("progress", [{}, {"step": 1}])
def test_a_process_started_anew_ends_a_stall_without_a_word(progress: dict[str, Any]) -> None:
    scene = training()
    assert states(scene.passes(HOUR)) == ["stalled"]
    scene.says("started", launch=2)
    assert scene.passes(MINUTE) == []
    assert scene.heard.standing == 0

    scene = training()
    scene.passes(HOUR)
    scene = scene.again()
    scene.hello(launch=2, progress=progress)
    assert scene.passes(MINUTE) == []
    assert scene.heard.standing == 0


def test_a_container_that_was_restarted_ends_a_stall_without_a_word() -> None:
    scene = training()
    scene.passes(HOUR)
    scene.hello(state="waiting", progress={})  # the launch is still that of the process which is gone

    assert scene.passes(5 * HOUR) == []
    assert scene.heard.standing == 0


def test_what_was_told_and_not_kept_is_told_again() -> None:
    scene = training()
    assert states(scene.passes(HOUR)) == ["stalled"]
    scene.heard.restore(None)  # keeping failed

    assert states(scene.passes(MINUTE)) == ["stalled"]


def test_a_kept_stall_that_is_over_meanwhile_does_not_come_back() -> None:
    scene = training()
    scene.passes(HOUR)
    kept = scene.heard.state()
    scene.step(2)
    scene.heard.restore(kept)

    assert scene.heard.standing == 0
    assert states(scene.passes(HOUR)) == ["stalled"]


def others(scene: Scene, number: int) -> list[Ear]:
    """Lines of so many other pods that told a step."""
    lines = [Ear() for _ in range(number)]
    for place, line in enumerate(lines):
        uid = f"other-{place}"
        scene.pods[uid] = own_pod(uid, container=DEVICES)
        hello = words.Hello(
            type="hello",
            spool="s",
            state="running",
            ha=True,
            launch=1,
            hang_minutes=None,
            progress=words.Standing(step=1),
        )
        scene.heard.opened(line, scene.peer(uid), hello)
    return lines


def test_what_is_remembered_is_bounded_and_what_cannot_be_is_not_told() -> None:
    scene = training()
    lines = others(scene, TOLD_AT_MOST + 5)
    assert len(scene.passes(HOUR)) == TOLD_AT_MOST
    for line in lines[: TOLD_AT_MOST - 1]:  # `pod-1` is one of those that were told
        scene.heard.closed(line)

    assert states(scene.passes(MINUTE)) == ["stalled"] * 6
    assert scene.passes(MINUTE) == []


def test_what_was_not_heard_needs_no_more_room_to_be_told_once_more() -> None:
    scene = training()
    others(scene, TOLD_AT_MOST - 1)
    assert len(scene.passes(DEFAULT + 20)) == TOLD_AT_MOST
    scene.passes(HOUR, looking=False)

    assert states(scene.passes(DEFAULT + 20)) == ["stalled"] * TOLD_AT_MOST


# ---------------------------------------------------------------- what others see


def test_seconds_since_the_last_word_are_those_of_pods_that_run_and_told_a_step() -> None:
    scene = training()
    scene.passes(90)
    assert [(pod.uid, seconds) for pod, seconds in scene.heard.silences()] == [("pod-1", 90.0)]

    hushed: list[Callable[[], None]] = [
        lambda: scene.says("exit", code=1),
        scene.hello,
        lambda: scene.heard.closed(scene.line),
    ]
    for hush in hushed:
        hush()
        assert scene.heard.silences() == []


def test_words_on_a_line_that_is_down_are_nobody_s() -> None:
    scene = training()
    scene.heard.closed(scene.line)
    scene.step(3)
    scene.heard.listens(scene.line, listens=False)

    assert scene.heard.silences() == []
