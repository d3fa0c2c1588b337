"""An exit that killed its supervisor is told by the kubelet's word, with the supervisor's number, once."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from producers.own_pods import OwnPod, read_pod
from producers.supervisors.ends import ContainerEnds
from producers.supervisors.source import Offered, SupervisorReports
from producers.told_ends import container_end_id
from schemas.signals import ProcessExit
from tests.producers.supervisors.supervised import NOW, own_pod, peer, pod_object
from tests.producers.supervisors.test_source import Heard, report, run, silent, source_of

AT = "2026-03-01T11:59:00Z"


def ended_pod(code: int = 137, reason: str = "OOMKilled", **more: Any) -> OwnPod:
    end = {"exitCode": code, "reason": reason, "finishedAt": AT}
    status = {"name": "trainer", "containerID": "containerd://" + "ab" * 32, "restartCount": 0}
    pod = pod_object(phase="Failed", containerStatuses=[{**status, "state": {"terminated": end}}], **more)
    return read_pod(pod, NOW)


async def says_nothing(source: SupervisorReports) -> bool:
    """What waits is taken, and tells nothing."""
    while source._reports.qsize():
        if (await source.next()).observations:
            return False
    return await silent(source)


class Scene:
    """The source with what stands before it; a line is up while `up`."""

    def __init__(self) -> None:
        self.source = source_of()
        self.line = Heard()
        self.up = False
        self.ends = ContainerEnds(self.source, lambda _: self.up, timedelta(milliseconds=5))

    async def launched(self, *launches: int, exits: int = 0) -> None:
        """Its supervisor said so many starts, and exits of all of them up to `exits`."""
        self.source.opened(self.line, peer(), 0)
        seq = 0
        for launch in launches:
            for kind in ["started", *(["exit"] if launch <= exits else [])]:
                seq += 1
                more = {"code": 1, "ordered": True} if kind == "exit" else {}
                said = report(type=kind, seq=seq, launch=launch, **more)
                await self.source.offer(Offered(self.line, peer(), seq, said))
        await self.source.next()
        self.source.closed(self.line)

    async def told(self) -> list[ProcessExit]:
        batch = await asyncio.wait_for(self.source.next(), 5)
        return [one.signal for one in batch.observations if isinstance(one.signal, ProcessExit)]

    async def nothing_more(self) -> bool:
        await asyncio.sleep(0.05)
        return await says_nothing(self.source)


def play(act: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        scene = Scene()
        await act(scene)
        scene.ends.close()

    run(whole())


@pytest.mark.parametrize(("code", "reason"), [(137, "OOMKilled"), (137, "Error"), (139, "Error")])
def test_the_exit_carries_the_number_of_a_start_after_restarts_in_place(code: int, reason: str) -> None:
    async def act(scene: Scene) -> None:
        await scene.launched(1, 2, 3, exits=2)
        scene.ends.heard(ended_pod(code, reason))
        (found,) = await scene.told()
        assert (found.start, found.exit_code, found.signal) == (3, code, code - 128)
        assert found.oom is (reason == "OOMKilled")
        assert found.ordered_attempt is None
        assert (found.placement.pod_uid, found.placement.container) == ("pod-1", "trainer")
        assert await scene.nothing_more()

    play(act)


def test_it_has_the_id_of_the_containers_end_and_its_time() -> None:
    async def act(scene: Scene) -> None:
        await scene.launched(1)
        scene.ends.heard(ended_pod())
        (found,) = (await scene.source.next()).observations
        assert found.id == container_end_id("c-1", "pod-1", 0)
        assert found.time == datetime.fromisoformat(AT).astimezone(UTC)

    play(act)


def test_an_exit_its_supervisor_told_is_not_told_again() -> None:
    async def act(scene: Scene) -> None:
        await scene.launched(1, 2, exits=2)
        scene.ends.heard(ended_pod())
        assert await scene.nothing_more()

    play(act)


def test_a_report_that_is_still_on_its_way_comes_first() -> None:
    async def act(scene: Scene) -> None:
        await scene.launched(1)
        scene.up = True
        scene.ends.heard(ended_pod())
        await asyncio.sleep(0.02)
        said = report(type="exit", seq=2, launch=1, code=9)
        await scene.source.offer(Offered(scene.line, peer(), 2, said))
        scene.up = False
        assert [(one.exit_code, one.start) for one in await scene.told()] == [(9, 1)]
        assert await scene.nothing_more()

    play(act)


@pytest.mark.parametrize(
    "more",
    [
        {"conditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"run": None},
    ],
    ids=["being evicted", "of no run"],
)
def test_the_end_of_what_is_taken_away_or_not_ours_is_no_exit(more: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        await scene.launched(1)
        scene.ends.heard(ended_pod(**more))
        assert await scene.nothing_more()

    play(act)


def test_a_container_that_runs_or_that_no_supervisor_spoke_from_is_none_of_ours() -> None:
    async def act(scene: Scene) -> None:
        scene.ends.heard(ended_pod())  # nobody was heard
        await scene.launched(1)
        scene.ends.heard(own_pod())
        assert await scene.nothing_more()

    play(act)


@pytest.mark.parametrize(("code", "reason", "told"), [(137, "OOMKilled", 1), (1, "Error", 0)])
def test_before_the_first_start_only_a_kill_is_an_exit(code: int, reason: str, told: int) -> None:
    """A container whose pre-check failed ends as well; that was told as a check."""

    async def act(scene: Scene) -> None:
        scene.source.opened(scene.line, peer(), 0, launch=0)
        scene.source.closed(scene.line)
        scene.ends.heard(ended_pod(code, reason))
        if told:
            assert [one.start for one in await scene.told()] == [1]
        assert await scene.nothing_more()

    play(act)


@pytest.mark.parametrize("kept", [False, True])
def test_an_agent_killed_before_or_after_it_was_kept_tells_it_once(kept: bool) -> None:
    """The pod's end comes with the next agent's first list again."""

    async def act(scene: Scene) -> None:
        await scene.launched(1, 2, exits=1)
        before = json.loads(json.dumps(scene.source._state()))
        scene.ends.heard(ended_pod())
        batch = await scene.source.next()
        (first,) = batch.observations
        after = json.loads(json.dumps(batch.state))

        again: SupervisorReports = source_of()
        again.restore(after if kept else before)
        ends = ContainerEnds(again, lambda _: False, timedelta(0))
        ends.heard(ended_pod())
        await asyncio.sleep(0.02)
        if kept:
            assert await says_nothing(again)
        else:
            (second,) = (await again.next()).observations
            assert (second.id, second.signal) == (first.id, first.signal)

    play(act)
