"""Operators' orders: they reach the mailbox of their subject, with who and why, or the command says that they did not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from relight.cli import main
from sandbox.kafka_server import KafkaBroker
from schemas.envelope import Event, decode
from schemas.mailbox import CancelIncidentOrder, PauseOrder, ReleaseNodeOrder, ResumeOrder


@pytest.mark.parametrize("subject", ["partition/3", "run/", "llama", "domain/rack-1"])
def test_what_takes_no_orders_is_refused_before_anything_is_sent(subject: str) -> None:
    result = CliRunner().invoke(main, ["pause", subject, "--reason", "x"])

    assert result.exit_code == 2
    assert "no subject" in result.output


def test_an_order_without_a_reason_is_none() -> None:
    assert CliRunner().invoke(main, ["release", "uid-1"]).exit_code == 2


@pytest.mark.slow
def test_orders_reach_their_mailboxes(
    kafka: KafkaBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = topic_name[:40] + "."
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(prefix + "inbox.v1", 1, 1)])[prefix + "inbox.v1"].result(30)
    monkeypatch.setenv("RELIGHT_KAFKA__BOOTSTRAP", kafka.bootstrap)
    monkeypatch.setenv("RELIGHT_TOPICS__PREFIX", prefix)
    monkeypatch.setenv("RELIGHT_CLUSTER", "lab")
    common = ("--by", "sre", "--reason", "drill")

    for arguments in (
        ("pause", "run/r1", "--for", "30m", *common),
        ("resume", "run/r1", *common),
        ("cancel", "run/r1", *common),
        ("release", "uid-1", *common),
    ):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output

    events = read(kafka.bootstrap, prefix + "inbox.v1", 4)
    orders: list[Any] = [event.data for event in events]
    assert [type(order) for order in orders] == [
        PauseOrder,
        ResumeOrder,
        CancelIncidentOrder,
        ReleaseNodeOrder,
    ]
    assert [event.subject for event in events] == ["run/r1", "run/r1", "run/r1", "node/uid-1"]
    assert {(order.by, order.reason) for order in orders} == {("sre", "drill")}
    assert timedelta(minutes=29) < orders[0].until - datetime.now(UTC) <= timedelta(minutes=30)


def read(bootstrap: str, topic: str, count: int) -> list[Event]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages: list[Any] = []
        while len(messages) < count:
            messages += consumer.consume(count, 5)
        return [decode(message.value()) for message in messages]
    finally:
        consumer.close()
