"""Hangs as signals; and a real supervisor's training process that falls silent, through the real socket."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from producers.observation import Batch, SignalClass
from producers.own_pods import OwnPod
from producers.settings import HangSettings, SupervisorSettings
from producers.supervisors.hangs import Hangs
from producers.supervisors.peers import PeerPod
from producers.supervisors.reports import Translation
from producers.supervisors.server import SupervisorServer
from producers.supervisors.source import SupervisorReports
from producers.supervisors.standstills import Standstills
from schemas.signals import HangEvidence, Progress
from supervisor.build import build
from tests.producers.supervisors.silence import DEVICES, HOUR, Scene, training
from tests.producers.supervisors.supervised import IDENTITY, own_pod
from tests.supervisor.container import Container


def ask(hangs: Hangs) -> Batch | None:
    """One asking, without waiting."""

    async def once() -> Batch | None:
        asking = asyncio.ensure_future(hangs.next())
        await asyncio.sleep(0)
        if asking.done():
            return asking.result()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return None

    return asyncio.run(once())


def hangs_of(scene: Scene, may_tell: Callable[[], bool] = lambda: True) -> Hangs:
    return Hangs(scene.heard, IDENTITY, lambda: scene.wall, may_tell=may_tell)


def silent() -> Scene:
    """It is told by the next look."""
    scene = training()
    scene.passes(HOUR / 2)
    return scene


def test_a_stall_is_evidence_that_must_not_be_dropped_with_what_was_told_in_the_same_record() -> None:
    scene = silent()
    last = scene.wall - timedelta(minutes=30)
    hangs = hangs_of(scene)
    batch = ask(hangs)

    assert batch is not None
    assert batch.kind is SignalClass.EXIT
    (seen,) = batch.observations
    assert seen.signal == HangEvidence(
        node=IDENTITY.node,
        placement=scene.peer().placement,
        state="stalled",
        method="steps",
        last_progress=last,
        start=1,
    )
    assert (seen.time, seen.stamped) == (scene.wall, True)
    assert batch.state == {"told": {"pod-1/s": [1, 1]}}
    assert hangs.counts() == {"pods_stalled": 1}
    assert hangs.counts() == {}
    assert ask(hangs) is None


def test_a_second_stall_has_an_id_of_its_own_and_moving_is_told_too() -> None:
    scene = silent()
    hangs = hangs_of(scene)
    batches = [ask(hangs)]
    scene.step(2)
    batches.append(ask(hangs))
    scene.passes(HOUR / 2)
    batches.append(ask(hangs))
    seen = [batch.observations[0] for batch in batches if batch is not None]

    assert [one.signal.state for one in seen if isinstance(one.signal, HangEvidence)] == [
        "stalled",
        "moving",
        "stalled",
    ]
    assert len({one.id for one in seen}) == 3


def test_while_reports_wait_for_room_nobody_is_judged() -> None:
    scene = silent()
    assert ask(hangs_of(scene, may_tell=lambda: False)) is None
    assert ask(hangs_of(scene)) is not None


def test_time_in_which_nothing_could_be_told_at_once_is_no_silence() -> None:
    scene = training()
    reaches = True
    hangs = hangs_of(scene, may_tell=lambda: reaches)

    def told(seconds: float) -> bool:
        for _ in range(int(seconds / 10)):
            scene.passes(10, looking=False)
            if ask(hangs) is not None:
                return True
        return False

    assert not told(HOUR / 3)
    reaches = False  # storage and broker are away together: the job waits, and nothing is wrong with it
    assert not told(HOUR)
    reaches = True
    assert not told(HOUR / 2 - 10)  # it is read again, and the time has begun anew
    assert told(60)


class Node:
    """A server on a real socket, and a kernel that knows the pod of whoever connects."""

    def __init__(self, folder: Path) -> None:
        self.pods: dict[str, OwnPod] = {"pod-1": own_pod(container=DEVICES)}
        source = SupervisorReports(Translation(IDENTITY), _now, progress_every=timedelta(seconds=1))
        source.restore(None)
        hangs = HangSettings(look_every=timedelta(milliseconds=50))
        self.source = source
        self.steps = asyncio.Event()
        """The training process told one."""
        self.standstills = Standstills(hangs, self.pods.get, time.monotonic, _now)
        self.hangs = Hangs(self.standstills, IDENTITY, _now)
        self.hangs.restore(None)
        self.server = SupervisorServer(
            SupervisorSettings(socket=folder / "agent.sock"),
            self,
            self.pods.get,
            source,
            self.standstills,
        )

    def pod_of(self, pid: int) -> PeerPod | None:
        assert pid != os.getpid()
        return PeerPod("pod-1", "ab" * 32)

    async def drain(self) -> None:
        """What supervisors say is kept."""
        while True:
            batch = await self.source.next()
            if any(isinstance(one.signal, Progress) for one in batch.observations):
                self.steps.set()


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    zipapp = tmp_path / "supervisor.pyz"
    build(zipapp)
    started = Container(zipapp, tmp_path)
    yield started
    started.close()


LOOP = """
import os, sys, time
sys.path.insert(0, os.environ["TELL"])
from relight_progress import tell

there = os.path.join(os.environ["HERE"], "stands-still")
step = 0
while True:
    step += not os.path.exists(there)
    if not os.path.exists(there):
        tell("step", step)
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_training_process_that_falls_silent_and_goes_on_is_heard_of_through_its_supervisor(
    container: Container, tmp_path: Path
) -> None:
    tell = Path(__file__).resolve().parents[3] / "supervisor"
    (tmp_path / "loop.py").write_text(LOOP, encoding="utf-8")
    still = tmp_path / "stands-still"

    async def act(node: Node) -> list[HangEvidence]:
        container.start(f'exec {sys.executable} "$HERE/loop.py"', MA_HANG_DETECT_TIME="0.05", TELL=str(tell))
        asked = asyncio.ensure_future(node.hangs.next())
        await node.steps.wait()
        still.touch()
        stalled = await asked
        still.unlink()
        moving = await node.hangs.next()
        return [one.signal for batch in (stalled, moving) for one in batch.observations]  # type: ignore[misc]

    async def whole() -> list[HangEvidence]:
        node = Node(tmp_path)
        beside = [asyncio.ensure_future(node.server.run()), asyncio.ensure_future(node.drain())]
        try:
            async with asyncio.timeout(40):
                return await act(node)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    began = datetime.now(UTC)
    stalled, moving = asyncio.run(whole())

    assert [stalled.state, moving.state] == ["stalled", "moving"]
    assert (stalled.start, stalled.placement.run, stalled.placement.pod_uid) == (1, "run-1", "pod-1")
    assert began < stalled.last_progress < moving.last_progress
