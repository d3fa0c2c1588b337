"""Taking a partition up: from the state, or from what the group committed, and what to do when the log does not fit."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime.metrics import StreamMetrics
from schemas.envelope import decode
from schemas.mailbox import PartitionGap
from streams.blocked_worker import BlockedWorker
from streams.dead_letters import DeadLetters
from streams.ports import PartitionWorker, Place, StateRecord
from streams.recovery_stage import RecoveryStage
from streams.recovery_worker import RecoveryWorker, Surroundings
from streams.router_stage import RouterStage, RouterWorker
from streams.routing import Routing
from streams.settings import StreamSettings
from streams.state_records import POSITION_KEY, Position
from tests.streams.fakes import START, Disk, FakeBounds, FakeLog, FakeRulebooks, FakeSender, away
from tests.streams.test_routing import CHIP_FAULT, incoming
from tests.streams.toy_core import ToyCore
from tests.streams.virtual_time import run

PLACE = Place("inbox.v1", 3)


class Hall:
    """A recovery stage with fakes around it."""

    def __init__(self, records: list[StateRecord], bounds: FakeBounds) -> None:
        self.disk, self.sender, self.metrics = Disk(records), FakeSender(), StreamMetrics("test")
        self.logs: list[FakeLog] = []
        settings = StreamSettings()
        shared = Surroundings(ToyCore(), self.sender, FakeRulebooks(), settings.recovery, self.metrics)
        self.stage = RecoveryStage(
            settings, shared, new_state_log=self.new_log, bounds=bounds, pool=ThreadPoolExecutor(1)
        )

    def new_log(self, place: Place) -> FakeLog:
        assert place == PLACE
        self.logs.append(FakeLog(self.disk))
        return self.logs[-1]


def position(stands: int) -> list[StateRecord]:
    return [(POSITION_KEY, Position(first=0, next=stands, now=START).encode())]


def opened(hall: Hall) -> PartitionWorker:
    return asyncio.run(hall.stage.open(PLACE))


def test_the_position_in_the_state_is_where_reading_goes_on() -> None:
    assert opened(Hall(position(7), FakeBounds(0, 9))).position == 7


@pytest.mark.parametrize("first", [0, 5])
def test_without_a_position_reading_begins_at_the_start_of_the_log(first: int) -> None:
    hall = Hall([], FakeBounds(first, 9))

    assert opened(hall).position == first
    assert hall.sender.sent == []


def test_a_position_below_the_log_is_an_alarm_a_message_and_no_end() -> None:
    hall = Hall(position(2), FakeBounds(6, 9))

    assert opened(hall).position == 6
    (send,) = hall.sender.sent
    gap = decode(send.value)
    assert (send.topic, send.partition, gap.subject) == ("inbox.v1", 3, "partition/3")
    assert gap.data == PartitionGap(first_lost=2, first_kept=6)
    labels = {"topic": "inbox.v1", "partition": "3"}
    assert hall.metrics.registry.get_sample_value("relight_test_position_gaps_total", labels) == 1
    assert hall.stage.gaps() == "messages 2 to 5 of inbox.v1/3 were deleted unread"


def test_a_position_that_the_log_still_holds_is_no_gap() -> None:
    hall = Hall(position(6), FakeBounds(6, 9))

    assert opened(hall).position == 6
    assert hall.sender.sent == []
    assert hall.stage.gaps() is None


@pytest.mark.parametrize(
    ("records", "says"), [(position(12), "beyond the end"), ([(b"plain", b"x")], "something else")]
)
def test_a_log_that_is_not_ours_stops_the_partition_and_says_why(
    records: list[StateRecord], says: str
) -> None:
    hall = Hall(records, FakeBounds(0, 9))
    worker = opened(hall)

    assert isinstance(worker, BlockedWorker)
    assert says in str(hall.stage.blocked())
    assert hall.logs[0].closed
    asyncio.run(worker.close())
    assert hall.stage.blocked() is None


def test_a_failed_opening_lets_go_of_the_log() -> None:
    class Gone(FakeBounds):
        async def bounds(self, place: Place) -> tuple[int, int]:
            del place
            raise away()[0]

    hall = Hall(position(1), Gone())
    with pytest.raises(Exception, match="gone"):
        opened(hall)

    assert hall.logs[0].closed


def test_a_closed_partition_gets_no_ticks_any_more() -> None:
    hall = Hall([], FakeBounds())
    worker = opened(hall)
    assert isinstance(worker, RecoveryWorker)
    asyncio.run(worker.close())

    assert hall.stage._workers == {}
    assert hall.logs[0].closed


# ---------------------------------------------------------------- router


def router(bounds: FakeBounds, sender: FakeSender | None = None) -> RouterStage:
    settings = StreamSettings()
    routing = Routing(settings, DeadLetters("router", settings.deadletters, settings.topic))
    return RouterStage(routing, sender or FakeSender(), bounds, StreamMetrics("test"))


@pytest.mark.parametrize(
    ("bounds", "position"),
    [
        (FakeBounds(0, 9, None), 0),
        (FakeBounds(4, 9, None), 4),
        (FakeBounds(0, 9, 5), 5),
        (FakeBounds(7, 9, 5), 7),
    ],
)
def test_the_router_goes_on_from_what_the_group_committed(bounds: FakeBounds, position: int) -> None:
    assert asyncio.run(router(bounds).open(PLACE)).position == position


def test_the_router_does_not_take_a_new_topic_for_the_old_one() -> None:
    assert isinstance(asyncio.run(router(FakeBounds(0, 9, 10)).open(PLACE)), BlockedWorker)


def test_the_routers_position_moves_only_when_everything_is_confirmed() -> None:
    async def main() -> None:
        sender = FakeSender()
        worker = await router(FakeBounds(), sender).open(PLACE)
        assert isinstance(worker, RouterWorker)
        sender.failures = away(3)
        handling = asyncio.create_task(
            worker.handle([incoming(CHIP_FAULT, offset=0), incoming(CHIP_FAULT, offset=1)])
        )
        await asyncio.sleep(0.1)
        assert worker.position == 0
        await handling

        assert worker.position == 2
        assert len(sender.sent) == 4

    run(main())
