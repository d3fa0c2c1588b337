"""The socket with real connections: who may speak, how much, what is told on every line."""

import asyncio
import json
import os
import stat
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from producers.own_pods import OwnPod
from producers.settings import HangSettings, SupervisorSettings
from producers.supervisors.peers import PeerPod
from producers.supervisors.reports import Translation
from producers.supervisors.server import SupervisorServer
from producers.supervisors.source import SupervisorReports
from producers.supervisors.standstills import Standstills
from schemas.cluster import Desired, ProcessOrder
from schemas.signals import ProcessExit
from tests.producers.supervisors.silence import DEVICES
from tests.producers.supervisors.supervised import IDENTITY, own_pod

STOP = Desired(epoch=1, attempt=1, state=ProcessOrder.STOP, until=datetime(2026, 3, 1, tzinfo=UTC))


class Scene:
    """A server, the pods the API knows, and what the kernel says of whoever connects."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.settings = SupervisorSettings(socket=folder / "s", **{"promise_every": "50ms", **settings})
        self.pods: dict[str, OwnPod] = {"pod-1": own_pod()}
        self.kernel: PeerPod | None = PeerPod("pod-1", "ab" * 32)
        self.promising = False
        self.replaces = False
        self.answered: asyncio.Event | None = None
        self.clients: list[Client] = []
        self.source = SupervisorReports(
            Translation(IDENTITY), lambda: datetime.now(UTC), progress_every=timedelta(seconds=1)
        )
        self.source.restore(None)
        self.clock = 0.0  # of silence alone
        self.standstills = Standstills(
            HangSettings(), self.pods.get, lambda: self.clock, lambda: datetime.now(UTC)
        )
        self.server = SupervisorServer(
            self.settings,
            self,
            self.pods.get,
            self.source,
            self.standstills,
            may_promise=lambda: self.promising,
            must_wait=self.must_wait,
        )

    async def must_wait(self, pod: OwnPod) -> bool:
        assert pod.uid == "pod-1"
        if self.answered is not None:
            await self.answered.wait()
        return self.replaces

    def pod_of(self, pid: int) -> PeerPod | None:
        assert pid == os.getpid()
        return self.kernel

    def change(self, pod: OwnPod) -> None:
        self.pods[pod.uid] = pod
        self.server.pod_changed(pod)

    async def line(self, **hello: Any) -> "Client":
        reader, writer = await asyncio.open_unix_connection(self.settings.socket)
        client = Client(reader, writer)
        self.clients.append(client)
        if hello.pop("silent", False):
            return client
        client.say(**{"type": "hello", "spool": "s", "state": "running", "lost": 0, "ha": True, **hello})
        return client

    async def told(self) -> list[Any]:
        return [one.signal for one in (await self.source.next()).observations]


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, **fields: Any) -> None:
        whole = {"v": 1, "pod": "pod-1", "epoch": 1, "attempt": 0, "launch": 1, "at": time.time(), **fields}
        self.writer.write(json.dumps(whole).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.reader.readline())
        return found

    async def ended(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True


def play(folder: Path, act: Callable[[Scene], Coroutine[Any, Any, None]], **settings: Any) -> Scene:
    scene = Scene(folder, **settings)

    async def whole() -> None:
        serving = asyncio.ensure_future(scene.server.run())
        await asyncio.sleep(0)  # it listens from its first turn on
        async with asyncio.timeout(20):
            await act(scene)
        for client in scene.clients:
            client.writer.transport.abort()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(whole())
    return scene


def test_a_report_is_told_and_acknowledged_once_it_is_kept(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.line()
        client.say(type="exit", code=3, seq=1)
        (found,) = await scene.told()
        assert isinstance(found, ProcessExit)
        assert (found.exit_code, found.placement.run, found.placement.container) == (3, "run-1", "trainer")
        asking = asyncio.ensure_future(scene.source.next())
        assert await client.hear() == {"v": 1, "type": "ack", "seq": 1}
        asking.cancel()

    play(tmp_path, act)


def test_desired_state_is_told_when_a_line_begins_and_whenever_it_changes(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.pods["pod-1"] = own_pod(desired=STOP.to_text())
        client = await scene.line()
        first = await client.hear()
        scene.change(own_pod(desired=STOP.to_text(), phase="Unknown"))  # nothing new is wanted
        scene.change(own_pod(desired=Desired(epoch=1, attempt=1, state=ProcessOrder.RUN).to_text()))
        second = await client.hear()

        assert [first["state"], second["state"]] == ["stop", "run"]
        assert first["until"] == datetime(2026, 3, 1, tzinfo=UTC).timestamp()
        assert {first["pod"], second["pod"]} == {"pod-1"}

    play(tmp_path, act)


def test_orders_of_another_pod_are_not_told(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.line()
        await asyncio.sleep(0.05)
        scene.change(own_pod("pod-2", desired=STOP.to_text()))
        scene.change(own_pod("pod-1", desired=Desired(epoch=1, attempt=2, state=ProcessOrder.RUN).to_text()))

        assert (await client.hear())["state"] == "run"

    play(tmp_path, act)


def test_a_process_in_no_pod_is_refused_at_once(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.kernel = None
        assert await (await scene.line(silent=True)).ended()

    assert play(tmp_path, act).server.counted["refused"] == 1


def test_a_pod_the_api_does_not_know_yet_is_waited_for(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        known = scene.pods.pop("pod-1")
        client = await scene.line()
        client.say(type="exit", code=3, seq=1)
        await asyncio.sleep(0.05)
        scene.change(known)

        assert len(await scene.told()) == 1

    play(tmp_path, act)


def test_a_pod_the_api_never_knows_is_refused_within_bounds(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.pods.clear()
        assert await (await scene.line()).ended()

    assert play(tmp_path, act, known_within="200ms").source._reports.empty()


def test_a_pod_of_no_run_is_refused(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.pods["pod-1"] = own_pod(run=None)
        assert await (await scene.line()).ended()

    assert play(tmp_path, act).server.counted["refused"] == 1


def test_who_says_nothing_is_not_held_for_ever(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        assert await (await scene.line(silent=True)).ended()

    play(tmp_path, act, known_within="200ms")


@pytest.mark.parametrize("where", ["hello", "report"])
def test_a_pod_that_speaks_for_another_one_is_cut_off_unheard(tmp_path: Path, where: str) -> None:
    async def act(scene: Scene) -> None:
        scene.pods["victim"] = own_pod("victim")
        client = await scene.line(pod="victim" if where == "hello" else "pod-1")
        client.say(type="exit", code=137, seq=1, pod="victim")
        assert await client.ended()
        assert scene.source._reports.empty()

    assert play(tmp_path, act).server.counted["broken"] == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"garbage\n",
        b'{"v": 7, "type": "exit"}\n',
        b"x" * 200_000,
        b"\n",
        b'{"v":1,"type":"hello","spool":"s"}\n',
    ],
)
def test_garbage_ends_the_line_and_nothing_else(tmp_path: Path, raw: bytes) -> None:
    async def act(scene: Scene) -> None:
        honest = await scene.line()
        hostile = await scene.line()
        hostile.writer.write(raw)
        assert await hostile.ended()
        honest.say(type="exit", code=3, seq=1)
        assert len(await scene.told()) == 1

    assert play(tmp_path, act).server.counted["broken"] == 1


def test_a_report_without_a_number_ends_the_line(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.line()
        client.say(type="exit", code=3)
        assert await client.ended()

    play(tmp_path, act)


def test_lines_are_bounded_in_all_and_a_pod(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.pods["pod-2"] = own_pod("pod-2")
        held = [await scene.line() for _ in range(3)]
        assert await (await scene.line(silent=True)).ended()  # the fourth of this pod
        scene.kernel = PeerPod("pod-2")
        held.append(await scene.line(pod="pod-2"))
        assert await (await scene.line(silent=True)).ended()  # the fifth in all
        held[0].writer.close()
        while len(scene.server._serving) > 3:  # noqa: ASYNC110 - nothing else tells it
            await asyncio.sleep(0.01)
        last = await scene.line(pod="pod-2")
        last.say(type="exit", code=1, seq=1, pod="pod-2")
        assert len(await scene.told()) == 1

    play(tmp_path, act, lines=4, lines_of_a_pod=3)


def test_a_pod_that_floods_waits_and_another_is_heard_at_once(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.pods["pod-2"] = own_pod("pod-2")
        flood = await scene.line()
        for number in range(1, 3001):
            flood.say(type="exit", code=1, seq=number, launch=number)
        kept = 0
        while kept < 50:
            kept += len(await scene.told())
        scene.kernel = PeerPod("pod-2")
        honest = await scene.line(pod="pod-2")
        begun = time.monotonic()
        honest.say(type="exit", code=9, seq=1, pod="pod-2")
        heard = False
        while not heard:
            told = await scene.told()
            heard = any(found.exit_code == 9 for found in told)
            kept += len(told)
        assert time.monotonic() - begun < 10.0, "the flood goes on for minutes"
        assert kept < 200

    assert play(tmp_path, act, burst=300, lines_per_second=25).server.counted["slowed"] >= 1


@pytest.mark.slow
def test_a_new_line_does_not_fill_the_allowance_again(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        kept = 0
        for _ in range(5):
            client = await scene.line()
            for number in range(kept + 1, kept + 40):
                client.say(type="exit", code=1, seq=number, launch=number)
            try:
                async with asyncio.timeout(0.2):
                    while True:
                        kept += len(await scene.told())
            except TimeoutError:
                client.writer.close()
        assert kept <= 60

    play(tmp_path, act, burst=200, lines_per_second=1)


def test_a_pod_that_connects_without_end_is_refused_and_another_is_served(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.pods["pod-2"] = own_pod("pod-2")
        for _ in range(200):
            client = await scene.line(silent=True)
            client.writer.close()
        await asyncio.sleep(0.05)
        assert await (await scene.line(silent=True)).ended()
        scene.kernel = PeerPod("pod-2")
        honest = await scene.line(pod="pod-2")
        honest.say(type="exit", code=9, seq=1, pod="pod-2")
        assert len(await scene.told()) == 1

    assert play(tmp_path, act, burst=50, lines_per_second=1).server.counted["refused"] >= 150


def test_a_supervisor_that_never_reads_loses_its_line_not_our_memory(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.line()
        await asyncio.sleep(0.05)
        for attempt in range(20_000):
            order = Desired(epoch=1, attempt=attempt, state=ProcessOrder.RUN)
            scene.change(own_pod(desired=order.to_text()))
            if attempt % 500 == 0:
                await asyncio.sleep(0)
                if not scene.server.lines:
                    break
        assert scene.server.lines == 0
        del client

    play(tmp_path, act)


@pytest.mark.parametrize("phase", ["held", "waiting"])
def test_a_held_exit_is_promised_a_verdict_while_one_can_come(tmp_path: Path, phase: str) -> None:
    async def act(scene: Scene) -> None:
        scene.promising = True
        client = await scene.line()
        client.say(type="state", state=phase, code=1, seq=1)
        word = await client.hear()
        assert word["type"] == "extend"
        assert word["pod"] == "pod-1"
        assert 100 < word["until"] - time.time() <= 120

    play(tmp_path, act)


@pytest.mark.parametrize(
    ("phase", "reachable", "at_most"),
    [("running", True, "15m"), ("stopped", True, "15m"), ("held", False, "15m"), ("held", True, "0.001ms")],
)
def test_no_verdict_is_promised_that_is_not_due_or_cannot_come_or_is_overdue(
    tmp_path: Path, phase: str, reachable: bool, at_most: str
) -> None:
    async def act(scene: Scene) -> None:
        scene.promising = reachable
        client = await scene.line()
        client.say(type="state", state=phase, code=1, seq=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.hear()

    play(tmp_path, act, promise_at_most=at_most)


def test_a_pod_that_went_may_still_say_how_it_ended(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.line()
        await asyncio.sleep(0.05)
        del scene.pods["pod-1"]
        client.say(type="exit", code=3, seq=1)
        assert len(await scene.told()) == 1

    play(tmp_path, act)


def test_the_socket_is_open_to_every_user_replaces_a_dead_one_and_goes_with_the_agent(tmp_path: Path) -> None:
    modes: list[int] = []

    async def act(scene: Scene) -> None:
        modes.append(stat.S_IMODE(scene.settings.socket.stat().st_mode))

    play(tmp_path, act)
    assert not (tmp_path / "s").exists()
    left = os.fork()
    if left == 0:  # an agent that is killed leaves its socket
        import socket  # noqa: PLC0415 - in the child only

        socket.socket(socket.AF_UNIX).bind(str(tmp_path / "s"))
        os._exit(0)
    os.waitpid(left, 0)
    assert stat.S_ISSOCK((tmp_path / "s").stat().st_mode)
    play(tmp_path, act)

    assert modes == [0o666, 0o666]


def test_what_is_no_socket_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("precious")
    scene = Scene(tmp_path)

    with pytest.raises(OSError, match="in use"):
        asyncio.run(scene.server.run())
    assert (tmp_path / "s").read_text() == "precious"


def promised(word: dict[str, Any]) -> float:
    assert (word["type"], word["pod"]) == ("extend", "pod-1")
    return float(word["until"]) - time.time()


def test_a_pod_that_must_wait_is_held_once_and_not_promised_on_and_on(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.promising = scene.replaces = True
        client = await scene.line(launch=0, state="waiting")
        assert 100 < promised(await client.hear()) <= 120
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.hear()
        assert scene.server.counted["first_start_held"] == 1

    play(tmp_path, act)


def test_a_pod_that_need_not_wait_is_told_so_at_once(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.promising = True
        client = await scene.line(launch=0, state="checking")
        assert promised(await client.hear()) <= 0

    play(tmp_path, act)


def test_nobody_is_held_for_an_answer_that_could_not_come(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.replaces = True
        client = await scene.line(launch=0, state="checking")
        assert promised(await client.hear()) <= 0

    play(tmp_path, act)


def test_an_order_that_stands_is_the_answer(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.promising = scene.replaces = True
        scene.pods["pod-1"] = own_pod(desired=Desired(epoch=1, attempt=1, state=ProcessOrder.RUN).to_text())
        client = await scene.line(launch=0, state="checking")
        assert (await client.hear())["state"] == "run"
        assert promised(await client.hear()) <= 0

    play(tmp_path, act)


@pytest.mark.parametrize(
    "hello", [{"launch": 1, "state": "running"}, {"launch": 0, "state": "checking", "ha": False}]
)
def test_who_has_started_or_is_not_ours_to_hold_is_told_nothing(
    tmp_path: Path, hello: dict[str, Any]
) -> None:
    async def act(scene: Scene) -> None:
        scene.promising = scene.replaces = True
        client = await scene.line(**hello)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.hear()

    play(tmp_path, act)


def test_an_order_that_comes_while_the_api_is_asked_is_not_undone_by_a_hold(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.promising = scene.replaces = True
        scene.answered = asyncio.Event()
        client = await scene.line(launch=0, state="checking")
        await asyncio.sleep(0.05)
        scene.change(own_pod(desired=Desired(epoch=1, attempt=1, state=ProcessOrder.RUN).to_text()))
        assert (await client.hear())["state"] == "run"
        scene.answered.set()
        assert promised(await client.hear()) <= 0

    play(tmp_path, act)


def silent_for(scene: Scene, minutes: int) -> list[str]:
    """Nobody says anything on any line; what looks find meanwhile."""
    found: list[str] = []
    for _ in range(minutes * 2):
        scene.clock += 30
        found += [edge.state for edge in scene.standstills.look()]
    return found


def test_silence_is_that_of_a_line_that_is_up_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(scene: Scene) -> None:
        scene.pods["pod-1"] = own_pod(container=DEVICES)
        client = await scene.line(hang_minutes=None)
        client.say(type="progress", step=1)
        await scene.told()
        assert silent_for(scene, 32) == ["stalled"]
        client.say(type="milestone", name="stable", seq=1)
        await scene.told()
        assert silent_for(scene, 20) == ["moving"]

        asked, room = asyncio.Event(), asyncio.Event()

        async def no_room(_: object) -> None:
            asked.set()
            await room.wait()

        monkeypatch.setattr(scene.source, "offer", no_room)
        client.say(type="milestone", name="stable", seq=2)
        client.say(type="milestone", name="stable", seq=3)  # behind it
        await asked.wait()
        assert silent_for(scene, 300) == []
        monkeypatch.undo()
        room.set()
        await scene.told()
        assert silent_for(scene, 32) == ["stalled"]
        client.writer.transport.abort()
        await asyncio.sleep(0.05)
        assert silent_for(scene, 300) == []
        assert scene.standstills.silences() == []

    play(tmp_path, act)


def test_a_hello_with_wrong_words_of_the_process_is_served_as_any_other(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.line(hang_minutes="soon", progress={"step": -1})
        client.say(type="exit", code=3, seq=1)
        (found,) = await scene.told()
        assert isinstance(found, ProcessExit)

    play(tmp_path, act)
