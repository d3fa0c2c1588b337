"""The offset is the best of the last measurements, and unknown when there is none."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from producers.clock_offset import ClockOffset
from schemas.envelope import TimeQuality


def clock() -> ClockOffset:
    return ClockOffset(synced_within=timedelta(seconds=1), uncertain_above=timedelta(seconds=2))


def test_nothing_is_known_before_the_first_measurement() -> None:
    assert clock().seconds(0) is None
    assert clock().quality(0) is TimeQuality.UNKNOWN


def test_a_clock_that_is_ahead_has_a_positive_offset() -> None:
    offset = clock()
    offset.measured(sent=105.0, confirmed=105.2, appended=100.1)

    assert offset.seconds(106) is not None
    assert abs((offset.seconds(106) or 0) - 5.0) < 1e-9
    assert offset.quality(106) is TimeQuality.UNKNOWN, "five seconds off is not synced"


@given(
    ahead=st.floats(-0.5, 0.5),
    delays=st.lists(st.tuples(st.floats(0, 0.9), st.floats(0, 0.9)), min_size=1, max_size=20),
)
def test_it_is_wrong_by_no_more_than_half_of_the_shortest_round_trip(
    ahead: float, delays: list[tuple[float, float]]
) -> None:
    offset, now = clock(), 1000.0
    for there, back in delays:
        offset.measured(sent=now + ahead, confirmed=now + there + back + ahead, appended=now + there)
        now += 5

    found = offset.seconds(now)
    assert found is not None
    assert abs(found - ahead) <= min(there + back for there, back in delays) / 2 + 1e-6


def test_a_long_or_impossible_round_trip_says_nothing() -> None:
    offset = clock()
    offset.measured(sent=100, confirmed=103, appended=101)
    offset.measured(sent=100, confirmed=99, appended=100)  # the node's clock was set back in between

    assert offset.seconds(103) is None


def test_a_broker_without_a_clock_says_nothing() -> None:
    offset = clock()
    offset.measured(sent=100, confirmed=100.1, appended=1234 / 1000)

    assert offset.seconds(101) is None


def test_an_old_measurement_is_none() -> None:
    offset = clock()
    offset.measured(sent=100, confirmed=100.1, appended=100)

    assert offset.quality(101) is TimeQuality.SYNCED
    assert offset.seconds(100 + 3600) is None


def test_a_clock_that_was_set_is_measured_afresh() -> None:
    offset = clock()
    offset.measured(sent=100, confirmed=100.01, appended=100)
    offset.measured(
        sent=161, confirmed=161.5, appended=101.25
    )  # set ahead by a minute, and a worse measurement

    assert round(offset.seconds(162) or 0) == 60
