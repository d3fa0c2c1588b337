"""The publisher against a client that fails as told: no hole is confirmed, what was overtaken gets a new number."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from confluent_kafka import KafkaError, Producer

from producers.clock_offset import ClockOffset
from producers.observation import SignalClass
from producers.publisher import Publisher
from producers.settings import PublisherSettings
from producers.spool import Spool
from schemas.envelope import decode
from schemas.signals import SignalGap
from tests.producers.test_spool import fault, ids, kill, open_spool

Delivered = Callable[[KafkaError | None, Any], None]


class Confirmation:
    """What a client hands over with a delivery."""

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_000_000


class Client:
    """Keeps what it is given until the test says what became of it."""

    def __init__(self) -> None:
        self.given: list[tuple[bytes, Delivered]] = []
        self.room = 1000

    def produce(
        self, topic: str, *, key: bytes, value: bytes, headers: object, on_delivery: Delivered
    ) -> None:
        assert (topic, key) == ("signals", b"c/node/node-uid")
        assert headers == [("content-type", "application/cloudevents+json; charset=UTF-8")]
        if len(self.given) >= self.room:
            raise BufferError
        self.given.append((value, on_delivery))

    def poll(self, timeout: float) -> int:
        del timeout
        return 0

    def purge(self) -> None:
        pass

    def flush(self, timeout: float) -> int:
        del timeout
        return 0

    def confirm(self, place: int, error: int | None = None) -> None:
        self.given[place][1](None if error is None else KafkaError(error), Confirmation())

    @property
    def sent(self) -> list[str]:
        return ids([decode(value) for value, _ in self.given])


class World:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.spool: Spool = open_spool(folder)
        self.clients: list[Client] = []
        self.offset = ClockOffset(synced_within=timedelta(seconds=1), uncertain_above=timedelta(seconds=2))
        chosen = PublisherSettings(again_after=timedelta(milliseconds=1), **settings)
        self.publisher = Publisher(
            self.spool, "signals", self.new, self.offset, chosen, clock=lambda: 1_000.25
        )

    def new(self) -> Producer:
        self.clients.append(Client())
        return cast("Producer", self.clients[-1])

    @property
    def client(self) -> Client:
        return self.clients[-1]

    def put(self, *numbers: int) -> None:
        self.spool.append(SignalClass.FAULT, [fault(number) for number in numbers])

    def turn(self) -> None:
        self.publisher._turn()


def test_nothing_is_confirmed_over_a_hole(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(0, 1, 2)
    world.turn()
    world.client.confirm(2)
    world.client.confirm(1)
    world.turn()

    assert world.spool.acked == 0

    world.client.confirm(0)
    world.turn()
    assert world.spool.acked == 3
    kill(world.spool)


def test_no_more_than_the_window_is_under_way(tmp_path: Path) -> None:
    world = World(tmp_path, in_flight=2)
    world.put(0, 1, 2, 3)
    world.turn()
    world.turn()

    assert world.client.sent == ["fault-0", "fault-1"]

    world.client.confirm(0)
    world.turn()
    world.turn()
    assert world.client.sent == ["fault-0", "fault-1", "fault-2"]
    kill(world.spool)


def test_a_client_that_is_full_is_given_the_same_event_later(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.client.room = 1
    world.put(0, 1)
    world.turn()
    world.turn()
    world.client.room = 2
    world.turn()

    assert world.client.sent == ["fault-0", "fault-1"]
    kill(world.spool)


def test_after_a_refusal_everything_unconfirmed_is_sent_again_in_order_with_the_same_origins(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.put(0, 1, 2)
    world.turn()
    before = [value for value, _ in world.client.given]
    world.client.confirm(0)
    world.client.confirm(1, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    world.turn()
    world.turn()

    assert len(world.clients) == 2
    assert [value for value, _ in world.client.given] == before[1:]
    assert world.publisher.counted.restarts == 1
    assert world.publisher.counted.trouble is not None
    kill(world.spool)


def test_what_a_later_one_overtook_gets_a_number_above_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(0, 1, 2, 3)
    world.turn()
    world.client.confirm(0)
    world.client.confirm(1, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    world.client.confirm(2)
    world.turn()
    world.turn()

    again = [decode(value) for value, _ in world.client.given]
    assert ids(again) == ["fault-3", "fault-1"]
    numbers = [event.origin_parts.offset for event in again if event.origin_parts]
    assert numbers == [3, 4]
    kill(world.spool)


def test_reports_of_a_client_that_was_replaced_change_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(0, 1)
    world.turn()
    old = world.client
    old.confirm(0, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    world.turn()
    world.turn()
    old.confirm(1)
    world.turn()

    assert world.spool.acked == 0
    assert world.client.sent == ["fault-0", "fault-1"]
    kill(world.spool)


def test_an_event_of_normal_size_is_never_given_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(0)
    world.turn()
    world.client.confirm(0, KafkaError.MSG_SIZE_TOO_LARGE)
    world.turn()
    world.turn()

    assert world.client.sent == ["fault-0"]
    assert world.publisher.counted.given_up == 0
    kill(world.spool)


def test_an_event_that_is_given_up_is_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(0)
    (entry,) = world.spool.take(1)
    world.spool.give_up(entry, "too large")

    (told,) = [decode(one.value) for one in world.spool.take(1)]
    assert isinstance(told.data, SignalGap)
    assert (told.data.lost_class, told.data.lost) == ("unknown", 1)
    kill(world.spool)


def test_confirmations_measure_the_clock(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(0)
    world.turn()
    world.client.confirm(0)

    assert world.offset.seconds(1_000.25) == 0.25
    kill(world.spool)
