"""The client of the API against a server that is slow, full, cut off or wrong: each fault has its type, and nothing is tried twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from runtime import paths
from runtime.errors import (
    ApiAway,
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiGone,
    ApiInvalid,
    ApiNotFound,
    ApiTooMany,
    SettingsConflict,
)
from runtime.kubernetes import ChangeKind, Cluster, PatchKind, Rate, Watch
from runtime.settings import KubernetesSettings
from tests.runtime.api_server import Request, Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.fixture
def client(server: Server, tmp_path: Path) -> Cluster:
    return server.client(tmp_path)


def status(code: int, message: str, **more: object) -> dict[str, object]:
    return {"kind": "Status", "code": code, "message": message, **more}


def pod(name: str, version: str) -> dict[str, object]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}}


# ------------------------------------------------------------ calls


def test_a_token_is_looked_up_once_a_second_and_again_when_it_was_refused(
    server: Server, client: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    configuration = client._configuration  # the official client's, which reads a token's file anew each time
    lookup = configuration.get_api_key_with_prefix

    def counted(name: str, alias: str | None = None) -> str | None:
        asked.append(name)
        found: str | None = lookup(name, alias=alias)
        return found

    monkeypatch.setattr(configuration, "get_api_key_with_prefix", counted)
    monkeypatch.setattr("runtime.kubernetes._TOKEN_LASTS", 3600.0)
    good = partial(Request.reply, status=200, body={})
    server.script = [good, good, lambda request: request.reply(401, status(401, "expired")), good]

    client.get(paths.nodes("n1"))
    client.get(paths.nodes("n1"))
    assert len(asked) == 1
    with pytest.raises(ApiForbidden):
        client.get(paths.nodes("n1"))
    client.get(paths.nodes("n1"))
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, ApiInvalid),
        (401, ApiForbidden),
        (403, ApiForbidden),
        (404, ApiNotFound),
        (409, ApiConflict),
        (410, ApiGone),
        (422, ApiInvalid),
        (500, ApiAway),
        (504, ApiAway),
    ],
)
def test_each_refusal_has_its_type_and_the_servers_words(
    server: Server, client: Cluster, code: int, kind: type[ApiError]
) -> None:
    server.script = [lambda request: request.reply(code, status(code, "because of this"))]
    with pytest.raises(ApiError, match="because of this") as raised:
        client.get(paths.nodes("n1"))
    assert type(raised.value) is kind
    assert raised.value.status["code"] == code
    assert len(server.seen) == 1  # nothing is tried twice behind one's back


@pytest.mark.parametrize(
    ("code", "header", "seconds"), [(429, "7", 7.0), (429, None, 1.0), (503, "2", 2.0), (429, "soon", 1.0)]
)
def test_a_full_server_says_when_to_come_back(
    server: Server, client: Cluster, code: int, header: str | None, seconds: float
) -> None:
    headers = {} if header is None else {"Retry_After": header}
    server.script = [lambda request: request.reply(code, status(code, "too many"), **headers)]
    with pytest.raises(ApiTooMany) as raised:
        client.get(paths.nodes())
    assert raised.value.retry_after == seconds
    assert len(server.seen) == 1


def test_a_server_that_does_not_answer_is_away_after_the_timeout(server: Server, tmp_path: Path) -> None:
    let_go = threading.Event()
    server.script = [lambda _: (let_go.wait(50), None)[1]]
    client = server.client(tmp_path, timeout=timedelta(milliseconds=500))
    began = time.monotonic()
    try:
        with pytest.raises(ApiAway):
            client.get(paths.nodes())
    finally:
        let_go.set()
    assert time.monotonic() - began < 30
    assert len(server.seen) == 1


def test_a_server_that_is_not_there_is_away(tmp_path: Path) -> None:
    with serving() as made:
        client = made.client(tmp_path)
    with pytest.raises(ApiAway):
        client.get(paths.nodes())


def test_a_line_cut_within_an_answer_is_away(server: Server, client: Cluster) -> None:
    def half(request: Request) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "100")
        request.end_headers()
        request.wfile.write(b'{"metadata"')
        request.cut()

    server.script = [half]
    with pytest.raises(ApiAway):
        client.get(paths.nodes())


def test_an_answer_that_is_no_json_is_away_and_no_crash(server: Server, client: Cluster) -> None:
    server.script = [lambda request: request.reply(200, b"<html>a proxy says hello</html>")]
    with pytest.raises(ApiAway, match="no JSON"):
        client.get(paths.nodes())
    server.script = [lambda request: request.reply(502, b"<html>bad gateway</html>")]
    with pytest.raises(ApiAway, match="bad gateway"):
        client.get(paths.nodes())


def test_a_list_is_read_page_by_page(server: Server, client: Cluster) -> None:
    first = {"items": [pod("a", "1")], "metadata": {"resourceVersion": "10", "continue": "next page/2"}}
    last = {"items": [pod("b", "2")], "metadata": {"resourceVersion": "10"}}
    server.script = [lambda request: request.reply(200, first), lambda request: request.reply(200, last)]
    listing = client.list(paths.pods(), labels="a=b", page=1)
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "10"
    assert "continue=next+page%2F2" in server.seen[1].path
    assert all("labelSelector=a%3Db" in request.path for request in server.seen)


def test_a_page_token_that_grew_too_old_is_gone(server: Server, client: Cluster) -> None:
    first = {"items": [], "metadata": {"resourceVersion": "10", "continue": "x"}}
    server.script = [
        lambda request: request.reply(200, first),
        lambda request: request.reply(410, status(410, "expired")),
    ]
    with pytest.raises(ApiGone):
        client.list(paths.pods())


def test_a_list_of_nothing_may_say_null(server: Server, client: Cluster) -> None:
    server.script = [
        lambda request: request.reply(200, {"items": None, "metadata": {"resourceVersion": "3"}})
    ]
    assert client.list(paths.pods()).items == []


def test_writes_are_conditional_where_they_are_asked_to_be(server: Server, client: Cluster) -> None:
    server.script = [lambda request: request.reply(200, {"metadata": {}})]
    client.delete(paths.pods("team", "p"), uid="u", resource_version="5", grace=0)
    client.delete(paths.pods("team", "p"))
    client.patch(paths.nodes("n"), {"spec": {}}, kind=PatchKind.STRATEGIC, manager="relight")
    bare, patch = server.seen[1].body, server.seen[2]
    assert server.seen[0].body["preconditions"] == {"uid": "u", "resourceVersion": "5"}
    assert server.seen[0].body["gracePeriodSeconds"] == 0
    assert "gracePeriodSeconds" not in bare
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert "fieldManager=relight" in patch.path
    assert patch.headers["Authorization"] == "Bearer secret"
    assert patch.headers["User-Agent"] == "relight-test"


def test_names_cannot_lead_to_another_path() -> None:
    assert paths.pods("a/b", "../c") == "/api/v1/namespaces/a%2Fb/pods/..%2Fc"


def test_without_a_way_to_the_cluster_it_says_what_would_be_right(tmp_path: Path) -> None:
    with pytest.raises(SettingsConflict, match="RELIGHT_KUBERNETES__KUBECONFIG"):
        Cluster(KubernetesSettings(kubeconfig=tmp_path / "none"), "test")


# ------------------------------------------------------------ watches


def test_a_watch_tells_changes_and_bookmarks_and_ends_with_the_server(
    server: Server, client: Cluster
) -> None:
    def watch(request: Request) -> None:
        request.begin()
        request.event("ADDED", pod("a", "11"))
        request.event("BOOKMARK", {"metadata": {"resourceVersion": "12"}})
        request.event("DELETED", pod("a", "13"))
        request.end()

    server.script = [watch]
    opened = client.watch(paths.pods(), since="10", labels="x")
    assert [(change.kind, change.object["metadata"]["resourceVersion"]) for change in opened] == [
        (ChangeKind.ADDED, "11"),
        (ChangeKind.BOOKMARK, "12"),
        (ChangeKind.DELETED, "13"),
    ]
    opened.close()  # after the end: harmless
    for part in ("watch=true", "resourceVersion=10", "allowWatchBookmarks=true", "timeoutSeconds=5"):
        assert part in server.seen[0].path


def test_an_event_is_put_together_from_pieces(server: Server, client: Cluster) -> None:
    def watch(request: Request) -> None:
        request.begin()
        for piece in (
            b'{"type":"ADD',
            b'ED","object":{"metadata":{"resourceVersion":"\xc3',
            b'\xa4"}}}\n\n{"type":',
        ):
            request.chunk(piece)
        request.chunk(b'"MODIFIED","object":{"metadata":{"resourceVersion":"2"}}}\n')
        request.end()

    server.script = [watch]
    changes = list(client.watch(paths.pods(), since="0"))
    assert [change.object["metadata"]["resourceVersion"] for change in changes] == ["ä", "2"]


@pytest.mark.parametrize(("code", "kind"), [(410, ApiGone), (500, ApiAway)])
def test_an_error_event_ends_the_watch_with_its_type(
    server: Server, client: Cluster, code: int, kind: type[ApiError]
) -> None:
    def watch(request: Request) -> None:
        request.begin()
        request.event("ADDED", pod("a", "11"))
        request.event("ERROR", status(code, "too old resource version"))
        request.end()

    server.script = [watch]
    changes = iter(client.watch(paths.pods(), since="1"))
    assert next(changes).kind is ChangeKind.ADDED
    with pytest.raises(ApiError, match="too old") as raised:
        next(changes)
    assert type(raised.value) is kind


def _cut_within_an_event(request: Request) -> None:
    request.begin()
    request.event("ADDED", pod("a", "11"))
    request.chunk(b'{"type":"MODIFIED","object":{"meta')
    request.cut()


def _no_json(request: Request) -> None:
    request.begin()
    request.event("ADDED", pod("a", "11"))
    request.chunk(b"a proxy says hello\n")
    request.end()


def _no_event(request: Request) -> None:
    request.begin()
    request.event("ADDED", pod("a", "11"))
    request.chunk(b'{"object": 5}\n')
    request.end()


@pytest.mark.parametrize("broken", [_cut_within_an_event, _no_json, _no_event])
def test_a_line_that_breaks_within_an_event_is_away_and_tells_no_half(
    server: Server, client: Cluster, broken: Callable[[Request], None]
) -> None:
    server.script = [broken]
    changes = iter(client.watch(paths.pods(), since="1"))
    assert next(changes).object["metadata"]["name"] == "a"
    with pytest.raises(ApiAway):
        next(changes)


def test_a_refused_watch_raises_at_once(server: Server, client: Cluster) -> None:
    server.script = [lambda request: request.reply(410, status(410, "too old"))]
    with pytest.raises(ApiGone):
        client.watch(paths.pods(), since="1")


def test_close_from_another_thread_ends_the_iteration(server: Server, client: Cluster) -> None:
    let_go, got, ended = threading.Event(), threading.Event(), threading.Event()

    def watch(request: Request) -> None:
        request.begin()
        request.event("ADDED", pod("a", "11"))
        let_go.wait(50)

    def read(opened: Watch) -> None:
        for _ in opened:
            got.set()
        ended.set()

    server.script = [watch]
    opened = client.watch(paths.pods(), since="1")
    reader = threading.Thread(target=read, args=(opened,), daemon=True)
    reader.start()
    try:
        assert got.wait(20)
        assert not ended.wait(0.1)  # it waits for more
        opened.close()
        assert ended.wait(20)
        opened.close()  # twice: harmless
    finally:
        let_go.set()
        reader.join(5)


def test_a_watch_that_was_abandoned_leaves_the_client_usable(server: Server, client: Cluster) -> None:
    def watch(request: Request) -> None:
        request.begin()
        for number in range(50):
            request.event("ADDED", pod(f"p{number}", str(number)))
        request.end()

    server.script = [watch, lambda request: request.reply(200, {"metadata": {}})]
    opened = client.watch(paths.pods(), since="1")
    assert next(iter(opened)).object["metadata"]["name"] == "p0"
    opened.close()
    assert client.get(paths.nodes("n")) == {"metadata": {}}


# ------------------------------------------------------------ rate


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    clock = Clock()
    rate = Rate(10, 5, clock=clock, sleep=clock.sleep)
    for _ in range(25):
        rate.take()
    assert clock.slept == pytest.approx([0.1] * 20)
    assert clock.now == pytest.approx(102.0)


def test_a_pause_fills_the_bucket_no_further_than_the_burst() -> None:
    clock = Clock()
    rate = Rate(10, 5, clock=clock, sleep=clock.sleep)
    clock.now += 3600
    for _ in range(6):
        rate.take()
    assert clock.slept == pytest.approx([0.1])


def test_who_waits_waits_longer_than_who_came_before() -> None:
    clock = Clock()
    waits: list[float] = []
    rate = Rate(10, 1, clock=clock, sleep=waits.append)  # time stands still: all come at once
    for _ in range(4):
        rate.take()
    assert waits == pytest.approx([0.1, 0.2, 0.3])


def test_the_client_keeps_its_rate(server: Server, tmp_path: Path) -> None:
    server.script = [lambda request: request.reply(200, {"metadata": {}})]
    client = server.client(tmp_path, rate=50.0, burst=2)
    began = time.monotonic()
    for _ in range(12):
        client.get(paths.nodes("n"))
    assert time.monotonic() - began >= 10 / 50 * 0.95
