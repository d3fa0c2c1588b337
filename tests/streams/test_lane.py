"""A lane hands out what was read in order, without holes, in bounded groups."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from streams.lane import Lane, Offer
from streams.ports import Place
from tests.streams.fakes import FakeMessage
from tests.streams.virtual_time import now, run

PLACE = Place("inbox.v1", 0)
SECOND = timedelta(seconds=1)


def lane(position: int = 0, *, group: int = 3, backlog: int = 2, linger: timedelta = timedelta(0)) -> Lane:
    return Lane(PLACE, position, group=group, backlog=backlog, linger=linger)


def at(offset: int) -> FakeMessage:
    return FakeMessage(offset, b"", timestamp=float(offset))


def offsets(taken: list[object] | None) -> list[int]:
    return [message.offset for message in taken or [] if isinstance(message, FakeMessage)]


def test_a_replay_is_skipped_and_a_jump_is_dropped_until_what_was_jumped_over_comes() -> None:
    async def main() -> None:
        road = lane(5)

        assert [road.offer(at(offset)) for offset in (4, 5, 7, 8, 6)] == [
            Offer.REPLAY,
            Offer.TAKEN,
            Offer.JUMP,
            Offer.JUMP,
            Offer.TAKEN,
        ]
        assert not road.jumping
        assert offsets(list(await road.take(SECOND) or [])) == [5, 6]

    run(main())


def test_groups_are_bounded_and_reading_pauses_when_enough_waits() -> None:
    async def main() -> None:
        road = lane()
        for offset in range(6):
            assert road.has_room
            road.offer(at(offset))

        assert not road.has_room
        assert offsets(list(await road.take(SECOND) or [])) == [0, 1, 2]
        assert road.has_room

    run(main())


def test_a_group_that_is_not_full_waits_for_more_but_not_for_long() -> None:
    async def main() -> None:
        road = lane(linger=timedelta(milliseconds=5))
        road.offer(at(0))
        asyncio.get_running_loop().call_later(0.004, road.offer, at(1))
        asyncio.get_running_loop().call_later(0.006, road.offer, at(2))

        assert offsets(list(await road.take(SECOND) or [])) == [0, 1]
        assert now() == 0.005

    run(main())


def test_a_full_group_does_not_wait() -> None:
    async def main() -> None:
        road = lane(linger=SECOND)
        for offset in range(3):
            road.offer(at(offset))
        await road.take(SECOND)

        assert now() == 0

    run(main())


def test_nothing_comes_and_the_group_is_empty() -> None:
    async def main() -> None:
        assert await lane().take(SECOND) == []
        assert now() == 1

    run(main())


def test_a_stopped_lane_hands_out_nothing_and_lets_everybody_go() -> None:
    async def main() -> None:
        road = lane()
        for offset in range(6):
            road.offer(at(offset))
        waiting = asyncio.create_task(road.wait_for_room(timedelta(hours=1)))
        await asyncio.sleep(0)
        road.stop()

        assert await waiting
        assert await road.take(SECOND) is None

    run(main())


def test_a_lane_that_stays_full_says_so() -> None:
    async def main() -> None:
        road = lane()
        for offset in range(6):
            road.offer(at(offset))

        assert not await road.wait_for_room(SECOND)
        await road.take(SECOND)
        assert await road.wait_for_room(SECOND)

    run(main())


def test_the_oldest_message_is_known_while_it_is_handled() -> None:
    async def main() -> None:
        road = lane()
        assert road.is_empty
        road.offer(at(7 - 7))
        road.offer(at(1))
        await road.take(SECOND)
        assert (road.oldest, road.is_empty) == (0.0, False)
        await road.take(SECOND)

        assert (road.oldest, road.is_empty) == (None, True)

    run(main())
