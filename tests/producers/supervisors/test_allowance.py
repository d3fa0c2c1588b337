"""How much a pod may say: virtual time."""

from hypothesis import given
from hypothesis import strategies as st

from producers.supervisors.allowance import FORGET_AT, Allowance, Bucket


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def allowance(clock: Clock, **more: float) -> Allowance:
    given_: dict[str, float] = {"rate": 1, "burst": 10, "total_rate": 100, "total_burst": 1000, **more}
    return Allowance(**given_, clock=clock)


def test_a_burst_is_free_and_what_is_beyond_waits_its_time() -> None:
    clock = Clock()
    allowed = allowance(clock)

    assert [allowed.own("a", 5) for _ in range(3)] == [0, 0, 5]
    clock.now += 5
    assert allowed.own("a", 1) == 1
    assert allowed.own("b", 10) == 0  # another pod's own


def test_a_debt_is_at_most_a_burst_however_long_the_flood() -> None:
    clock = Clock()
    allowed = allowance(clock)
    for _ in range(10_000):
        allowed.own("a", 5)
    clock.now += 12

    assert allowed.own("a", 1) == 0


def test_all_pods_together_have_a_limit_of_their_own() -> None:
    clock = Clock()
    allowed = allowance(clock, total_rate=10, total_burst=20)

    assert [allowed.common(10) for _ in range(3)] == [0, 0, 1]


def test_pods_that_were_silent_are_forgotten_and_those_in_debt_are_not() -> None:
    clock = Clock()
    allowed = allowance(clock)
    for number in range(FORGET_AT):
        allowed.own(f"pod-{number}", 5)
    clock.now += 6
    allowed.own("hostile", 20)
    clock.now += 1
    allowed.own("new", 1)

    assert len(allowed._pods) < 10
    assert allowed.own("hostile", 1) > 0


def test_a_clock_that_stands_or_goes_back_gives_nothing() -> None:
    clock = Clock()
    bucket = Bucket(1, 2, clock)
    bucket.take(2)
    clock.now -= 50

    assert bucket.take(1) == 1


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0.5, 4)), min_size=1, max_size=60))
def test_who_waits_as_told_never_says_more_than_burst_and_rate_allow(
    script: list[tuple[float, float]],
) -> None:
    clock = Clock()
    bucket = Bucket(2.0, 8.0, clock)
    begun, said = clock.now, 0.0
    for pause, tokens in script:
        clock.now += pause
        clock.now += bucket.take(tokens)
        said += tokens
        assert said <= 8.0 + 2.0 * (clock.now - begun) + 1e-6
