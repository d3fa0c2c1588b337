"""The library for other systems: what is sent is valid, what is wrong is told with its place."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from producers.errors import DeliveryFailed, EventRefused
from producers.publish import EventPublisher, build_event, build_signal, read_event, read_lines
from schemas.envelope import CONTENT_TYPE, decode, encode
from schemas.signals import ChipFault, ChipRef, FaultState, HangEvidence, NodeRef, Placement, Progress

NODE = NodeRef(uid="uid-1", name="node-1")
FAULT = ChipFault(node=NODE, chip=ChipRef(id="GPU-1"), namespace="xid", code="79", state=FaultState.ONCE)
LINE: dict[str, Any] = {
    "type": "chip_fault",
    "id": "bmc-1",
    "time": "2026-03-01T12:00:00Z",
    "data": {
        "node": {"uid": "uid-1", "name": "node-1"},
        "chip": {"id": "GPU-1"},
        "namespace": "xid",
        "code": "79",
        "state": "once",
    },
}


def read(**changes: Any) -> Any:
    return read_event({**LINE, **changes}, cluster="lab", source="/bmc")


def test_a_line_is_completed_to_a_valid_event() -> None:
    event = read()

    assert (event.id, event.source, event.cluster, event.subject) == ("bmc-1", "/bmc", "lab", "node/uid-1")
    assert event.data == FAULT
    assert decode(encode(event)) == event


def test_what_an_event_says_of_itself_wins() -> None:
    event = read_event({**LINE, "cluster": "other", "source": "/self"}, cluster="lab", source="/bmc")

    assert (event.cluster, event.source) == ("other", "/self")


def test_without_an_id_every_event_is_its_own() -> None:
    assert read(id=None).id != read(id=None).id


def test_a_placed_signal_is_about_its_run() -> None:
    stalled = HangEvidence(
        placement=Placement(run="run-1"),
        state="stalled",
        method="node-signal",
        last_progress=datetime.now(UTC),
    )

    event = build_event(stalled, cluster="lab", source="/x")

    assert event.subject == "run/run-1"


def test_what_only_our_own_eyes_tell_is_refused_from_outside() -> None:
    progress = Progress(placement=Placement(run="run-1"), step=1)

    with pytest.raises(EventRefused, match="own eyes only; right would be one of chip_fault") as caught:
        build_event(progress, cluster="lab", source="/x")

    assert caught.value.place == "type"


@pytest.mark.parametrize(
    ("changes", "place", "says"),
    [
        ({"type": "chip_falt"}, "type", "is no kind of signal; right would be one of"),
        ({"type": "dev.relight.signal.chip_fault.v9"}, "type", "unknown to this release"),
        ({"type": None}, "type", "no CloudEvents type"),
        ({"type": 7}, "type", "unknown to this release"),
        (
            {"type": "dev.relight.order.resume.v1", "subject": "run/1", "data": {"by": "me", "reason": "x"}},
            "type",
            "is no signal",
        ),
        ({"time": "yesterday"}, "time", "valid datetime"),
        ({"time": "2026-03-01T12:00:00"}, "time", "timezone"),
        ({"cluster": "Not A Name"}, "cluster", "pattern"),
        ({"data": {**LINE["data"], "code": "7 9"}}, "data.code", "pattern"),
        ({"data": {**LINE["data"], "state": "standing"}}, "data.state", "asserted"),
        ({"data": {**LINE["data"], "chip": {}}}, "data.chip.id", "Field required"),
        ({"data": {k: v for k, v in LINE["data"].items() if k != "node"}}, "data.node", "Field required"),
        ({"data": {**LINE["data"], "severty": "minor"}}, "data.severty", "no such field; right would be 'severity'"),
        ({"data": {**LINE["data"], "chip": {"id": "G", "buss": "0"}}}, "data.chip.buss", "right would be 'bus'"),
        ({"data": {**LINE["data"], "x": 1}}, "data.x", "right would be one of node, placement"),
        ({"data": {("cdoe" if k == "code" else k): v for k, v in LINE["data"].items()}}, "data.code", "'cdoe' is no field, is it meant"),
        ({"data": {**LINE["data"], "chip": {"idd": "G"}}}, "data.chip.id", "'idd' is no field"),
        ({"data": None}, "data", "Field required"),
        ({"time": 1700000000}, "time", "valid datetime"),
        ({"type": "preemption_notice", "data": {"deadline": "2026-03-01T12:00:00Z", "by": "cloud"}}, "data", "neither a node nor a run"),
        ({"id": ""}, "id", "at least 1 character"),
    ],
)  # fmt: skip
def test_an_invalid_event_is_refused_with_its_place(changes: dict[str, Any], place: str, says: str) -> None:
    with pytest.raises(EventRefused, match=says) as caught:
        read(**changes)

    assert caught.value.place == place


def test_lines_are_told_apart_by_number() -> None:
    lines = [json.dumps(LINE), "", "nope", "[1]", '{"a": ' * 5000, json.dumps({**LINE, "type": "x"})]

    found = list(read_lines(lines, cluster="lab", source="/bmc"))

    assert [number for number, _ in found] == [1, 3, 4, 5, 6]
    assert [isinstance(read, EventRefused) for _, read in found] == [False, True, True, True, True]
    assert str(found[1][1]) == "no JSON: Expecting value at character 1"
    assert str(found[2][1]) == "a JSON object is wanted, this is list"


def test_a_signal_of_plain_values_is_checked() -> None:
    with pytest.raises(EventRefused, match="node: Field required"):
        build_signal("chip_fault", {"chip": {"id": "x"}, "namespace": "xid", "code": "1", "state": "once"})


class FakeProducer:
    """Stands for a broker that confirms, refuses, or is silent."""

    def __init__(self, *, silent: bool = False, full: int = 0) -> None:
        self.silent = silent
        self.full = full
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.waiting: list[Any] = []
        self.purged = False

    def produce(self, topic: str, *, key: bytes, value: bytes, headers: Any, on_delivery: Any) -> None:
        assert headers == [("content-type", CONTENT_TYPE)]
        if self.full:
            self.full -= 1
            raise BufferError
        self.sent.append((topic, key, value))
        self.waiting.append(on_delivery)

    def poll(self, timeout: float) -> int:
        del timeout
        return 0

    def flush(self, timeout: float) -> int:
        del timeout
        if not self.silent:
            for number, report in enumerate(self.waiting):
                report(None, FakeMessage(number))
        return 0

    def purge(self) -> None:
        self.purged = True


class FakeMessage:
    def __init__(self, number: int) -> None:
        self.number = number

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self.number


def publisher(producer: FakeProducer, patience: float = 20) -> EventPublisher:
    return EventPublisher(producer, cluster="lab", source="/bmc", patience=timedelta(seconds=patience))  # type: ignore[arg-type]


def test_a_confirmed_event_says_where_it_stands() -> None:
    producer = FakeProducer()
    with publisher(producer) as sending:
        confirmed = sending.publish(FAULT, id="x", time=datetime(2026, 3, 1, tzinfo=UTC))

    assert (confirmed.topic, confirmed.partition, confirmed.offset) == ("external-signals.v1", 3, 0)
    (sent,) = producer.sent
    assert sent[:2] == ("external-signals.v1", b"lab/node/uid-1")
    assert decode(sent[2]).id == "x"
    assert producer.purged


def test_silence_of_the_broker_is_a_failure() -> None:
    with (
        publisher(FakeProducer(silent=True), 0.2) as sending,
        pytest.raises(DeliveryFailed, match="not confirmed"),
    ):
        sending.publish(FAULT)


def test_a_full_queue_is_waited_for() -> None:
    with publisher(FakeProducer(full=3)) as sending:
        assert sending.publish(FAULT).offset == 0


def test_an_event_too_large_stops_all_before_any_is_sent() -> None:
    producer = FakeProducer()
    big = build_event(FAULT, cluster="lab", source="/bmc").model_copy(update={"source": "x" * 1_000_000})
    small = build_event(FAULT, cluster="lab", source="/bmc")

    with publisher(producer) as sending, pytest.raises(EventRefused, match="at most 900,000"):
        sending.send([small, big])

    assert not producer.sent


def test_facts_are_refused_from_outside_and_admitted_for_relight_s_own_topic() -> None:
    fact = {
        "type": "dev.relight.fact.node_seen.v1",
        "subject": "node/n1",
        "data": {"node": {"uid": "n1", "name": "n1"}, "ready": True},
    }
    with pytest.raises(EventRefused, match="is no signal"):
        read_event(fact, cluster="lab", source="/watcher")
    assert read_event(fact, cluster="lab", source="/watcher", facts=True).subject == "node/n1"
