"""The loop carries out what controllers want, once, and asks again when it failed; nothing is asked of the server in between."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtime.errors import ApiAway, ApiConflict, ApiNotFound
from runtime.kubernetes import Listing, Object
from sandbox.cluster_standin.controllers.copies import Copies
from sandbox.cluster_standin.controllers.loop import AGAIN, Decision, Loop
from sandbox.cluster_standin.controllers.writes import (
    Batch,
    Bind,
    Create,
    Delete,
    Empty,
    Finalize,
    Kind,
    Patch,
    Say,
)
from tests.sandbox.cluster_standin.controllers.objects import BEGIN, node, pod


class Quiet:
    """A watch on which nothing happens."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def __iter__(self) -> Any:
        self._closed.wait(30)
        yield from ()


class Api:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.errors: dict[str, list[Exception]] = {}
        self.answers: dict[str, Object] = {}

    def _answer(self, what: str, path: str, body: Object | None = None) -> Object:
        self.asked.append(f"{what} {path}")
        waiting = self.errors.get(what)
        if waiting:
            raise waiting.pop(0)
        return self.answers.get(what, body or {})

    def list(self, path: str, **_: Any) -> Listing:
        self.asked.append(f"list {path}")
        return Listing([], "1")

    def watch(self, path: str, **_: Any) -> Quiet:
        self.asked.append(f"watch {path}")
        return Quiet()

    def create(self, path: str, body: Object) -> Object:
        return self._answer(
            "create",
            path,
            {
                **body,
                "metadata": {"uid": "u", "resourceVersion": "900", "namespace": "ns", **body["metadata"]},
            },
        )

    def patch(self, path: str, body: Object, **_: Any) -> Object:
        return self._answer("patch", path, {"metadata": {"name": "p", "namespace": "ns", **body["metadata"]}})

    def delete(self, path: str, **_: Any) -> Object:
        return self._answer("delete", path, {"kind": "Status"})

    def replace(self, path: str, body: Object) -> Object:
        return self._answer("replace", path, body)


class Wants:
    """Wants a decision's batches: once, or as long as it is stubborn."""

    name = "wants"
    watches = frozenset({Kind.PODS})

    def __init__(self, *batches: Batch, again: datetime | None = None, stubborn: bool = False) -> None:
        self.batches = batches
        self.asked_at: list[datetime] = []
        self.again = again
        self.stubborn = stubborn

    def decide(self, copies: Copies, now: datetime) -> Decision:
        del copies
        first = not self.asked_at
        self.asked_at.append(now)
        return Decision(self.batches if first or self.stubborn else (), self.again)


class Scene:
    def __init__(self, *controllers: Wants, left: list[int] | None = None) -> None:
        self.api = Api()
        self.now = BEGIN
        left = left or []
        self.loop = Loop(
            self.api,  # type: ignore[arg-type]
            controllers,
            empty=lambda _, __: left.pop(0) if left else 0,
            clock=lambda: self.now,
        )
        self.loop.wake(Kind.PODS)


def test_a_batch_is_carried_out_and_not_again() -> None:
    controller = Wants((Create(Kind.PODS, "ns", {"metadata": {"name": "p"}}),))
    scene = Scene(controller)

    scene.loop.round()
    scene.loop.round()

    assert scene.api.asked == ["create /api/v1/namespaces/ns/pods"]
    assert scene.loop.copies.find(Kind.PODS, "ns", "p") is not None  # before anybody has told it


def test_it_looks_again_when_the_controller_said_so() -> None:
    controller = Wants(again=BEGIN + timedelta(seconds=10))
    scene = Scene(controller)
    scene.loop.round()

    scene.now += timedelta(seconds=9)
    scene.loop.round()
    scene.now += timedelta(seconds=1)
    scene.loop.round()

    assert [at - BEGIN for at in controller.asked_at] == [timedelta(), timedelta(seconds=10)]


@pytest.mark.parametrize(
    ("error", "waits"), [(ApiConflict("newer"), [AGAIN, AGAIN]), (ApiAway("gone"), [AGAIN, AGAIN * 2])]
)
def test_what_failed_is_wanted_again_later_and_later_while_the_server_is_away(
    error: Exception, waits: list[timedelta]
) -> None:
    controller = Wants((Delete(Kind.PODS, pod("p")),), stubborn=True)
    scene = Scene(controller)
    scene.api.errors["delete"] = [error] * 9

    for wait in waits:
        before = len(scene.api.asked)
        scene.loop.round()
        scene.now += wait - timedelta(milliseconds=1)
        scene.loop.round()
        assert len(scene.api.asked) == before + 1
        scene.now += timedelta(milliseconds=1)
    scene.loop.round()

    assert len(scene.api.asked) == len(waits) + 1


def test_changes_do_not_hurry_a_controller_whose_server_is_away() -> None:
    controller = Wants((Delete(Kind.PODS, pod("p")),), stubborn=True)
    scene = Scene(controller)
    scene.api.errors["delete"] = [ApiAway("gone")] * 9
    scene.loop.round()

    scene.loop.wake(Kind.PODS)
    scene.loop.round()

    assert len(scene.api.asked) == 1


