"""The pictures of recovery times: to scale, inside their frame, and what never came back is not hidden."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.report.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, draw
from tests.audit.story import START

UNTIL = START + timedelta(days=30)


def row(
    seconds: float | None, strategy: str = "in_place_recovery", outcome: str = "recovered", day: float = 1
) -> dict[str, Any]:
    at = START + timedelta(days=day)
    return {"strategy": strategy, "fault_time": at, "rto_seconds": seconds, "outcome": outcome, "code": "c"}


def test_without_a_measured_time_there_is_no_picture() -> None:
    assert draw([], START, UNTIL) is None
    assert draw([row(None, outcome="open")], START, UNTIL) is None


def test_a_curve_counts_all_incidents_of_its_strategy() -> None:
    plots = draw([row(30), row(60), row(None, outcome="never"), row(None, outcome="open")], START, UNTIL)

    assert plots is not None
    (curve,) = plots.curves
    assert curve.ends_at == 0.5


def test_what_never_came_back_stands_on_the_upper_edge() -> None:
    plots = draw([row(30), row(None, outcome="never")], START, UNTIL)

    assert plots is not None
    recovered, lost = plots.dots
    assert lost.y < TOP <= recovered.y
    assert (lost.outcome, recovered.outcome) == ("never", "recovered")


def test_slower_is_higher_and_later_is_further_right() -> None:
    plots = draw([row(30, day=1), row(300, day=2), row(3000, day=3)], START, UNTIL)

    assert plots is not None
    assert [dot.y for dot in plots.dots] == sorted((dot.y for dot in plots.dots), reverse=True)
    assert [dot.x for dot in plots.dots] == sorted(dot.x for dot in plots.dots)
    assert [tick.label for tick in plots.seconds_up] == ["30 s", "1 min", "3 min", "10 min", "30 min", "1 h"]


def test_the_axis_is_as_long_as_what_happened_and_not_as_what_was_asked_for() -> None:
    minutes = [row(30, day=20 + minute / 1440) for minute in (0, 4, 9, 14)]
    plots = draw(minutes, START, UNTIL)

    assert plots is not None
    across = [(dot.x - LEFT) / (WIDTH - LEFT - RIGHT) for dot in plots.dots]
    assert across[0] < 0.1
    assert across[-1] > 0.9
    assert [tick.label for tick in plots.moments] == ["21 Mar 12:00", "12:05", "12:10"]


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (0, ["01 Mar 11:59:30", "11:59:40", "11:59:50", "12:00:00", "12:00:10", "12:00:20", "12:00:30"]),
        (3 * 3600, ["01 Mar 12:00", "13:00", "14:00", "15:00"]),
        (20 * 3600, ["01 Mar 12:00", "18:00", "02 Mar 00:00", "06:00"]),
        (86_400 * 6, ["02 Mar", "04 Mar", "06 Mar"]),
    ],
)
def test_lines_of_the_axis_stand_at_round_times_with_the_day_where_it_is_new(
    seconds: float, labels: list[str]
) -> None:
    plots = draw([row(30, day=0), row(60, day=seconds / 86_400)], START, UNTIL)

    assert plots is not None
    assert [tick.label for tick in plots.moments] == labels


@given(
    st.lists(
        st.tuples(
            st.floats(1e-3, 3e6),
            st.sampled_from("abcdefgh"),
            st.sampled_from(["recovered", "open", "never", "stable_unknown"]),
            st.floats(0, 29.9),
        ),
        max_size=30,
    )
)
def test_everything_is_inside_the_frame(told: list[tuple[float, str, str, float]]) -> None:
    rows = [row(s if how == "recovered" else None, name, how, day) for s, name, how, day in told]
    plots = draw(rows, START, UNTIL)

    if plots is None:
        return
    assert all(
        LEFT - 0.1 <= dot.x <= WIDTH - RIGHT + 0.1 and 0 <= dot.y <= HEIGHT - BOTTOM + 0.1
        for dot in plots.dots
    )
    assert 1 <= len(plots.moments) <= 8
    assert all(LEFT - 0.1 <= tick.at <= WIDTH - RIGHT + 0.1 for tick in plots.moments)
    for curve in plots.curves:
        points = [tuple(map(float, point.split(","))) for point in curve.points.split()]
        assert all(
            LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1 and TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1
            for x, y in points
        )
        assert points == sorted(points, key=lambda point: (point[0], -point[1]))
