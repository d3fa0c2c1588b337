"""Partitions are taken up, kept only while nobody else can have had them, and given up without losing what is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from runtime.errors import BrokerAway, Fenced
from runtime.metrics import StreamMetrics
from runtime.settings import ConsumerSettings
from streams.holdings import Holdings
from streams.ports import Message, Place
from streams.settings import GroupingSettings
from tests.streams.fakes import FakeMessage
from tests.streams.virtual_time import now, run

A, B = Place("inbox.v1", 0), Place("inbox.v1", 1)
GRACE = ConsumerSettings().revoke_grace.total_seconds()


class FakeWorker:
    """Handles by waiting as long as told."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.handled: list[int] = []
        self.closed = False
        self.takes = 0.0
        self.settles_in = 0.0
        self.fails: Exception | None = None

    async def handle(self, messages: Sequence[Message]) -> None:
        await asyncio.sleep(self.takes)
        if self.fails is not None:
            raise self.fails
        self.handled += [message.offset for message in messages]
        self.position = messages[-1].offset + 1

    async def idle(self) -> None:
        pass

    async def settle(self) -> None:
        await asyncio.sleep(self.settles_in)

    async def close(self) -> None:
        self.closed = True


class FakeStage:
    """Opens workers at a position, after as many failures as told."""

    def __init__(self) -> None:
        self.opened: list[Place] = []
        self.workers: dict[Place, FakeWorker] = {}
        self.position = 0
        self.failures = 0
        self.slow = 0.0

    async def open(self, place: Place) -> FakeWorker:
        await asyncio.sleep(self.slow)
        if self.failures:
            self.failures -= 1
            raise BrokerAway("gone")
        self.opened.append(place)
        self.workers[place] = FakeWorker(self.position)
        return self.workers[place]


class Scene:
    """Holdings with a fake stage."""

    def __init__(self) -> None:
        self.stage = FakeStage()
        self.lost: list[Place] = []
        self.metrics = StreamMetrics("test")
        self.holdings = Holdings(
            self.stage,
            GroupingSettings(size=2, linger=timedelta(0)),
            ConsumerSettings(),
            self.metrics,
            on_lost=self.lost.append,
        )

    async def take_up(
        self, *places: Place, generation: int = 1, ours: Callable[[Place], bool] = lambda _: True
    ) -> dict[Place, int]:
        return await self.holdings.take_up(places, generation, ours)

    def offer(self, *offsets: int, place: Place = A) -> None:
        for offset in offsets:
            self.holdings.offer(FakeMessage(offset, b"", topic=place.topic, partition=place.partition))


def test_what_is_taken_up_says_where_to_read_on_and_handles_what_comes() -> None:
    async def main() -> None:
        scene = Scene()
        scene.stage.position = 7
        assert await scene.take_up(A, B) == {A: 7, B: 7}
        scene.offer(7, 8, 9)
        await asyncio.sleep(1)

        assert scene.stage.workers[A].handled == [7, 8, 9]
        assert scene.holdings.positions() == {A: 10, B: 7}
        await scene.holdings.give_up()

    run(main())


@pytest.mark.parametrize(("later", "kept"), [(1, True), (2, True), (3, False), (0, False)])
def test_memory_is_kept_only_if_nobody_can_have_owned_the_partition_in_between(
    later: int, kept: bool
) -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A, generation=1)
        first = scene.stage.workers[A]
        await scene.holdings.give_way()
        await scene.take_up(A, generation=later)

        assert (scene.stage.workers[A] is first) is kept
        assert first.closed is not kept
        await scene.holdings.give_up()

    run(main())


def test_a_group_in_flight_may_end_before_its_partition_goes() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A)
        worker = scene.stage.workers[A]
        worker.takes = GRACE - 1
        scene.offer(0, 1, 2, 3)
        await asyncio.sleep(0.1)
        await scene.holdings.give_way()

        assert worker.handled == [0, 1], "the group in flight, and no other"
        assert await scene.take_up(A, generation=2) == {A: 2}
        assert scene.stage.opened == [A], "kept"
        await scene.holdings.give_up()

    run(main())


def test_a_group_that_does_not_end_in_time_makes_memory_worthless() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A)
        scene.stage.workers[A].takes = 10 * GRACE
        scene.offer(0)
        await asyncio.sleep(0.1)
        await scene.holdings.give_way()
        assert now() == pytest.approx(GRACE + 0.1)
        assert scene.holdings.positions() == {}
        await scene.take_up(A, generation=2)

        assert scene.stage.opened == [A, A], "loaded anew though the generation follows"
        await scene.holdings.give_up()

    run(main())


