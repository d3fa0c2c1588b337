"""Health is silent while all is well, and names what is not."""

from __future__ import annotations

from datetime import timedelta

from runtime.health import Health, Movement, Past, Pulse

LIMIT = timedelta(seconds=60)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_health_names_every_fault_and_nothing_else() -> None:
    health = Health()
    health.add("fine", lambda: None)
    health.add("broken", lambda: "because")

    assert health.faults() == {"broken": "because"}


def test_a_second_check_of_a_name_replaces_the_first() -> None:
    health = Health()
    health.add("it", lambda: "old")
    health.add("it", lambda: None)

    assert health.faults() == {}


def test_a_pulse_is_missed_after_its_limit_and_comes_back() -> None:
    clock = Clock()
    pulse = Pulse("the loop", LIMIT, clock)
    clock.now = 60
    assert pulse.check() is None
    clock.now = 61
    assert "the loop did not turn for 61 s" in (pulse.check() or "")
    pulse.beat()

    assert pulse.check() is None


def test_standing_still_with_nothing_to_read_is_no_fault() -> None:
    clock = Clock()
    movement = Movement(LIMIT, clock)
    for now in range(0, 1000, 10):
        clock.now = now
        movement.saw("p", 5, 0)

    assert movement.check() is None


def test_standing_still_with_something_to_read_is_a_fault_that_names_the_worst() -> None:
    clock = Clock()
    movement = Movement(LIMIT, clock)
    for now in range(0, 100, 10):
        clock.now = now
        movement.saw("moves", now, 5)
        movement.saw("stands", 3, 5)
    clock.now = 95

    assert "stands for 95 s" in (movement.check() or "")


def test_what_is_no_longer_ours_is_forgotten() -> None:
    clock = Clock()
    movement = Movement(LIMIT, clock)
    movement.saw("gone", 3, 5)
    movement.keep_only(["other"])
    clock.now = 1000

    assert movement.check() is None


def test_what_is_past_is_shown_for_a_while_and_each_thing_for_its_own() -> None:
    clock = Clock()
    past = Past(LIMIT, clock)
    assert past.check() is None
    past.happened("one")
    clock.now = 30
    past.happened("two")

    clock.now = 60
    assert past.check() == "one; two"
    clock.now = 61
    assert past.check() == "two"
    clock.now = 91
    assert past.check() is None


def test_what_happens_again_is_shown_anew() -> None:
    clock = Clock()
    past = Past(LIMIT, clock)
    past.happened("one")
    clock.now = 50
    past.happened("one")

    clock.now = 110
    assert past.check() == "one"
