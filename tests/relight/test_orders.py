"""Operators' orders: they reach the mailbox of their subject, with who and why, or the command says that they did not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from actuators.settings import IsolationSettings
from relight.cli import main
from relight.commands.pause import INSTEAD_FOR_A_NODE
from sandbox.kafka_server import KafkaBroker
from schemas.envelope import Event, decode
from schemas.mailbox import CancelIncidentOrder, PauseOrder, ReleaseNodeOrder, ResumeOrder


@pytest.mark.parametrize("command", ["pause", "resume", "cancel"])
@pytest.mark.parametrize("subject", ["partition/3", "run/", "llama", "domain/rack-1"])
def test_what_takes_no_orders_is_refused_before_anything_is_sent(
    subject: str, command: str, given: list[str]
) -> None:
    result = CliRunner().invoke(main, [command, subject, "--reason", "x"])

    assert (result.exit_code, given) == (2, [])
    assert "no subject of this order; right would be run/RUN-ID" in result.output


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (
            "pause",
            ["relight.dev/protected", "kubectl cordon", "relight pause run/", "RELIGHT_ACTING__PAUSED=true"],
        ),
        ("cancel", ["relight release NODE-UID"]),
    ],
)
def test_an_order_that_no_node_obeys_is_not_given_and_says_what_serves_instead(
    command: str, instead: list[str], given: list[str]
) -> None:
    result = CliRunner().invoke(main, [command, f"node/{NODE}", "--reason", "x"])

    assert (result.exit_code, given) == (2, [])
    assert [words for words in instead if words not in result.output] == []


def test_a_node_that_is_halted_is_resumed(given: list[str]) -> None:
    result = CliRunner().invoke(main, ["resume", f"node/{NODE}", "--reason", "x"])

    assert (result.exit_code, given) == (0, [f"node/{NODE}"]), result.output


def test_the_label_that_a_pause_names_is_one_that_protects_from_isolation() -> None:
    (label,) = [word for word in INSTEAD_FOR_A_NODE.split() if word.startswith("relight.dev/")]

    assert label in IsolationSettings().protected_labels


def test_an_order_without_a_reason_is_none() -> None:
    assert CliRunner().invoke(main, ["release", "uid-1"]).exit_code == 2


RUN, NODE = "7f0c1d2e-0000-4000-8000-00000000000a", "0b9e6c1e-0000-4000-8000-00000000000b"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Subjects of orders that were given, while no store is there."""
    orders: list[str] = []
    monkeypatch.setenv("RELIGHT_STORE__PORT", "1")
    for command in ("pause", "resume", "cancel", "release"):
        monkeypatch.setattr(
            f"relight.commands.{command}.give", lambda subject, _order: orders.append(subject)
        )
    return orders


@pytest.mark.parametrize("command", ["pause", "resume", "cancel"])
def test_without_the_record_only_a_whole_id_is_taken(command: str, given: list[str]) -> None:
    cut = CliRunner().invoke(main, [command, f"run/{RUN[:8]}", "--reason", "x"])
    whole = CliRunner().invoke(main, [command, f"run/{RUN}", "--reason", "x"])

    assert cut.exit_code == 1
    assert "the record was not asked who that is" in cut.output
    assert "this is no whole UID; nothing was ordered; right would be one of `relight jobs" in cut.output
    assert whole.exit_code == 0, whole.output
    assert "the order is given all the same" in whole.output
    assert given == [f"run/{RUN}"]


def test_a_release_without_the_record_takes_a_whole_uid_only(given: list[str]) -> None:
    assert CliRunner().invoke(main, ["release", NODE[:8], "--reason", "x"]).exit_code == 1
    assert CliRunner().invoke(main, ["release", NODE, "--reason", "x"]).exit_code == 0
    assert given == [f"node/{NODE}"]


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
    monkeypatch.setenv("RELIGHT_STORE__PORT", "1")
    common = ("--by", "sre", "--reason", "drill")

    for arguments in (
        ("pause", f"run/{RUN}", "--for", "30m", *common),
        ("resume", f"run/{RUN}", *common),
        ("cancel", f"run/{RUN}", *common),
        ("release", NODE, *common),
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
    assert [event.subject for event in events] == [f"run/{RUN}", f"run/{RUN}", f"run/{RUN}", f"node/{NODE}"]
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
