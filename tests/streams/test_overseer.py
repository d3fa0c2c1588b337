"""What stands still is seeked, what is full is set aside and taken back, what is confirmed is committed once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import pytest

from runtime.health import Health
from runtime.settings import ConsumerSettings, ObserveSettings
from streams.holdings import Holding
from streams.overseer import LOOK_EVERY, Overseer
from streams.ports import Place
from tests.streams.test_holdings import A, B, Scene
from tests.streams.virtual_time import now, run

STALL = ConsumerSettings().stall_after
STILL = ObserveSettings().stand_still


class FakeReader:
    """A consumer that remembers what it was told."""

    def __init__(self) -> None:
        self.ends: dict[Place, int] = {}
        self.seeks: list[tuple[Place, int]] = []
        self.paused: set[Place] = set()
        self.commits: list[dict[Place, int]] = []

    def end_of(self, place: Place) -> int | None:
        return self.ends.get(place)

    async def seek(self, place: Place, offset: int) -> None:
        self.seeks.append((place, offset))

    def pause(self, place: Place) -> None:
        self.paused.add(place)

    def resume(self, place: Place) -> None:
        self.paused.discard(place)

    async def commit(self, positions: Mapping[Place, int]) -> None:
        self.commits.append(dict(positions))


class Watch(Scene):
    """Holdings with an overseer."""

    def __init__(self) -> None:
        super().__init__()
        self.reader, self.health = FakeReader(), Health()
        self.overseer = Overseer(
            self.holdings,
            self.reader,
            ConsumerSettings(),
            ObserveSettings(),
            self.metrics,
            self.health,
            wall=now,
            monotonic=now,
        )

    async def look_for(self, time: timedelta) -> None:
        for _ in range(time // LOOK_EVERY):
            await asyncio.sleep(LOOK_EVERY.total_seconds())
            await self.overseer.look_once()

    def holding(self, place: Place = A) -> Holding:
        holding = self.holdings.get(place)
        assert holding is not None
        return holding


def test_something_to_read_and_nothing_read_for_a_while_is_seeked() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A, B)
        scene.reader.ends = {A: 5, B: 0}
        await scene.look_for(STALL)
        assert scene.reader.seeks == []
        await scene.look_for(LOOK_EVERY)

        assert scene.reader.seeks == [(A, 0)]
        await scene.holdings.give_up()

    run(main())


def test_a_partition_that_gets_on_is_left_alone() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A)
        for offset in range(20):
            scene.reader.ends = {A: offset + 5}
            scene.offer(offset)
            await scene.look_for(LOOK_EVERY)

        assert scene.reader.seeks == []
        await scene.holdings.give_up()

    run(main())


def test_a_group_that_takes_long_is_no_stall() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A)
        scene.stage.workers[A].takes = 100
        scene.reader.ends = {A: 5}
        scene.offer(0)
        await scene.look_for(10 * STALL)

        assert scene.reader.seeks == []
        await scene.holdings.give_up()

    run(main())


def test_what_is_not_ours_is_not_looked_at() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A)
        await scene.look_for(10 * STALL)

        assert scene.reader.seeks == []
        await scene.holdings.give_up()

    run(main())


@pytest.mark.slow
def test_a_partition_set_aside_is_paused_and_taken_back_when_it_is_empty() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A)
        worker = scene.stage.workers[A]
        worker.takes = 4
        scene.offer(0, 1, 2)
        await asyncio.sleep(0.1)
        scene.overseer.set_aside(scene.holding())
        scene.offer(3, 4)  # dropped: it will be read again
        scene.reader.ends = {A: 5}
        await scene.look_for(timedelta(seconds=5))
        assert scene.reader.paused == {A}
        assert scene.reader.seeks == []
        await scene.look_for(timedelta(seconds=5))

        assert scene.reader.paused == set()
        assert scene.reader.seeks == [(A, 3)]
        scene.offer(3)
        await asyncio.sleep(10)
        assert worker.handled == [0, 1, 2, 3]
        await scene.holdings.give_up()

    run(main())


def test_a_partition_left_paused_by_whatever_is_read_again() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A)
        scene.reader.pause(A)
        scene.reader.ends = {A: 5}
        await scene.look_for(STALL + LOOK_EVERY)

        assert scene.reader.paused == set()
        await scene.holdings.give_up()

    run(main())


def test_a_position_is_committed_once_and_only_when_it_is_certain() -> None:
    async def main() -> None:
        scene = Watch()
        positions = await scene.take_up(A, B)
        scene.overseer.took_up(positions)
        await scene.overseer.commit_now()
        assert scene.reader.commits == []
        scene.offer(0)
        await asyncio.sleep(1)
        await scene.overseer.commit_now()
        await scene.overseer.commit_now()
        scene.holding(B).certain = False
        await scene.overseer.commit_now()

        assert scene.reader.commits == [{A: 1}]
        await scene.holdings.give_up()

    run(main())


def test_health_goes_red_when_a_partition_stands_still_and_green_when_it_moves() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A)
        scene.reader.ends = {A: 5}
        scene.stage.workers[A].takes = 10_000
        scene.offer(0)
        await scene.look_for(STILL + 2 * LOOK_EVERY)
        assert "inbox.v1/0" in scene.health.faults()["movement"]
        scene.stage.workers[A].position = 3
        await scene.look_for(LOOK_EVERY)

        assert "movement" not in scene.health.faults()
        await scene.holdings.give_up()

    run(main())


def test_an_idle_partition_is_healthy_for_ever() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A)
        scene.reader.ends = {A: 0}
        await scene.look_for(10 * STILL)

        assert "movement" not in scene.health.faults()
        await scene.holdings.give_up()

    run(main())


def test_lag_is_shown_in_messages_and_in_seconds() -> None:
    async def main() -> None:
        scene = Watch()
        await scene.take_up(A)
        await asyncio.sleep(30)
        scene.stage.workers[A].takes = 10
        scene.reader.ends = {A: 9}
        scene.offer(0)
        await asyncio.sleep(1)
        await scene.overseer.look_once()
        value = scene.metrics.registry.get_sample_value
        labels = {"topic": A.topic, "partition": "0"}

        assert value("relight_test_lag_messages", labels) == 9
        assert value("relight_test_lag_seconds", labels) is not None
        await scene.holdings.give_up()
        assert value("relight_test_lag_messages", labels) is None, "an old value would look like a live one"

    run(main())
