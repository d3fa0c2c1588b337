"""The watcher's threads: kinds are listed in order, nothing is read while there is no room, repetition is even, an end is clean."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from producers.cluster.book import Book
from producers.cluster.outbox import Outbox
from producers.cluster.settings import OutboxSettings, WatcherSettings, WatchSettings
from producers.cluster.translator import Translator
from producers.cluster.watcher import Watcher
from runtime.errors import ApiAway
from runtime.informer import OpenWatch
from runtime.kubernetes import Change, ChangeKind, Listing, Object
from schemas.envelope import decode
from tests.producers.cluster.objects import make_job, make_node, make_pod

PATIENCE = 20.0


class QueueWatch:
    """Changes as a test makes them."""

    def __init__(self) -> None:
        self._ready = threading.Condition()
        self._changes: list[Change] = []
        self._closed = False

    def put(self, change: Change) -> None:
        with self._ready:
            self._changes.append(change)
            self._ready.notify_all()

    def close(self) -> None:
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    def __iter__(self) -> Iterator[Change]:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._changes or self._closed, PATIENCE)
                if not self._changes:
                    return
                change = self._changes.pop(0)
            yield change


class FakeApi:
    """Lists by path; watches a test writes to."""

    def __init__(self, **lists: list[Object]) -> None:
        self._lists = lists
        self.asked: list[tuple[str, str]] = []
        self.watches: dict[str, QueueWatch] = {}
        self.away = False

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        del fields
        if self.away:
            raise ApiAway("down")
        self.asked.append((path, labels))
        kind = path.rsplit("/", 1)[1]
        items = self._lists.get("own" if "namespaces/relight" in path else kind, [])
        for number, item in enumerate(items):
            item["metadata"].setdefault("resourceVersion", str(number + 1))
        return Listing(items, "100")

    def watch(self, path: str, *, since: str, labels: str = "", fields: str = "") -> OpenWatch:
        del labels, fields
        if self.away:
            raise ApiAway("down")
        assert since
        return self.watches.setdefault(path, QueueWatch())


class Running:
    """A watcher in a thread."""

    def __init__(self, api: FakeApi, *, most: int = 200_000, **more: Any) -> None:
        watch = WatchSettings(repeat=timedelta(seconds=2), memory=timedelta(hours=1))
        settings = WatcherSettings(cluster="test", watch=watch, outbox=OutboxSettings(most=most))
        translator = Translator("test", watch, Book(), lambda: datetime.now(UTC), recent=watch.memory)
        self.outbox = Outbox("test", "/clusters/test/watcher/w", 1, time.time)
        self.watcher = Watcher(api, translator, self.outbox, settings, **more)
        self.failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.watcher.run()
        except BaseException as error:  # noqa: BLE001 - for the test to look at
            self.failed = error

    def until(self, done: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < ends, self.kinds()
            time.sleep(0.005)

    def kinds(self) -> list[str]:
        self.outbox.rewind()
        return [decode(entry.value).type.split(".")[3] for entry in self.outbox.take(100_000)]

    def __enter__(self) -> Running:  # noqa: PYI034 - not meant to be derived from
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.watcher.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def a_run() -> dict[str, list[Object]]:
    job = make_job("t", "j", size=1)
    return {"nodes": [make_node("n1", "node-1")], "jobs": [job], "pods": [make_pod(job, "p", node="n1")]}


def test_kinds_are_listed_one_after_the_other_and_told_in_order() -> None:
    api = FakeApi(**a_run())
    with Running(api, may_repeat=lambda: False) as running:
        running.until(lambda: running.watcher.counted.listed)
        assert running.kinds() == ["node_seen", "run_seen", "pod_bound", "issue_state"]
        assert [path for path, _ in api.asked] == [
            "/api/v1/nodes",
            "/api/v1/namespaces/relight/pods",
            "/apis/batch/v1/jobs",
            "/api/v1/pods",
        ]
        assert api.asked[-1][1] == "batch.kubernetes.io/controller-uid"
    assert running.failed is None


def test_changes_are_told_as_they_come() -> None:
    lists = a_run()
    api = FakeApi(**lists)
    with Running(api, may_repeat=lambda: False) as running:
        running.until(lambda: "/api/v1/pods" in api.watches)
        gone = {**lists["pods"][0], "metadata": {**lists["pods"][0]["metadata"], "resourceVersion": "101"}}
        api.watches["/api/v1/pods"].put(Change(ChangeKind.DELETED, gone))
        running.until(lambda: running.kinds()[-2:] == ["pod_ended", "issue_state"])


@pytest.mark.slow
def test_states_are_repeated_evenly_and_only_while_it_may_speak() -> None:
    may = threading.Event()
    with Running(FakeApi(**a_run()), may_repeat=may.is_set) as running:
        running.until(lambda: running.watcher.counted.listed)
        time.sleep(0.5)
        assert running.watcher.counted.repeated == 0
        begun = time.monotonic()
        may.set()
        time.sleep(2.4)  # a round takes 2 s
        running.until(lambda: {"node_seen", "run_seen", "pod_bound"} <= set(running.kinds()[4:]))
        again, rounds = running.kinds()[4:], (time.monotonic() - begun) / 2
    assert again.count("pod_bound") <= rounds + 1


@pytest.mark.slow
def test_nothing_is_repeated_while_the_api_is_silent() -> None:
    api = FakeApi(**a_run())
    with Running(api) as running:
        running.until(lambda: running.watcher.counted.listed)
        api.away = True
        for watch in list(api.watches.values()):
            watch.close()
        running.until(lambda: "nodes" in running.watcher.silent)
        time.sleep(0.1)  # one that was on its way is counted
        before = running.watcher.counted.repeated
        time.sleep(1.2)
        assert running.watcher.counted.repeated == before


@pytest.mark.slow
def test_nothing_is_read_while_there_is_no_room() -> None:
    nodes = [make_node(f"n{number}", f"node-{number}") for number in range(50)]
    with Running(FakeApi(nodes=nodes), most=10, may_repeat=lambda: False) as running:
        running.until(lambda: len(running.outbox) == 10)
        time.sleep(0.3)
        assert len(running.outbox) == 10
        for _ in range(50):
            running.outbox.acknowledge(running.outbox.next_sequence)
            time.sleep(0.02)
            if running.watcher.counted.listed:
                break
            running.until(lambda: len(running.outbox) > 0 or running.watcher.counted.listed)
        running.until(lambda: running.watcher.counted.listed)
        assert running.watcher.counted.tellings == 50


def test_a_watcher_without_room_still_ends() -> None:
    nodes = [make_node(f"n{number}", f"node-{number}") for number in range(50)]
    with Running(FakeApi(nodes=nodes), most=1) as running:
        running.until(lambda: len(running.outbox) == 1)
    assert running.failed is None


def test_an_informer_that_breaks_ends_the_process_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Listing:
        raise ZeroDivisionError("a bug")

    api = FakeApi(**a_run())
    monkeypatch.setattr(api, "list", broken)
    with Running(api) as running:
        running.until(lambda: running.failed is not None)
    assert isinstance(running.failed, ZeroDivisionError)


@pytest.mark.slow
def test_a_silent_kind_is_named_for_health() -> None:
    api = FakeApi(**a_run())
    api.away = True
    with Running(api) as running:
        running.until(lambda: running.watcher.silent == ["nodes"])
        api.away = False
        running.until(lambda: running.watcher.counted.listed)
        assert running.watcher.silent == []
