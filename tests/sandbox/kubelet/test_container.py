"""A container over its runs: what is reported between them, when the next one is due, what a kubelet that comes later makes of it."""

import signal
import threading
import time
from datetime import timedelta
from typing import cast

import pytest

from runtime.kubernetes import Object
from sandbox.errors import StartFailed, Unsupported
from sandbox.kubelet.container import Backoff, Container, RestartPolicy
from sandbox.kubelet.process import ContainerProcess

SECONDS = 10.0
SLOW = Backoff(base=timedelta(hours=1), longest=timedelta(hours=2))


class FakeProcess:
    """Ends when and as the test says."""

    pid = 4711

    def __init__(self) -> None:
        self._code = 0
        self._over = threading.Event()
        self.heard: list[signal.Signals] = []

    def signal(self, number: signal.Signals) -> None:
        self.heard.append(number)
        if number is signal.SIGKILL:
            self.end(128 + number)

    def wait(self) -> int:
        assert self._over.wait(SECONDS)
        return self._code

    def end(self, code: int) -> None:
        self._code = code
        self._over.set()


class Runs:
    """A container whose runs are fakes."""

    def __init__(self, policy: RestartPolicy, backoff: Backoff = SLOW, known: Object | None = None) -> None:
        self.processes: list[FakeProcess] = []
        self.failure: Exception | None = None
        self._woken = threading.Event()
        self.container = Container(
            {"name": "main", "image": "trainer:1"},
            policy,
            backoff,
            start=self._start,
            wake=self._woken.set,
            known=known,
            container_id=lambda run: f"id-{run}",
        )

    def _start(self, run: int) -> ContainerProcess:
        if self.failure is not None:
            raise self.failure
        assert run == self.container.restarts + (1 if self.container.has_ended else 0)
        self.processes.append(FakeProcess())
        return cast("ContainerProcess", self.processes[-1])

    def drive(self) -> float | None:
        return self.container.drive(time.monotonic())

    def end(self, code: int) -> None:
        self._woken.clear()
        self.processes[-1].end(code)
        assert self._woken.wait(SECONDS)

    def status(self) -> Object:
        return self.container.status("ContainerCreating")


def test_before_its_first_run_it_waits_for_what_it_is_told() -> None:
    status = Runs(RestartPolicy.NEVER).container.status("PodInitializing", "for init containers")

    assert status["state"] == {"waiting": {"reason": "PodInitializing", "message": "for init containers"}}
    assert (status["containerID"], status["ready"], status["restartCount"]) == ("", False, 0)


def test_while_it_runs_it_is_ready_and_not_started_twice() -> None:
    runs = Runs(RestartPolicy.ALWAYS)

    runs.drive()
    runs.drive()

    assert len(runs.processes) == 1
    assert set(runs.status()["state"]) == {"running"}
    assert runs.status()["ready"] is True
    runs.end(0)


def test_the_first_restart_is_at_once_and_the_second_is_backed_off() -> None:
    runs = Runs(RestartPolicy.ON_FAILURE)
    runs.drive()
    runs.end(3)
    runs.drive()
    assert (len(runs.processes), runs.status()["restartCount"]) == (2, 1)
    assert runs.status()["lastState"]["terminated"]["containerID"] == "id-0"

    runs.end(4)
    due = runs.drive()

    assert len(runs.processes) == 2
    assert due is not None
    assert due - time.monotonic() == pytest.approx(3600, abs=60)
    status = runs.status()
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 4
    assert (status["restartCount"], status["ready"]) == (1, False)


def test_a_long_run_makes_the_next_restart_the_first_again() -> None:
    runs = Runs(RestartPolicy.ALWAYS, Backoff(base=timedelta(hours=1), forgiven_after=timedelta(0)))

    for _ in range(4):
        runs.drive()
        runs.end(1)

    assert len(runs.processes) == 4


@pytest.mark.parametrize(("policy", "code"), [(RestartPolicy.NEVER, 1), (RestartPolicy.ON_FAILURE, 0)])
def test_one_that_is_over_is_never_started_again(policy: RestartPolicy, code: int) -> None:
    runs = Runs(policy)
    runs.drive()
    runs.end(code)

    assert runs.drive() is None
    assert runs.container.is_over
    assert len(runs.processes) == 1
    assert runs.status()["state"]["terminated"]["exitCode"] == code


def test_a_kill_is_reported_with_its_reason_and_the_next_end_is_not() -> None:
    runs = Runs(RestartPolicy.ALWAYS)
    runs.drive()
    runs.container.kill("OOMKilled")
    while runs.container.is_running:
        time.sleep(0.001)
    runs.drive()

    assert runs.status()["lastState"]["terminated"]["reason"] == "OOMKilled"
    runs.end(1)
    assert runs.status()["lastState"]["terminated"]["reason"] == "Error"


def test_a_command_that_cannot_be_run_counts_as_a_run() -> None:
    runs = Runs(RestartPolicy.NEVER)
    runs.failure = StartFailed("no such program")

    runs.drive()

    ended = runs.status()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (128, "StartError", "no such program")


def test_what_keeps_it_from_being_tried_does_not_count_and_loses_nothing() -> None:
    runs = Runs(RestartPolicy.ALWAYS)
    runs.drive()
    runs.end(3)
    runs.failure = Unsupported("no such config map")

    with pytest.raises(Unsupported):
        runs.drive()

    status = runs.status()
    assert (status["restartCount"], status["state"]["terminated"]["exitCode"]) == (0, 3)
    runs.failure = None
    runs.drive()
    assert runs.status()["restartCount"] == 1
    runs.end(0)


def test_a_later_kubelet_takes_what_was_running_for_lost() -> None:
    running = {"containerID": "id-2", "restartCount": 2, "state": {"running": {}}}

    runs = Runs(RestartPolicy.NEVER, known=running)

    assert runs.drive() is None
    assert runs.processes == []
    ended = runs.status()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    assert runs.status()["restartCount"] == 2


def test_a_later_kubelet_believes_how_an_earlier_run_ended() -> None:
    over = {
        "exitCode": 7,
        "reason": "Error",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:05Z",
    }
    known = {"containerID": "id-0", "restartCount": 0, "state": {"terminated": over}}

    runs = Runs(RestartPolicy.NEVER, known=known)

    assert runs.drive() is None
    assert runs.status()["state"]["terminated"] == {**over, "containerID": "id-0"}


def test_one_that_was_never_started_is_started_by_a_later_kubelet() -> None:
    waiting = {"containerID": "", "restartCount": 0, "state": {"waiting": {}}}
    runs = Runs(RestartPolicy.NEVER, known=waiting)

    runs.drive()

    assert len(runs.processes) == 1
    runs.end(0)
