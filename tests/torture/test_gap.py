"""Messages that retention deleted before they were read: told into the partition, counted, shown by the health, and the rest is handled."""

from __future__ import annotations

import signal
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from sandbox.kafka_server import KafkaBroker
from sandbox.ports import free_ports
from schemas import topics
from schemas.envelope import decode
from schemas.mailbox import PartitionGap
from schemas.records import Decision
from tests.streams.toy_core import ToyCore
from tests.torture.pipeline import PARTITIONS, Pipeline, wait_until
from tests.torture.script import Script
from tests.torture.test_fence import produce
from tests.torture.verdict import Referee

KEYS = 40
LOST = 3
"""Messages of each partition that nobody read."""


def delete_below(pipeline: Pipeline, offsets: dict[int, int]) -> None:
    """As retention would."""
    name = pipeline.name(topics.INBOX)
    places = [TopicPartition(name, number, offset) for number, offset in offsets.items()]
    admin = pipeline.clients.admin()
    for future in admin.delete_records(places).values():
        future.result(20)


def shown(port: int, path: str) -> str:
    """What the worker's own server says; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_messages_deleted_unread_are_told_and_the_rest_is_handled(
    torture_broker: KafkaBroker, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    pipeline = Pipeline(
        torture_broker,
        f"g{uuid.uuid4().hex[:6]}.",
        tmp_path,
        module="tests.torture.worker",
        more={"RELIGHT_CLUSTER": "torture", "RELIGHT_OBSERVE__PORT": str(port)},
    )
    script, referee = Script(3, keys=KEYS), Referee(pipeline, ToyCore())
    try:
        first = pipeline.start()
        produce(pipeline, script.one_each())
        referee.wait_for_rest()
        positions = referee.cut().positions
        first.end(signal.SIGTERM)
        produce(pipeline, script.one_each())
        sent = pipeline.ends(topics.INBOX)
        delete_below(pipeline, {number: position + LOST for number, position in positions.items()})
        pipeline.start()

        def is_handled() -> bool:
            """What was sent, and behind it in each partition what is told of its gap."""
            ends, committed = pipeline.ends(topics.INBOX), pipeline.committed("recovery")
            return all(committed[number] == end > sent[number] for number, end in ends.items())

        wait_until(lambda: "deleted unread" in shown(port, "/healthz"), "the health says it")
        wait_until(is_handled, "the rest is handled")
        wait_until(lambda: "position_gaps_total" in shown(port, "/metrics"), "its server answers")
        metrics = shown(port, "/metrics")
    finally:
        pipeline.end_all()

    events = [decode(message.value() or b"") for message in pipeline.read_all(topics.INBOX)]
    gaps = {event.subject: event.data for event in events if isinstance(event.data, PartitionGap)}
    assert gaps == {
        f"partition/{number}": PartitionGap(first_lost=position, first_kept=position + LOST)
        for number, position in positions.items()
    }
    decisions = [decode(message.value() or b"").data for message in pipeline.read_all(topics.DECISIONS)]
    told = [made for made in decisions if isinstance(made, Decision) and made.verdict == "partition_gap"]
    assert len(told) == PARTITIONS
    for number in range(PARTITIONS):
        label = f'{{partition="{number}",topic="{pipeline.name(topics.INBOX)}"}}'
        assert f"relight_recovery_position_gaps_total{label} 1.0" in metrics
    toys = [ToyCore().decode_cell(raw) for raw in referee.standing().raw.values()]
    assert sum(getattr(toy, "count", 0) for toy in toys) == 2 * KEYS - LOST * PARTITIONS
