"""A real Kafka broker for tests: `kafka` shared by the session, `new_kafka` for a test that stops or configures it.

The shared one is left as it is found by giving each test topics of its own name: use `topic_name`.
"""

import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from sandbox import kafka_jars
from sandbox.kafka_server import KafkaBroker
from tests.real import parts

LONGEST_TOPIC_NAME = 249  # Kafka's own limit


class NewKafka(Protocol):
    """Starts a broker of the test's own; it ends with the test."""

    def __call__(self, properties: Mapping[str, str] | None = None) -> KafkaBroker:
        """`properties` are those that differ, by Kafka's own names."""


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole session. Never stop it: that is what `new_kafka` is for."""
    parts.need("Kafka", kafka_jars.missing())
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def new_kafka(tmp_path: Path) -> Iterator[NewKafka]:
    """Make brokers of the test's own, started; each ends with the test, whatever the test did to it."""
    parts.need("Kafka", kafka_jars.missing())
    brokers: list[KafkaBroker] = []

    def make(properties: Mapping[str, str] | None = None) -> KafkaBroker:
        broker = KafkaBroker(tmp_path / f"kafka-{len(brokers)}", properties=properties)
        brokers.append(broker)
        return broker.start()

    yield make
    for broker in brokers:
        broker.kill()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name nobody else uses: the test's own name and a random part."""
    told = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)
    unique = uuid.uuid4().hex[:8]
    return f"{told[: LONGEST_TOPIC_NAME - 9]}-{unique}"
