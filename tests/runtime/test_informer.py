"""The informer: whatever happens to list and watch, every difference is told once, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from runtime.errors import ApiAway, ApiError, ApiForbidden, ApiGone, ApiTooMany
from runtime.informer import Difference, Informer
from runtime.kubernetes import Change, ChangeKind, Listing, Object
from tests.runtime.api_server import Request, serving

PATIENCE = 20.0


def pod(name: str, version: int, uid: str = "") -> Object:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": uid or name, "resourceVersion": str(version)}
    }


def added(item: Object) -> Change:
    return Change(ChangeKind.ADDED, item)


def modified(item: Object) -> Change:
    return Change(ChangeKind.MODIFIED, item)


def deleted(item: Object) -> Change:
    return Change(ChangeKind.DELETED, item)


def bookmark(version: int) -> Change:
    return Change(ChangeKind.BOOKMARK, {"metadata": {"resourceVersion": str(version)}})


class ScriptedWatch:
    """Changes of a script; an error in it is raised, the end of it stays open until closed where it is the last."""

    def __init__(self, script: list[Change | ApiError], *, stays: bool) -> None:
        self._script = script
        self._stays = stays
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def __iter__(self) -> Iterator[Change]:
        for each in self._script:
            if isinstance(each, ApiError):
                raise each
            yield each
        if self._stays:
            self._closed.wait()


class ScriptedSource:
    """Lists and watches of a script, and what was asked for."""

    def __init__(
        self, lists: list[list[Object] | ApiError], watches: list[list[Change | ApiError] | ApiError]
    ) -> None:
        self._lists = lists
        self._watches = watches
        self.asked: list[str] = []

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        del path
        self.asked.append(f"list {labels}{fields}".strip())
        found = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if isinstance(found, ApiError):
            raise found
        highest = max((int(item["metadata"]["resourceVersion"]) for item in found), default=0)
        return Listing(found, str(highest))

    def watch(self, path: str, *, since: str, labels: str = "", fields: str = "") -> ScriptedWatch:
        del path, labels, fields
        self.asked.append(f"watch {since}")
        found = self._watches.pop(0) if self._watches else []
        if isinstance(found, ApiError):
            raise found
        return ScriptedWatch(found, stays=not self._watches)


class Run:
    """An informer in a thread, and what it told."""

    def __init__(self, source: Any, **settings: Any) -> None:
        self.told: list[str] = []
        self.lists = 0
        quick = {"again": timedelta(milliseconds=1), "slowest": timedelta(milliseconds=20), **settings}
        self.informer = Informer(source, "/pods", self._tell, listed=self._listed, **quick)
        self.thread = threading.Thread(target=self.informer.run, daemon=True)

    def _tell(self, difference: Difference) -> None:
        def name(item: Object | None) -> str:
            return "-" if item is None else f"{item['metadata']['uid']}@{item['metadata']['resourceVersion']}"

        self.told.append(f"{name(difference.old)} {name(difference.new)}")

    def _listed(self) -> None:
        self.lists += 1

    def until(self, done: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < ends, self.told
            time.sleep(0.001)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.informer.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def test_a_list_then_changes_are_told_in_order() -> None:
    watch: list[Change | ApiError] = [
        modified(pod("a", 3)),
        added(pod("b", 4)),
        deleted(pod("a", 5)),
        bookmark(9),
    ]
    source = ScriptedSource([[pod("a", 1)]], [watch, []])
    with Run(source) as run:
        run.until(lambda: "watch 9" in source.asked)
        assert run.told == ["- a@1", "a@1 a@3", "- b@4", "a@5 -"]
        assert run.informer.synced.is_set()
        assert [item["metadata"]["name"] for item in run.informer.snapshot()] == ["b"]
        assert run.informer.find("team", "b") == pod("b", 4)
        assert run.informer.find("team", "a") is None


def test_a_broken_watch_goes_on_where_it_was_and_lists_nothing() -> None:
    source = ScriptedSource(
        [[pod("a", 1)]], [[modified(pod("a", 3)), ApiAway("cut")], [modified(pod("a", 4))], []]
    )
    with Run(source) as run:
        run.until(lambda: len(run.told) == 3)
        assert run.told == ["- a@1", "a@1 a@3", "a@3 a@4"]
        assert source.asked[:3] == ["list", "watch 1", "watch 3"]


@pytest.mark.parametrize("where", ["in the watch", "at its opening"])
def test_what_a_watch_too_old_hid_is_found_by_the_next_list(where: str) -> None:
    gone: list[Change | ApiError] | ApiError = [ApiGone("410")] if where == "in the watch" else ApiGone("410")
    after = [pod("b", 7, uid="b-2"), pod("c", 6), pod("d", 2)]
    source = ScriptedSource([[pod("a", 1), pod("b", 2, uid="b-1"), pod("d", 2)], after], [gone, []])
    with Run(source) as run:
        run.until(lambda: run.lists == 2)
        assert run.told[:3] == ["- a@1", "- b-1@2", "- d@2"]
        # Gone meanwhile, made anew under its name, new; what did not change is not told again.
        assert run.told[3:] == ["a@1 -", "b-1@2 -", "- b-2@7", "- c@6"]


def test_a_stopped_list_tells_nothing_until_the_server_answers() -> None:
    source = ScriptedSource(
        [ApiAway("down"), ApiTooMany("busy", retry_after=0.01), ApiForbidden("no"), [pod("a", 1)]], []
    )
    with Run(source) as run:
        run.until(lambda: run.lists == 1)
        run.until(lambda: run.informer.failing_since is None)
        assert run.told == ["- a@1"]
        assert source.asked[:4] == ["list"] * 4


def test_it_says_since_when_the_server_does_not_answer() -> None:
    source = ScriptedSource([ApiAway("down")], [])
    with Run(source, clock=lambda: 77.0) as run:
        run.until(lambda: run.informer.failing_since is not None)
        assert run.informer.failing_since == 77.0
        assert not run.informer.synced.is_set()


def test_a_server_that_stays_away_is_asked_ever_less_often() -> None:
    source = ScriptedSource([ApiAway("down")], [])
    with Run(source, slowest=timedelta(seconds=30), again=timedelta(milliseconds=50)):
        time.sleep(0.6)
        asked = len(source.asked)
    assert 2 <= asked <= 6  # after 50, 100, 200, 400, 800 ms


def test_what_went_well_in_between_makes_it_patient_no_longer() -> None:
    cut: list[list[Change | ApiError] | ApiError] = [
        [modified(pod("a", version)), ApiAway("cut")] for version in range(2, 10)
    ]
    source = ScriptedSource([[pod("a", 1)]], [*cut, []])
    began = time.monotonic()
    with Run(source, slowest=timedelta(seconds=30), again=timedelta(milliseconds=20)) as run:
        run.until(lambda: len(run.told) == 9)
    assert time.monotonic() - began < 4  # doubling each time would take 5 s


def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_circle() -> None:
    source = ScriptedSource([[]], [[] for _ in range(1000)])
    began = time.monotonic()
    with Run(source, again=timedelta(milliseconds=50)):
        time.sleep(0.4)
        asked = len(source.asked)
        passed = time.monotonic() - began
    assert 3 <= asked <= passed / 0.05 + 2


def test_a_whole_list_is_made_even_if_the_watch_seems_fine() -> None:
    clock = iter(float(number * 10) for number in range(1000))
    source = ScriptedSource([[pod("a", 1)], []], [[bookmark(2)], [bookmark(3)], [bookmark(4)], []])
    with Run(source, relist=timedelta(seconds=15), clock=lambda: next(clock)) as run:
        run.until(lambda: run.lists == 2)
        assert run.told == ["- a@1", "a@1 -"]


def test_the_same_version_twice_is_no_difference() -> None:
    source = ScriptedSource(
        [[pod("a", 1)]], [[added(pod("a", 1)), deleted(pod("never-seen", 2)), bookmark(5)], []]
    )
    with Run(source) as run:
        run.until(lambda: "watch 5" in source.asked)
        assert run.told == ["- a@1"]


def test_selectors_are_passed_on() -> None:
    source = ScriptedSource([[]], [])
    with Run(source, labels="a=b", fields="c=d") as run:
        run.until(lambda: run.lists == 1)
        assert source.asked[0] == "list a=bc=d"


def test_an_error_of_the_callback_is_the_end() -> None:
    def broken(_: Difference) -> None:
        raise KeyError("a bug")

    informer = Informer(ScriptedSource([[pod("a", 1)]], []), "/pods", broken)
    with pytest.raises(KeyError):
        informer.run()
    assert not informer.synced.is_set()


def test_stop_ends_an_idle_watch_of_a_real_connection(tmp_path: Path) -> None:
    let_go = threading.Event()

    def listed(request: Request) -> None:
        request.reply(200, {"items": [pod("a", 1)], "metadata": {"resourceVersion": "1"}})

    def idle(request: Request) -> None:
        request.begin()
        request.event("MODIFIED", pod("a", 2))
        let_go.wait(2 * PATIENCE)

    with serving() as server:
        server.script = [listed, idle]
        try:
            with Run(server.client(tmp_path, watch=timedelta(seconds=2 * PATIENCE))) as run:
                run.until(lambda: len(run.told) == 2)
                run.informer.stop()
                run.thread.join(PATIENCE)
                assert not run.thread.is_alive(), "the server has not ended the watch"
        finally:
            let_go.set()


def test_watches_that_end_and_break_on_a_real_connection_lose_nothing(tmp_path: Path) -> None:
    def listed(request: Request) -> None:
        request.reply(200, {"items": [pod("a", 1)], "metadata": {"resourceVersion": "1"}})

    def ends(request: Request) -> None:
        request.begin()
        request.event("MODIFIED", pod("a", 2))
        request.end()

    def breaks(request: Request) -> None:
        request.begin()
        request.event("MODIFIED", pod("a", 3))
        request.chunk(b'{"type":"DELETED","object":{"metadata":{"na')
        request.cut()

    def too_old(request: Request) -> None:
        request.begin()
        request.event("ERROR", {"code": 410, "message": "too old resource version"})
        request.end()

    def listed_again(request: Request) -> None:
        request.reply(200, {"items": [pod("b", 5)], "metadata": {"resourceVersion": "5"}})

    let_go = threading.Event()

    def idle(request: Request) -> None:
        request.begin()
        request.event("BOOKMARK", {"metadata": {"resourceVersion": "6"}})
        let_go.wait(PATIENCE)

    busy = {"code": 429, "message": "busy"}
    steps: list[Callable[[Request], None]] = [
        listed,
        ends,
        breaks,
        lambda request: request.reply(429, busy, Retry_After="0"),
        too_old,
        listed_again,
        idle,
    ]
    with serving() as server:
        server.script = steps
        try:
            with Run(server.client(tmp_path)) as run:
                run.until(lambda: run.lists == 2)
                assert run.told == ["- a@1", "a@1 a@2", "a@2 a@3", "a@3 -", "- b@5"]
                watches = [seen.path for seen in server.seen if "watch=true" in seen.path]
                assert ["resourceVersion=1&" in watches[0], "resourceVersion=2&" in watches[1]] == [
                    True,
                    True,
                ]
                assert all("resourceVersion=3&" in path for path in watches[2:4])
        finally:
            let_go.set()
