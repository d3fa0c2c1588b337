"""The heartbeat folds what was counted and names the sources that see."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from producers.heartbeat import HeartbeatSource
from producers.identity import Identity
from producers.observation import Batch, SignalClass, State
from schemas.signals import Heartbeat, NodeRef

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NODE = NodeRef(uid="u-1", name="n-1")


class Eyes:
    def __init__(self, name: str, *, works: bool, counted: Mapping[str, int]) -> None:
        self.name = name
        self.works = works
        self.counted = dict(counted)

    def restore(self, state: State | None) -> None:
        raise AssertionError(state)

    async def next(self) -> Batch:
        raise AssertionError

    def counts(self) -> dict[str, int]:
        counted, self.counted = self.counted, {}
        return counted


def heartbeat(*eyes: Eyes) -> HeartbeatSource:
    return HeartbeatSource(
        Identity("c", NODE),
        lambda: list(eyes),
        lambda: {"spooled_fault": 2, "spooled_exit": 0},
        lambda: NOW,
        boot_id="boot",
        every=timedelta(minutes=1),
    )


def said(source: HeartbeatSource) -> Heartbeat:
    data = source.beat().signal
    assert isinstance(data, Heartbeat)
    return data


def test_only_sources_that_see_are_named() -> None:
    beat = said(heartbeat(Eyes("a", works=True, counted={}), Eyes("b", works=False, counted={})))

    assert beat.sources == ("a",)
    assert (beat.boot_id, beat.started_at, beat.node) == ("boot", NOW, NODE)


def test_counts_are_added_up_and_told_once() -> None:
    source = heartbeat(
        Eyes("a", works=True, counted={"lines": 3}), Eyes("b", works=True, counted={"lines": 4})
    )

    assert said(source).folded == {"spooled_fault": 2, "lines": 7}
    assert said(source).folded == {"spooled_fault": 2}


async def _next(source: HeartbeatSource) -> Batch:
    return await source.next()


def test_the_first_comes_at_once_and_may_be_dropped() -> None:
    import asyncio  # noqa: PLC0415 - one test of the file is asynchronous

    batch = asyncio.run(_next(heartbeat()))

    assert batch.kind is SignalClass.METRIC
    assert len(batch.observations) == 1
