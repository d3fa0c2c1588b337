"""Order within a subject, subjects at the same time, and what may be committed."""

import threading
from concurrent.futures import ThreadPoolExecutor

from actuators.lanes import Lanes
from actuators.offsets import Unconfirmed

PATIENCE = 10.0


def _ignore(error: BaseException) -> None:
    del error


def test_a_lane_keeps_its_order_and_never_runs_twice_at_once() -> None:
    done: list[int] = []
    inside = 0
    all_done = threading.Event()

    def work(number: int) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        done.append(number)
        inside -= 1
        if len(done) == 200:
            all_done.set()

    broken: list[BaseException] = []
    with ThreadPoolExecutor(8) as executor:
        lanes = Lanes(executor, work, broken.append)
        for number in range(200):
            lanes.put("run/a", number)
        assert all_done.wait(PATIENCE)

    assert done == list(range(200))
    assert broken == []


def test_a_subject_that_waits_holds_no_other_up() -> None:
    let_go, other = threading.Event(), threading.Event()

    def work(name: str) -> None:
        if name == "slow":
            assert let_go.wait(PATIENCE)
        else:
            other.set()

    with ThreadPoolExecutor(2) as executor:
        lanes = Lanes(executor, work, _ignore)
        lanes.put("run/a", "slow")
        lanes.put("run/b", "quick")
        assert other.wait(PATIENCE)
        assert not lanes.settle(0.01)
        let_go.set()
        assert lanes.settle(PATIENCE)


def test_what_has_not_begun_can_be_taken_out_and_the_lane_goes_on_afterwards() -> None:
    begun, let_go, last = threading.Event(), threading.Event(), threading.Event()
    done: list[str] = []

    def work(name: str) -> None:
        begun.set()
        assert let_go.wait(PATIENCE)
        done.append(name)
        if name == "later":
            last.set()

    with ThreadPoolExecutor(2) as executor:
        lanes = Lanes(executor, work, _ignore)
        for name in ("running", "waiting", "waiting as well"):
            lanes.put("run/a", name)
        assert begun.wait(PATIENCE)
        assert lanes.drop(lambda name: name.startswith("waiting")) == 2
        lanes.put("run/a", "later")
        let_go.set()
        assert last.wait(PATIENCE)

    assert done == ["running", "later"]


def test_an_exception_is_told_and_ends_only_its_turn() -> None:
    broken: list[BaseException] = []
    after = threading.Event()

    def work(name: str) -> None:
        if name == "bad":
            raise ValueError(name)
        after.set()

    with ThreadPoolExecutor(1) as executor:
        lanes = Lanes(executor, work, broken.append)
        lanes.put("run/a", "bad")
        lanes.put("run/a", "good")
        assert after.wait(PATIENCE)

    assert [str(error) for error in broken] == ["bad"]


def _stands(partition: Unconfirmed) -> tuple[int | None, int]:
    return partition.position, partition.count


def test_nothing_above_an_unconfirmed_offset_may_be_committed() -> None:
    partition = Unconfirmed()
    assert _stands(partition) == (None, 0)
    for offset in (7, 8, 10):
        partition.take(offset)

    partition.confirm(8)
    partition.confirm(10)
    assert _stands(partition) == (7, 1)
    partition.confirm(7)
    assert _stands(partition) == (11, 0)


def test_an_offset_that_was_read_again_is_confirmed_once_more() -> None:
    partition = Unconfirmed()
    partition.take(3)
    partition.confirm(3)
    partition.take(3)

    assert partition.position == 3
    partition.confirm(3)
    assert partition.position == 4