def test_a_failed_write_ends_its_batch_and_no_other() -> None:
    first: Batch = (Patch(Kind.PODS, pod("a"), {}), Delete(Kind.PODS, pod("a")))
    controller = Wants(first, (Create(Kind.PODS, "ns", {"metadata": {"name": "b"}}),))
    scene = Scene(controller)
    scene.api.errors["patch"] = [ApiConflict("newer")]

    scene.loop.round()

    assert [each.split()[0] for each in scene.api.asked] == ["patch", "create"]


def test_a_controller_that_is_never_content_is_not_asked_for_ever() -> None:
    controller = Wants((Create(Kind.PODS, "ns", {"metadata": {"name": "p"}}),), stubborn=True)
    scene = Scene(controller)

    scene.loop.round()

    assert len(scene.api.asked) == 20


def test_a_bound_pod_has_its_node_before_the_server_tells_it() -> None:
    one = pod("p")
    scene = Scene(Wants((Bind(one, "n1"),)))

    scene.loop.round()

    found = scene.loop.copies.find(Kind.PODS, "ns", "p")
    assert found is not None
    assert found["spec"]["nodeName"] == "n1"
    assert scene.api.asked == ["create /api/v1/namespaces/ns/pods/p/binding"]


@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        ({"kind": "Status"}, False),
        ({"deletionGracePeriodSeconds": 30}, True),
        ({"deletionGracePeriodSeconds": 0, "finalizers": ["f"]}, True),
        ({"deletionGracePeriodSeconds": 0}, False),
    ],
)
def test_a_deleted_object_stays_while_something_holds_it(answer: Object, stays: bool) -> None:
    one = pod("p")
    scene = Scene(Wants((Delete(Kind.PODS, one),)))
    scene.loop.copies.wrote(Kind.PODS, one)
    if "kind" not in answer:
        scene.api.answers["delete"] = {"metadata": {**one["metadata"], "deletionTimestamp": "x", **answer}}

    scene.loop.round()

    assert (scene.loop.copies.find(Kind.PODS, "ns", "p") is not None) == stays


def test_one_that_is_gone_already_is_as_good_as_deleted() -> None:
    one = pod("p")
    scene = Scene(Wants((Delete(Kind.PODS, one),)))
    scene.loop.copies.wrote(Kind.PODS, one)
    scene.api.errors["delete"] = [ApiNotFound("gone")]

    scene.loop.round()

    assert scene.loop.copies.all(Kind.PODS) == []


def test_a_namespace_goes_when_nothing_is_in_it() -> None:
    space = {"metadata": {"name": "ns", "uid": "u", "resourceVersion": "5"}}
    controller = Wants((Empty("ns"), Finalize(space)), stubborn=True)
    scene = Scene(controller, left=[2])

    scene.loop.round()
    assert scene.api.asked == []
    scene.now += AGAIN
    scene.loop.round()

    assert set(scene.api.asked) == {"replace /api/v1/namespaces/ns/finalize"}


def test_an_event_that_cannot_be_written_is_no_failure() -> None:
    scene = Scene(Wants((Say("Node", node("n1"), "NodeNotReady", "it is"), Delete(Kind.PODS, pod("p")))))
    scene.api.errors["create"] = [ApiAway("gone")]

    scene.loop.round()

    assert [each.split()[0] for each in scene.api.asked] == ["create", "delete"]


class Mistaken(Wants):
    """Cannot decide."""

    name = "mistaken"

    def decide(self, copies: Copies, now: datetime) -> Decision:
        super().decide(copies, now)
        raise ValueError("a quantity that is none")


def test_a_controllers_mistake_is_not_the_end_of_the_others_work() -> None:
    mistaken, other = Mistaken(), Wants((Delete(Kind.PODS, pod("p")),))
    scene = Scene(mistaken, other)

    scene.loop.round()
    scene.loop.round()
    scene.now += AGAIN
    scene.loop.round()

    assert len(scene.api.asked) == 1
    assert len(mistaken.asked_at) == 2  # and it is tried again, later


class Waits(threading.Event):
    """Remembers for how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.told.append(timeout)
        return super().wait(timeout)


def test_an_idle_cluster_is_asked_nothing_and_the_end_is_soon() -> None:
    api, stop = Api(), threading.Event()
    controller = Wants()
    loop = Loop(api, [controller], empty=lambda _, __: 0, clock=lambda: datetime.now(UTC))  # type: ignore[arg-type]
    loop._awake = waits = Waits()
    running = threading.Thread(target=loop.run, args=(stop,))
    running.start()
    while len(api.asked) < 2 * len(Kind) or not waits.told:
        time.sleep(0.01)

    stop.set()
    running.join(10)

    assert not running.is_alive()
    assert set(waits.told) == {None}, "it waits to be woken, and for nothing else"
    assert len(controller.asked_at) == 1
    assert {asked.split()[0] for asked in api.asked} == {"list", "watch"}
    assert len(api.asked) == len(set(api.asked)) == 2 * len(Kind)
