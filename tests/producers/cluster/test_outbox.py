"""What waits for the broker: one order, one key, and numbers by which a successor wins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from producers.clock_offset import ClockOffset
from producers.cluster.outbox import STAGE, Outbox, first_number, subject_of, watcher_key
from producers.cluster.telling import Telling
from producers.publisher import Publisher
from producers.settings import PublisherSettings
from recovery.cells import OriginCell
from schemas.envelope import Event, Origin, decode
from schemas.facts import NodeGone
from schemas.signals import NodeRef
from streams.routing import RESERVED_STAGES
from tests.producers.cluster.objects import START, FakeCluster, make_job, make_node, make_pod


def gone(number: int) -> Telling:
    return Telling(NodeGone(node=NodeRef(uid=f"u{number}", name="n")), f"id-{number}", START)


def outbox(first: int = 1000) -> Outbox:
    return Outbox("test", "/clusters/test/watcher/w", first, lambda: 5.0)


def taken(box: Outbox, most: int = 100) -> list[tuple[int, Event]]:
    return [(entry.sequence, decode(entry.value)) for entry in box.take(most)]


def test_events_come_out_in_order_with_origins_that_count_up_under_one_key() -> None:
    box = outbox()
    box.append([gone(1), gone(2)])
    box.append([gone(3)])
    entries = box.take(100)
    assert [decode(entry.value).origin for entry in entries] == [
        f"watcher/0/{n}/0" for n in (1000, 1001, 1002)
    ]
    assert {entry.key for entry in entries} == {watcher_key("test")}
    assert STAGE not in RESERVED_STAGES


def test_what_is_not_confirmed_is_taken_again_under_the_same_origins() -> None:
    box = outbox()
    box.append([gone(number) for number in range(5)])
    first = taken(box, 3)
    box.acknowledge(1002)
    assert (box.acked, len(box)) == (1002, 3)
    box.rewind()
    again = taken(box)
    assert [sequence for sequence, _ in again] == [1002, 1003, 1004]
    assert again[0] == first[2]
    box.acknowledge(1001)  # never goes back
    assert box.acked == 1002
    box.acknowledge(box.next_sequence)
    assert (len(box), taken(box)) == (0, [])


def test_taking_goes_on_where_it_was_although_some_are_confirmed_meanwhile() -> None:
    box = outbox()
    box.append([gone(number) for number in range(4)])
    assert [sequence for sequence, _ in taken(box, 2)] == [1000, 1001]
    box.acknowledge(1001)
    assert [sequence for sequence, _ in taken(box, 2)] == [1002, 1003]


def test_what_was_overtaken_gets_a_number_above() -> None:
    box = outbox()
    box.append([gone(1), gone(2)])
    (entry, _) = box.take(2)
    box.renumber(entry)
    box.acknowledge(1002)
    ((sequence, event),) = taken(box)
    assert (sequence, event.id, event.origin) == (1002, "id-1", "watcher/0/1002/0")


def test_a_successor_begins_above_whoever_ran_before_whatever_its_clock_says() -> None:
    an_hour = timedelta(hours=1)
    first = first_number(START, None)
    assert first_number(START + timedelta(seconds=1), first + 999_999) == first + 1_000_000
    assert first_number(START - an_hour, first + 50) == first + 51
    assert Origin(STAGE, 0, first, 0).offset < 2**63
    assert OriginCell(offset=first, index=0).offset == first


def test_an_event_is_about_its_run_or_else_its_node() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j", size=1)
    cluster.put(make_node("n1", "node-1"), job, make_pod(job, "p", node="n1"))
    subjects = {type(told.payload).__name__: subject_of(told) for told in cluster.told}
    assert subjects == {
        "NodeSeen": "node/node-1",
        "RunSeen": "run/j",
        "PodBound": "run/j",
        "IssueState": "run/j",
    }


class SilentClient:
    """A client that takes everything and confirms it when polled."""

    def __init__(self) -> None:
        self.taken: list[tuple[bytes, bytes]] = []
        self._open: list[Any] = []

    def produce(self, topic: str, *, key: bytes, value: bytes, headers: object, on_delivery: Any) -> None:
        assert (topic, headers) == (
            "signals",
            [("content-type", "application/cloudevents+json; charset=UTF-8")],
        )
        self.taken.append((key, value))
        self._open.append(on_delivery)

    def poll(self, timeout: float) -> int:
        del timeout
        confirmed, self._open = self._open, []
        for tell in confirmed:
            tell(None, self)
        return len(confirmed)

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_000_000

    def purge(self) -> None:
        pass


@pytest.mark.parametrize("count", [1, 2500])
def test_the_publisher_sends_all_of_it_in_order_before_it_ends(count: int) -> None:
    box, client = outbox(), SilentClient()
    box.append([gone(number) for number in range(count)])
    offset = ClockOffset(synced_within=timedelta(seconds=1), uncertain_above=timedelta(seconds=2))
    publisher = Publisher(box, "signals", lambda: cast(Any, client), offset, PublisherSettings())
    publisher.start()
    publisher.stop(timedelta(seconds=20))
    assert [decode(value).id for _, value in client.taken] == [f"id-{number}" for number in range(count)]
    assert len(box) == 0
    assert box.acked == box.next_sequence
