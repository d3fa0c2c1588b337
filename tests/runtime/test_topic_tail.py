"""Looking into a topic: a broker that is away is said in words, not in a traceback."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime import topic_tail
from runtime.errors import BrokerAway
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings
from sandbox import ports


def test_a_broker_that_is_away_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_tail, "_METADATA_SECONDS", 0.2)
    (nobody,) = ports.free_ports(1)
    clients = KafkaClients(KafkaSettings(bootstrap=f"127.0.0.1:{nobody}"), "test")

    with pytest.raises(BrokerAway, match=r"asking for decisions\.v1"):
        next(topic_tail.tail(clients, "decisions.v1", from_start=True, lasting=timedelta(seconds=1)))
