"""Laws of sliding windows: what does not depend on the order in which the same occurrences arrive (recovery 3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recovery.occurrences import LATE_AT_MOST, slide
from rules.model import Count
from tests.recovery.world import HBM, World

START = datetime(2026, 1, 1, tzinfo=UTC)
WITHIN = timedelta(hours=24)
pytestmark = pytest.mark.slow
LAWFUL = settings(max_examples=600, deadline=None, derandomize=True)

hours = st.lists(st.integers(0, 23 + 24), min_size=1, max_size=12)
"""Nobody is later than a day: the router clamps what is older, and it is not counted."""
at_least = st.integers(2, 4)
modes = st.sampled_from(["reset", "slide"])


def count(number: int, after_fire: str, within: timedelta = WITHIN) -> Count:
    return Count.model_validate(
        {
            "at_least": number,
            "within": f"{int(within.total_seconds())}s",
            "by": ["run"],
            "after_fire": after_fire,
        }
    )


def firings(order: list[int], wanted: Count) -> int:
    """How often the window fires when occurrences at these hours arrive in this order."""
    times: tuple[datetime, ...] = ()
    fired = 0
    for hour in order:
        times, hit = slide(times, START + timedelta(hours=hour), wanted)
        fired += hit.fired
    return fired


def some_window_is_complete(of: list[int], wanted: Count) -> bool:
    """By the definition alone, without a window that slides."""
    length = wanted.within.total_seconds() / 3600
    return any(sum(end - length <= hour <= end for hour in of) >= wanted.at_least for end in of)


def not_too_late(order: list[int]) -> list[int]:
    """The arrivals among these that are no more than a day behind the newest before them."""
    kept: list[int] = []
    limit = LATE_AT_MOST.total_seconds() / 3600
    for hour in order:
        if not kept or max(kept) - hour <= limit:
            kept.append(hour)
    return kept


@LAWFUL
@given(hours, at_least, modes, st.sampled_from([1, 6, 24]))
@example([10, 0], 2, "slide", 24)
@example([47, 24, 30], 2, "slide", 6)
def test_whether_it_has_fired_by_the_end_does_not_depend_on_the_order(
    order: list[int], number: int, after_fire: str, length: int
) -> None:
    wanted = count(number, after_fire, timedelta(hours=length))
    arrived = not_too_late(order)
    assert (firings(arrived, wanted) > 0) == some_window_is_complete(arrived, wanted)


@LAWFUL
@given(hours, at_least, modes, st.sampled_from([1, 6, 24]))
def test_no_order_fires_more_often_than_the_order_of_time(
    order: list[int], number: int, after_fire: str, length: int
) -> None:
    wanted = count(number, after_fire, timedelta(hours=length))
    arrived = not_too_late(order)
    assert firings(arrived, wanted) <= firings(sorted(arrived), wanted)


@LAWFUL
@given(st.lists(st.integers(0, 1000), max_size=40), at_least)
def test_with_reset_no_occurrence_takes_part_in_two_firings(order: list[int], number: int) -> None:
    assert firings(order, count(number, "reset")) <= len(order) // number


@LAWFUL
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), at_least)
def test_in_order_of_time_each_position_with_enough_behind_it_fires_once(
    order: list[int], number: int
) -> None:
    ordered = sorted(order)
    expected = sum(
        sum(ordered[end] - 24 <= hour for hour in ordered[: end + 1]) >= number for end in range(len(ordered))
    )
    assert firings(ordered, count(number, "slide")) == expected


@pytest.mark.parametrize("after_fire", ["reset", "slide"])
def test_two_that_arrive_the_wrong_way_round_fire(after_fire: str) -> None:
    assert firings([10, 0], count(2, after_fire)) == 1


def test_one_that_comes_after_the_window_has_fired_does_not_fire_for_it_again() -> None:
    assert firings([0, 1, 2, 0], count(3, "reset")) == 1
    assert firings([22, 22, 22, 23, 0], count(3, "slide")) == 2, (
        "both windows it reaches were complete already"
    )


def test_what_lies_further_back_than_window_and_lateness_is_forgotten() -> None:
    times: tuple[datetime, ...] = ()
    for day in range(100):
        times, _ = slide(times, START + timedelta(days=day), count(3, "slide"))
    assert times[0] >= START + timedelta(days=99) - WITHIN - LATE_AT_MOST


@pytest.mark.parametrize("hours_late", [[0, 2, 1], [2, 1, 0], [1, 2, 0]])
def test_three_equal_faults_isolate_in_whatever_order_they_are_heard_of(hours_late: list[int]) -> None:
    running = World().begin(job_retry_num="5")
    running.settle(timedelta(hours=6))
    begin = running.now - timedelta(hours=4)
    for hour in hours_late:
        running.fault(HBM, time=begin + timedelta(hours=hour))
        running.settle(timedelta(minutes=2))
        running.stable()
    assert "same-fault-repeats" in running.rules()
    assert running.held == {"n1"}
