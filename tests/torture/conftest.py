"""One broker for all torture, with a cleaner that works within seconds; each pipeline on it has a prefix of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import kafka_jars
from sandbox.kafka_server import EAGER_COMPACTION, KafkaBroker
from tests.real import parts


@pytest.fixture(scope="package")
def torture_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """May be stopped by a test that starts it again."""
    parts.need("Kafka", kafka_jars.missing())
    with KafkaBroker(tmp_path_factory.mktemp("torture"), properties=EAGER_COMPACTION) as broker:
        yield broker
