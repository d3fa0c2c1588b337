"""What parts of the agent tell: kept before they go on, once however often it is told."""

import asyncio
from datetime import UTC, datetime

import pytest

from producers.observation import Observation
from producers.told import REMEMBERED, Told
from schemas.signals import NodeRef, RepairResult

NODE = NodeRef(uid="u", name="n")


def said(id_: str) -> Observation:
    signal = RepairResult(node=NODE, unit="u", incident="i", attempt=1, result="healed")
    return Observation(signal, id_, datetime(2026, 3, 1, tzinfo=UTC))


def test_who_tells_goes_on_only_when_it_is_on_disk() -> None:
    async def scene() -> None:
        told = Told()
        told.restore(None)
        telling = asyncio.ensure_future(told.tell(said("1")))
        batch = await told.next()
        assert [one.id for one in batch.observations] == ["1"]
        await asyncio.sleep(0)
        assert not telling.done()
        asking = asyncio.ensure_future(told.next())
        await telling
        asking.cancel()

    asyncio.run(scene())


def test_what_was_told_before_a_kill_is_not_told_again() -> None:
    async def scene() -> None:
        killed = Told()
        lost = asyncio.ensure_future(killed.tell(said("1")))
        state = (await killed.next()).state
        lost.cancel()

        told = Told()
        told.restore(state)
        again, new = asyncio.ensure_future(told.tell(said("1"))), asyncio.ensure_future(told.tell(said("2")))
        batch = await told.next()
        await again
        assert [one.id for one in batch.observations] == ["2"]
        new.cancel()

    asyncio.run(scene())


def test_who_waits_for_what_was_not_kept_is_told_so() -> None:
    async def scene() -> None:
        told = Told()
        telling = asyncio.ensure_future(told.tell(said("1")))
        await told.next()
        told.restore(None)
        with pytest.raises(OSError, match="not kept"):
            await telling

    asyncio.run(scene())


def test_its_memory_is_bounded() -> None:
    async def scene() -> None:
        told = Told()
        tellings = [asyncio.ensure_future(told.tell(said(str(number)))) for number in range(REMEMBERED * 2)]
        await asyncio.sleep(0)
        states = [(await told.next()).state for _ in tellings]
        assert states[-1] is not None
        assert len(states[-1]["ids"]) == REMEMBERED
        for telling in tellings:
            telling.cancel()

    asyncio.run(scene())
