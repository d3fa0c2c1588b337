"""Router and recovery stage on librdkafka's in-process broker: no jars, no fence, no compaction, four partitions a topic (design 10).

Enough for a demonstration and for tests of what lies above the stage. What the fence is for is proven on the real broker only.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from schemas import topics
from tests.streams.toy_core import ToyCore
from tests.torture import malformed
from tests.torture.pipeline import PARTITIONS, Pipeline, wait_until
from tests.torture.test_malformed import feed, mixed
from tests.torture.verdict import Referee

GOOD, BAD = 600, 100
LONG = 100.0
"""Seconds: it lets a group begin after 3 s, and takes its time over a rebalance."""
UNFENCED = {"RELIGHT_RECOVERY__FENCE": "off", "RELIGHT_TOPICS__CHECK_AT_START": "false"}


class MockBroker:
    """Lives as long as the client it belongs to, and so do its topics."""

    def __init__(self) -> None:
        self._owner = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1})
        broker = next(iter(self._owner.list_topics(timeout=10).brokers.values()))
        self.bootstrap = f"{broker.host}:{broker.port}"


class MockPipeline(Pipeline):
    """It cannot make topics: they appear when they are asked for."""

    def _make_topics(self) -> None:
        admin = self.clients.admin()
        for topic in topics.TOPICS:
            described = admin.list_topics(self.name(topic), timeout=10).topics[self.name(topic)]
            assert len(described.partitions) == PARTITIONS


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[MockPipeline]:
    broker = MockBroker()
    made = MockPipeline(broker, "mock.", tmp_path, module="tests.torture.worker", more=UNFENCED)
    yield made
    made.end_all()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_router_and_recovery_run_on_it_and_survive_a_kill(pipeline: MockPipeline) -> None:
    # It keeps five megabytes of a partition: nothing large.
    kinds = tuple(kind for kind in malformed.KINDS if kind is not malformed.deep)
    stands = feed(pipeline, topics.SIGNALS, mixed(random.Random(12), BAD, GOOD, kinds))
    pipeline.start("relight.cli", "router")
    first = pipeline.start()
    try:
        wait_until(
            lambda: sum(pipeline.committed("recovery").values()) >= GOOD // 4,
            "a part is applied",
            patience=LONG,
        )
        first.end(signal.SIGKILL)
        second = pipeline.start()
        wait_until(
            lambda: sum(pipeline.ends(topics.INBOX).values()) >= GOOD,
            "all good ones are routed",
            patience=LONG,
        )
        referee = Referee(pipeline, ToyCore())
        referee.wait_for_rest(LONG)
    except AssertionError as error:
        pytest.fail(f"{error}\n{pipeline.logs()}")

    assert referee.differences() == {}
    assert sum(referee.counted().values()) == GOOD
    assert sum(pipeline.ends(topics.DEADLETTERS).values()) == len(stands) == BAD
    assert "no fence" in second.log.read_text(encoding="utf-8")
