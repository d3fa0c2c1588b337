"""Router and recovery stage on the embedded broker: no jars, no fence, no compaction, four partitions a topic (design 10).

Enough for a demonstration and for tests of what lies above the stage. What the fence is for is proven on the real broker only.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.embedded_broker import EmbeddedBroker
from schemas import topics
from tests.streams.toy_core import ToyCore
from tests.torture import malformed
from tests.torture.pipeline import Pipeline, wait_until
from tests.torture.test_malformed import feed, mixed
from tests.torture.verdict import Referee

GOOD, BAD = 600, 100
PREFIX = "mock."
LONG = 100.0
"""Seconds: it lets a group begin after 3 s, and takes its time over a rebalance."""


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with EmbeddedBroker(tmp_path / "broker", prefix=PREFIX) as broker:
        made = Pipeline(broker, PREFIX, tmp_path, module="tests.torture.worker", more=broker.environment)
        yield made
        made.end_all()


@pytest.mark.slow
@pytest.mark.timeout(450)
def test_router_and_recovery_run_on_it_and_survive_a_kill(pipeline: Pipeline) -> None:
    # It keeps five megabytes of a partition: nothing large.
    kinds = tuple(kind for kind in malformed.KINDS if kind is not malformed.deep)
    values = mixed(random.Random(12), BAD, GOOD, kinds)
    # The second worker gets its own half: the first is quick enough to leave it nothing.
    half = len(values) // 2
    stands = feed(pipeline, topics.SIGNALS, values[:half])
    pipeline.start("relight.cli", "router")
    first = pipeline.start()
    try:
        wait_until(
            lambda: sum(pipeline.committed("recovery").values()) >= GOOD // 8,
            "a part is applied",
            patience=LONG,
        )
        first.end(signal.SIGKILL)
        second = pipeline.start()
        stands |= feed(pipeline, topics.SIGNALS, values[half:], first=half)
        wait_until(
            lambda: sum(pipeline.ends(topics.INBOX).values()) >= GOOD,
            "all good ones are routed",
            patience=LONG,
        )
        wait_until(
            lambda: sum(pipeline.ends(topics.DEADLETTERS).values()) >= BAD,
            "all others are dead letters",  # the last of them lie behind the last good one
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
