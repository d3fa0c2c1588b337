"""Only one watcher speaks: the Lease, with clocks that are never compared and an API that fails."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

from producers.cluster.lease import Lease
from producers.cluster.settings import LeaseSettings
from producers.errors import LeaseLost
from runtime.errors import ApiAway, ApiConflict, ApiError, ApiNotFound
from runtime.kubernetes import Object
from tests.producers.cluster.objects import START


class FakeLeases:
    """One Lease, written conditionally as the API does it."""

    def __init__(self) -> None:
        self.found: Object | None = None
        self.version = 0
        self.fails: list[ApiError | None] = []
        self.lost_answers = 0

    def get(self, path: str) -> Object:
        assert path == "/apis/coordination.k8s.io/v1/namespaces/relight/leases/relight-watcher"
        self._fail()
        if self.found is None:
            raise ApiNotFound("no such Lease")
        return copy.deepcopy(self.found)

    def create(self, path: str, body: Object) -> Object:
        assert path == "/apis/coordination.k8s.io/v1/namespaces/relight/leases"
        self._fail()
        if self.found is not None:
            raise ApiConflict("exists")
        return self._write(body)

    def replace(self, path: str, body: Object) -> Object:
        del path
        self._fail()
        assert self.found is not None
        if body["metadata"]["resourceVersion"] != self.found["metadata"]["resourceVersion"]:
            raise ApiConflict("changed")
        return self._write(body)

    def _write(self, body: Object) -> Object:
        self.version += 1
        self.found = copy.deepcopy(body)
        self.found["metadata"]["resourceVersion"] = str(self.version)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ApiAway("the answer was lost")
        return self.found

    def _fail(self) -> None:
        fault = self.fails.pop(0) if self.fails else None
        if fault is not None:
            raise fault


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Stop(threading.Event):
    """An event that is waited for in virtual time, and set after so many waits."""

    def __init__(self, clock: Clock, waits: int) -> None:
        super().__init__()
        self._clock = clock
        self._left = waits

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now += timeout or 0.0
        self._left -= 1
        if self._left <= 0:
            self.set()
        return self.is_set()


@pytest.fixture
def api() -> FakeLeases:
    return FakeLeases()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lease(api: FakeLeases, clock: Clock, holder: str) -> Lease:
    return Lease(api, LeaseSettings(), holder, clock=clock, now=lambda: START)


def spec(api: FakeLeases) -> dict[str, Any]:
    assert api.found is not None
    found: dict[str, Any] = api.found["spec"]
    return found


def test_the_first_takes_it_and_renews_it(api: FakeLeases, clock: Clock) -> None:
    one = lease(api, clock, "a")
    assert one.try_once()
    clock.now += 14
    assert one.is_ours
    assert one.try_once()
    clock.now += 14
    assert one.is_ours
    assert spec(api)["holderIdentity"] == "a"
    assert spec(api)["leaseDurationSeconds"] == 15
    assert spec(api)["renewTime"] == "2026-03-01T12:00:00.000000Z"
    assert spec(api)["leaseTransitions"] == 0


def test_it_is_ours_no_longer_than_it_was_renewed_for(api: FakeLeases, clock: Clock) -> None:
    one = lease(api, clock, "a")
    one.try_once()
    clock.now += 15
    assert not one.is_ours


def test_a_second_waits_until_the_first_was_silent_for_its_duration(api: FakeLeases, clock: Clock) -> None:
    one, two = lease(api, clock, "a"), lease(api, clock, "b")
    one.try_once()
    for _ in range(10):
        clock.now += 5
        assert one.try_once()
        assert not two.try_once()
    clock.now += 14.9
    assert not two.try_once()
    clock.now += 0.1
    assert two.try_once()
    assert spec(api)["holderIdentity"] == "b"
    assert spec(api)["leaseTransitions"] == 1


def test_a_second_that_comes_late_counts_from_when_it_first_looked(api: FakeLeases, clock: Clock) -> None:
    """Times in the Lease are of another machine's clock: only what was seen to stand still counts."""
    lease(api, clock, "a").try_once()
    spec(api)["renewTime"] = "1999-01-01T00:00:00.000000Z"
    clock.now += 3600
    two = lease(api, clock, "b")
    assert not two.try_once()
    clock.now += 15
    assert two.try_once()


def test_two_that_come_at_once_do_not_both_get_it(api: FakeLeases, clock: Clock) -> None:
    one, two = lease(api, clock, "a"), lease(api, clock, "b")
    api.fails = [None, ApiConflict("somebody was faster")]
    assert not one.try_once()
    assert two.try_once()
    assert not one.try_once()


def test_one_that_is_let_go_is_taken_at_once(api: FakeLeases, clock: Clock) -> None:
    one, two = lease(api, clock, "a"), lease(api, clock, "b")
    one.try_once()
    one.let_go()
    assert not one.is_ours
    assert two.try_once()
    one.let_go()  # no longer ours: nothing happens
    assert spec(api)["holderIdentity"] == "b"


def test_who_lost_it_ends(api: FakeLeases, clock: Clock) -> None:
    one, two = lease(api, clock, "a"), lease(api, clock, "b")
    one.try_once()
    two.try_once()
    clock.now += 15
    assert two.try_once()
    with pytest.raises(LeaseLost):
        one.keep(Stop(clock, 10))
    assert not one.is_ours


def test_an_api_that_is_away_ends_nobody_but_nobody_is_sure(api: FakeLeases, clock: Clock) -> None:
    one = lease(api, clock, "a")
    one.try_once()
    api.fails = [ApiAway("down")] * 8
    one.keep(Stop(clock, 9))
    assert not one.is_ours  # 45 s without a renewal
    assert one.try_once()
    assert one.is_ours


def test_a_renewal_whose_answer_was_lost_is_no_loss(api: FakeLeases, clock: Clock) -> None:
    one = lease(api, clock, "a")
    one.try_once()
    api.lost_answers = 1
    one.keep(Stop(clock, 4))
    assert one.is_ours
    assert spec(api)["holderIdentity"] == "a"


def test_a_conflict_of_our_own_making_is_no_loss(api: FakeLeases, clock: Clock) -> None:
    one = lease(api, clock, "a")
    one.try_once()
    api.fails = [None, ApiConflict("an earlier write of ours came late")]
    one.keep(Stop(clock, 3))
    assert one.is_ours


def test_waiting_goes_on_through_faults_and_ends_when_told(api: FakeLeases, clock: Clock) -> None:
    api.fails = [ApiAway("down"), None, ApiConflict("faster")]
    assert lease(api, clock, "a").wait_for(Stop(clock, 20))
    assert not lease(api, clock, "b").wait_for(Stop(clock, 2))


def test_other_fields_of_the_lease_are_left_as_they_are(api: FakeLeases, clock: Clock) -> None:
    lease(api, clock, "a").try_once()
    spec(api)["strategy"] = "OldestEmulationVersion"
    lease(api, clock, "a").try_once()
    assert spec(api)["strategy"] == "OldestEmulationVersion"
