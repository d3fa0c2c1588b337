"""The cap bounds each source, all sources together, and its own memory."""

from __future__ import annotations

from streams import rate_cap
from streams.rate_cap import RateCap


def test_a_burst_is_admitted_and_then_the_rate() -> None:
    cap = RateCap(per_source=2, burst=4, total=1000)
    at_once = sum(cap.admits("a", 100.0) for _ in range(10))
    later = sum(cap.admits("a", 103.0) for _ in range(10))

    assert (at_once, later) == (4, 4)
    assert sum(cap.admits("a", 104.0) for _ in range(10)) == 2


def test_inventing_sources_does_not_help() -> None:
    cap = RateCap(per_source=100, burst=10, total=20)

    assert sum(cap.admits(f"invented-{number}", 0.0) for number in range(1000)) == 20


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    cap = RateCap(per_source=1, burst=1, total=1000)
    assert cap.admits("a", 100.0)

    assert not any(cap.admits("a", time) for time in (50.0, 100.0, 20.0, 100.5))


def test_the_table_of_sources_is_bounded() -> None:
    cap = RateCap(per_source=1, burst=1, total=10**9)
    for number in range(rate_cap.MOST_SOURCES + 50):
        cap.admits(f"s{number}", 0.0)

    assert len(cap._sources) == rate_cap.MOST_SOURCES