def test_what_is_being_written_is_waited_for_before_a_partition_goes() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A)
        scene.stage.workers[A].settles_in = GRACE - 1
        scene.offer(0)
        await asyncio.sleep(0.1)
        await scene.holdings.give_way()

        assert now() == pytest.approx(GRACE - 1 + 0.1)
        assert await scene.take_up(A, generation=2) == {A: 1}
        assert scene.stage.opened == [A], "kept"
        await scene.holdings.give_up()

    run(main())


def test_what_is_not_written_in_time_makes_memory_worthless() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A)
        scene.stage.workers[A].settles_in = 10 * GRACE
        scene.offer(0)
        await asyncio.sleep(0.1)
        await scene.holdings.give_way()
        assert now() == pytest.approx(GRACE + 0.1)
        assert scene.holdings.positions() == {}
        scene.stage.workers[A].settles_in = 0.0
        await scene.take_up(A, generation=2)

        assert scene.stage.opened == [A, A], "loaded anew though the generation follows"
        await scene.holdings.give_up()

    run(main())


def test_messages_of_partitions_that_are_not_held_are_dropped() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A)
        scene.offer(0, place=B)
        await scene.holdings.give_way()
        scene.offer(0)
        await asyncio.sleep(1)

        assert scene.stage.workers[A].handled == []
        await scene.holdings.give_up()

    run(main())


def test_what_is_no_longer_assigned_is_closed() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A, B)
        worker = scene.stage.workers[B]
        await scene.holdings.give_way()
        assert await scene.take_up(A, generation=2) == {A: 0}

        assert worker.closed
        assert scene.holdings.get(B) is None
        await scene.holdings.give_up()

    run(main())


def test_taking_up_twice_in_one_generation_is_harmless() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A)
        scene.offer(0)
        await asyncio.sleep(1)
        assert await scene.take_up(A) == {A: 1}
        scene.offer(1)
        await asyncio.sleep(1)

        assert scene.stage.workers[A].handled == [0, 1]
        assert scene.stage.opened == [A]
        await scene.holdings.give_up()

    run(main())


def test_the_broker_away_while_a_partition_is_taken_up_is_waited_out() -> None:
    async def main() -> None:
        scene = Scene()
        scene.stage.failures = 5

        assert await scene.take_up(A) == {A: 0}
        await scene.holdings.give_up()

    run(main())


def test_a_partition_that_moved_on_meanwhile_is_not_fenced() -> None:
    async def main() -> None:
        scene = Scene()
        scene.stage.failures = 2
        tries: list[Place] = []

        def ours(place: Place) -> bool:
            tries.append(place)
            return len(tries) < 2

        assert await scene.take_up(A, ours=ours) == {}
        assert scene.stage.opened == []

    run(main())


@pytest.mark.parametrize("end", [Fenced("another"), RuntimeError("a bug")])
def test_a_partition_that_failed_is_reported_stopped_and_loaded_anew(end: Exception) -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A, B)
        scene.stage.workers[A].fails = end
        scene.offer(0)
        scene.offer(0, place=B)
        await asyncio.sleep(1)

        assert scene.lost == [A]
        assert scene.stage.workers[B].handled == [0], "the others are well"
        scene.stage.position = 4
        won = await scene.holdings.take_up_again(A, 1, lambda _: True)
        assert won is not None
        assert won.lane.next == 4
        scene.offer(4)
        await asyncio.sleep(1)
        assert scene.stage.workers[A].handled == [4]
        await scene.holdings.give_up()

    run(main())


def test_a_partition_that_was_won_back_already_is_left_alone() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A)

        assert await scene.holdings.take_up_again(A, 1, lambda _: True) is None
        assert await scene.holdings.take_up_again(B, 1, lambda _: True) is None
        assert scene.stage.opened == [A]
        await scene.holdings.give_up()

    run(main())


def test_the_reader_hears_of_the_first_jump_and_of_a_full_lane_only() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.take_up(A)
        heard = [
            scene.holdings.offer(FakeMessage(offset, b"", topic=A.topic, partition=A.partition)) is not None
            for offset in (3, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7)
        ]

        assert heard == [True, False, False, False, False, False, False, False, False, False, True]
        assert scene.metrics.registry.get_sample_value(
            "relight_test_jumps_total", {"topic": A.topic, "partition": "0"}
        ) == pytest.approx(2)
        assert scene.metrics.registry.get_sample_value(
            "relight_test_replays_total", {"topic": A.topic, "partition": "0"}
        ) == pytest.approx(1)
        await scene.holdings.give_up()

    run(main())
