"""One factory: keys go by murmur2, and what the client says is told apart by what may be done about it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from runtime.errors import BrokerAway, BrokerError, BrokerRefused, Fenced
from runtime.kafka import KafkaClients, explain
from runtime.settings import KafkaSettings


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, BrokerAway),
        (KafkaError._TIMED_OUT, BrokerAway),
        (KafkaError._MSG_TIMED_OUT, BrokerAway),
        (KafkaError.NOT_ENOUGH_REPLICAS, BrokerAway),
        (KafkaError._FENCED, Fenced),
        (KafkaError.PRODUCER_FENCED, Fenced),
        (KafkaError.INVALID_PRODUCER_EPOCH, Fenced),
        (KafkaError.MSG_SIZE_TOO_LARGE, BrokerRefused),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerRefused),
        (KafkaError._UNKNOWN_TOPIC, BrokerRefused),
    ],
)
def test_errors_say_whether_the_same_may_be_tried_again(code: int, kind: type[BrokerError]) -> None:
    for error in (KafkaError(code), KafkaException(KafkaError(code))):
        told = explain(error, "writing x")
        assert type(told) is kind
        assert str(told).startswith("writing x: ")


def test_a_producer_that_failed_for_good_is_fenced() -> None:
    assert type(explain(KafkaError(KafkaError._TIMED_OUT, "x", fatal=True), "writing")) is Fenced


def test_the_sites_own_client_settings_do_not_replace_ours() -> None:
    clients = KafkaClients(
        KafkaSettings(
            bootstrap="a:1", client={"partitioner": "consistent", "acks": 0, "enable.idempotence": False}
        ),
        "test",
    )

    made = clients._producing()
    assert (made["partitioner"], made["acks"], made["enable.idempotence"]) == ("murmur2_random", "all", True)
    assert made["bootstrap.servers"] == "a:1"
