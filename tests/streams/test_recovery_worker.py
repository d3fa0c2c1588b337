"""Emits first, then state, which the next group does not wait for; what fails is tried again byte for byte; a fence ends everything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from runtime.errors import BrokerAway, BrokerRefused, Fenced, OutcomeUnknown
from runtime.metrics import StreamMetrics
from schemas.mailbox import RulebookSwitch
from streams.ports import Place, Send
from streams.recovery_worker import RecoveryWorker, Surroundings
from streams.settings import RecoverySettings
from streams.state_records import POSITION_KEY, Position
from tests.streams.bench import Bench
from tests.streams.fakes import (
    START,
    Disk,
    FakeLog,
    FakeMessage,
    FakeRulebooks,
    FakeSender,
    away,
    event,
    message,
)
from tests.streams.toy_core import NAP, fault
from tests.streams.virtual_time import now, run

PLACE = Place("inbox.v1", 0)
RUN = "run/r"
SETTINGS = RecoverySettings(write_linger=timedelta(0))
LINGERING = RecoverySettings()
LINGER = LINGERING.write_linger.total_seconds()
INTERVAL = SETTINGS.position_interval.total_seconds()
ROOM = SETTINGS.grouping.size


@dataclass
class Desk:
    """A worker and everything around it."""

    worker: RecoveryWorker
    bench: Bench
    disk: Disk
    log: FakeLog
    sender: FakeSender
    rulebooks: FakeRulebooks
    metrics: StreamMetrics

    async def handle(self, messages: Sequence[FakeMessage]) -> None:
        """Handle a group and have it written."""
        await self.worker.handle(messages)
        await self.worker.settle()

    def positions(self) -> list[tuple[int, int]]:
        """Every position written: from, to."""
        found = [
            Position.model_validate_json(value or b"")
            for key, value in self.disk.records
            if key == POSITION_KEY
        ]
        return [(position.first, position.next) for position in found]

    def count(self, name: str) -> float:
        """A counter."""
        return value_of(self.metrics.registry, f"relight_test_{name}_total")


def value_of(registry: CollectorRegistry, name: str) -> float:
    value = registry.get_sample_value(name)
    assert value is not None, name
    return value


async def desk(sender: FakeSender | None = None, settings: RecoverySettings = SETTINGS) -> Desk:
    bench, disk, rulebooks, metrics = Bench(), Disk(), FakeRulebooks(), StreamMetrics("test")
    log, sender = FakeLog(disk), sender or FakeSender()
    await log.open()
    shared = Surroundings(
        bench.core,
        sender,
        rulebooks,
        settings,
        metrics,
        monotonic=now,
        wall=lambda: START + timedelta(seconds=now()),
    )
    worker = RecoveryWorker(PLACE, bench.memory, bench.handler, log, shared, on_close=lambda: None)
    return Desk(worker, bench, disk, log, sender, rulebooks, metrics)


def ask(offset: int, detail: str, subject: str = RUN) -> FakeMessage:
    return message(offset, event(fault(detail), subject, id=f"e{offset}"))


def test_a_change_is_written_with_the_position_in_one_write() -> None:
    async def main() -> None:
        at = await desk()
        await at.handle([ask(0, "count"), ask(1, "count")])

        (write,) = at.disk.writes
        assert len(write) == 2
        assert at.positions() == [(0, 2)]
        assert at.worker.position == 2

    run(main())


def test_emits_are_confirmed_before_the_state_is_written() -> None:
    async def main() -> None:
        order: list[str] = []

        class Watching(FakeSender):
            async def send(self, sends: Sequence[Send]) -> None:
                assert at.bench.toy(RUN).count == 0, "memory moves on when they are confirmed"
                order.append("sent")
                await super().send(sends)

        at = await desk(Watching())
        at.log.on_write = lambda: order.append("written")
        await at.handle([ask(0, "command")])

        assert order == ["sent", "written"]
        assert at.bench.toy(RUN).count == 1

    run(main())


def test_a_group_is_decided_while_the_one_before_is_written_and_what_came_meanwhile_is_written_together() -> (
    None
):
    async def main() -> None:
        at = await desk()
        at.log.takes = 1.0
        for offset in range(4):
            await at.worker.handle([ask(offset, "command")])
            await asyncio.sleep(0)

        assert now() == 0, "nothing waits for the write"
        assert [len(at.sender.sent), len(at.disk.writes), at.worker.position] == [4, 0, 0]

        await at.worker.settle()
        assert at.positions() == [(0, 1), (1, 4)]
        assert [len(write) for write in at.disk.writes] == [2, 2], "the last value of a cell is written alone"
        assert at.worker.position == 4

    run(main())


def test_no_more_than_a_group_of_messages_waits_for_its_turn_to_be_written() -> None:
    async def main() -> None:
        at = await desk()
        at.log.takes = 1.0
        await at.worker.handle([ask(0, "count")])
        await asyncio.sleep(0)  # it is being written
        await at.worker.handle([ask(offset, "count") for offset in range(1, 1 + ROOM)])
        assert now() == 0
        await at.worker.handle([ask(1 + ROOM, "count")])

        assert now() == 1.0
        assert at.positions() == [(0, 1)]

    run(main())


def test_state_waits_a_moment_for_company_and_no_decision_waits_with_it() -> None:
    async def main() -> None:
        at = await desk(settings=LINGERING)
        await at.worker.handle([ask(0, "command")])
        await asyncio.sleep(LINGER * 0.9)
        await at.worker.handle([ask(1, "command")])
        assert [len(at.sender.sent), len(at.disk.writes)] == [2, 0]
        await asyncio.sleep(LINGER * 0.2)
        assert at.positions() == [(0, 2)]
        await asyncio.sleep(LINGER * 10)
        assert len(at.disk.writes) == 1, "nothing waits any more"

    run(main())


def test_a_full_group_and_an_end_do_not_wait_for_company() -> None:
    async def main() -> None:
        at = await desk(settings=LINGERING)
        await at.worker.handle([ask(offset, "count") for offset in range(ROOM)])
        await at.worker.handle([ask(ROOM, "count")])
        assert at.positions() == [(0, ROOM)]
        await at.worker.settle()
        assert at.positions() == [(0, ROOM), (ROOM, ROOM + 1)]
        assert now() == 0

    run(main())


def test_what_changes_nothing_leaves_the_position_where_it_was_until_what_came_before_is_written() -> None:
    async def main() -> None:
        at = await desk()
        at.log.takes = 1.0
        await at.worker.handle([ask(0, "quiet")])
        assert at.worker.position == 1
        await at.worker.handle([ask(1, "count")])
        await at.worker.handle([ask(2, "quiet")])
        assert at.worker.position == 1
        await at.worker.settle()
        assert at.worker.position == 3
        assert at.positions() == [(0, 2)]

    run(main())


def test_what_the_broker_does_not_take_is_tried_again_byte_for_byte() -> None:
    async def main() -> None:
        at = await desk()
        at.sender.failures = away(2)
        at.log.failures = [*away(3), BrokerRefused("no right")]
        await at.handle([ask(0, "command")])

        assert len(at.sender.sent) == 1, "confirmed emits are not sent again for want of state"
        assert len(at.disk.writes) == 1
        assert at.bench.toy(RUN).count == 1
        assert at.count("retries") == 6

    run(main())


def test_a_write_that_is_tried_again_is_the_same_whatever_was_handled_since() -> None:
    async def main() -> None:
        at = await desk()
        at.log.failures = [*away(1)]
        await at.worker.handle([ask(0, "count")])
        await asyncio.sleep(0)
        await at.worker.handle([ask(1, "count")])
        await at.worker.settle()

        assert at.positions() == [(0, 1), (1, 2)]

    run(main())


@pytest.mark.parametrize("end", [Fenced("another"), OutcomeUnknown("who knows")])
def test_a_fence_or_an_unknown_outcome_ends_the_worker_whatever_is_done_with_it_next(end: BrokerAway) -> None:
    async def main() -> None:
        at = await desk()
        at.log.failures = [end]
        await at.worker.handle([ask(0, "count")])
        with pytest.raises(type(end)):
            await at.worker.settle()
        for next_ in (at.worker.idle(), at.worker.settle(), at.worker.handle([ask(1, "count")])):
            with pytest.raises(type(end)):
                await next_

        assert at.worker.position == 0
        assert at.disk.writes == []

    run(main())


def test_who_waits_for_room_hears_of_the_fence() -> None:
    async def main() -> None:
        at = await desk()
        at.log.takes = 1.0
        await at.worker.handle([ask(0, "count")])
        await asyncio.sleep(0)
        await at.worker.handle([ask(offset, "count") for offset in range(1, 1 + ROOM)])
        await FakeLog(at.disk).open()
        with pytest.raises(Fenced):
            await at.worker.handle([ask(1 + ROOM, "count")])

    run(main())


def test_a_worker_that_is_closed_writes_nothing_more() -> None:
    async def main() -> None:
        at = await desk()
        at.log.takes = 1.0
        await at.worker.handle([ask(0, "count")])
        await asyncio.sleep(0)
        await at.worker.handle([ask(1, "count")])
        await at.worker.close()
        await asyncio.sleep(5.0)

        assert at.disk.writes == []
        assert at.log.closed

    run(main())


def test_an_owner_that_was_fenced_writes_nothing_any_more() -> None:
    async def main() -> None:
        at = await desk()
        await FakeLog(at.disk).open()
        with pytest.raises(Fenced):
            await at.handle([ask(0, "count")])

        assert at.disk.writes == []

    run(main())


def test_messages_that_change_nothing_are_not_written_each() -> None:
    async def main() -> None:
        at = await desk()
        for offset in range(5):
            await at.handle([ask(offset, "quiet")])

        assert at.disk.writes == []
        assert at.worker.position == 5

    run(main())


def test_a_moving_position_is_written_at_its_interval_even_if_nothing_changes() -> None:
    async def main() -> None:
        at = await desk()
        await at.handle([ask(0, "quiet")])
        await asyncio.sleep(INTERVAL)
        await at.handle([ask(1, "quiet")])
        await at.handle([ask(2, "quiet")])

        assert at.positions() == [(0, 2)]

    run(main())


def test_a_position_that_moved_and_came_to_rest_is_written_by_and_by() -> None:
    async def main() -> None:
        at = await desk()
        await at.handle([ask(0, "quiet")])
        await at.worker.idle()
        assert at.positions() == []
        await asyncio.sleep(INTERVAL)
        await at.worker.idle()
        await asyncio.sleep(INTERVAL)
        await at.worker.idle()

        assert at.positions() == [(0, 1)]

    run(main())


def test_dead_letters_are_written_with_the_position_so_that_a_restart_does_not_repeat_them() -> None:
    async def main() -> None:
        at = await desk()
        await at.handle([FakeMessage(0, b"?", b"k")])

        assert at.positions() == [(0, 1)]
        assert (
            value_of_label(at.metrics.registry, "relight_test_dead_letters_total", reason="unreadable") == 1
        )

    run(main())


def value_of_label(registry: CollectorRegistry, name: str, **labels: str) -> float:
    value = registry.get_sample_value(name, labels)
    assert value is not None, name
    return value


def test_the_chain_of_positions_has_no_break() -> None:
    async def main() -> None:
        at = await desk()
        at.log.failures = away(2)
        for offset, detail in enumerate(["count", "quiet", "quiet", "command", "raise", "count"]):
            await at.handle([ask(offset, detail)])
        firsts, nexts = zip(*at.positions(), strict=True)

        assert firsts == (0, *nexts[:-1])

    run(main())


# ---------------------------------------------------------------- rulebooks


def switch(offset: int, digest: str) -> FakeMessage:
    return message(offset, event(RulebookSwitch(rulebook=digest, released_by="somebody"), "partition/0"))


def test_a_partition_without_the_content_of_its_rulebook_stops_and_says_so_until_it_is_there() -> None:
    async def main() -> None:
        at = await desk()
        handling = asyncio.create_task(at.worker.handle([ask(0, "count"), switch(1, "v1"), ask(2, "count")]))
        await asyncio.sleep(60)
        assert at.bench.toy(RUN).count == 1, "what came before the switch is done"
        assert "v1" in str(at.worker.blocked)
        at.rulebooks.released["v1"] = {"hash": "v1"}
        await handling

        assert at.worker.blocked is None
        assert at.bench.toy(RUN).count == 2
        assert at.bench.memory.rulebook.hash == "v1"

    run(main())


def test_a_rulebook_that_this_release_cannot_compile_stops_the_partition() -> None:
    async def main() -> None:
        at = await desk()
        at.rulebooks.released["v1"] = {"no": "hash"}
        handling = asyncio.create_task(at.worker.handle([switch(0, "v1")]))
        await asyncio.sleep(60)

        assert "none this release can use" in str(at.worker.blocked)
        handling.cancel()

    run(main())


def test_a_restored_partition_asks_for_its_rulebook_before_it_decides_anything() -> None:
    async def main() -> None:
        at = await desk()
        at.bench.memory.rulebook_needed = "v7"
        at.rulebooks.released["v7"] = {"hash": "v7"}
        await at.handle([ask(0, "count")])

        assert at.bench.memory.rulebook.hash == "v7"

    run(main())


def test_the_broker_away_while_a_rulebook_is_asked_for_is_waited_out() -> None:
    async def main() -> None:
        at = await desk()
        failures = away(3)

        class Unsteady(FakeRulebooks):
            async def refresh(self) -> None:
                if failures:
                    raise failures.pop()
                await super().refresh()

        rulebooks = Unsteady()
        rulebooks.released["v1"] = {"hash": "v1"}
        shared = Surroundings(at.bench.core, at.sender, rulebooks, SETTINGS, at.metrics, monotonic=now)
        worker = RecoveryWorker(
            PLACE, at.bench.memory, at.bench.handler, at.log, shared, on_close=lambda: None
        )
        await worker.handle([switch(0, "v1")])

        assert at.bench.memory.rulebook.hash == "v1"

    run(main())


# ---------------------------------------------------------------- ticks


def test_ticks_that_were_not_confirmed_are_sent_again() -> None:
    async def main() -> None:
        at = await desk()
        await at.handle([ask(0, "arm")])
        at.sender.failures = away()
        with pytest.raises(BrokerAway):
            await at.worker.tick(START + NAP)
        assert at.sender.sent == []
        await at.worker.tick(START + NAP)
        await at.worker.tick(START + NAP)

        assert len(at.sender.sent) == 1

    run(main())


def test_a_memory_without_a_position_is_refused() -> None:
    async def main() -> None:
        at = await desk()
        at.bench.memory.position = None
        with pytest.raises(ValueError, match="no position"):
            RecoveryWorker(
                PLACE, at.bench.memory, at.bench.handler, at.log, at.worker._shared, on_close=lambda: None
            )

    run(main())
