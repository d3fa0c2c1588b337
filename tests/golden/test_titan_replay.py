"""Titan's trace through router and recovery: the golden counts, however many partitions, workers and kills."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from sandbox.kafka_server import KafkaBroker
from schemas import topics
from tests.golden import titan
from tests.golden.replay import PATIENCE, Replay

pytestmark = pytest.mark.timeout(480)


@pytest.mark.parametrize(
    ("partitions", "workers", "kills"),
    [(1, 1, 0), (4, 1, 0), (4, 2, 0), (4, 2, 3)],
    ids=["one partition", "four partitions", "two workers", "two workers, killed in the middle"],
)
def test_titan_counts_the_same_through_kafka(
    kafka: KafkaBroker,
    topic_name: str,
    tmp_path: Path,
    relight_data: Path,
    partitions: int,
    workers: int,
    kills: int,
) -> None:
    document, compiled = titan.rulebook()
    events = list(titan.events(relight_data))
    replay = Replay(kafka, f"{topic_name[-20:]}.", partitions, tmp_path, titan.CLUSTER)
    try:
        replay.release(document, compiled.hash, events[0])
        replay.publish(events)
        for _ in range(workers):
            replay.start("router")
            replay.start("recovery")
        if kills:
            _kill_in_the_middle(replay, kills, len(events))
        replay.wait_until_through()
    finally:
        replay.end()
    shadows = [made for made in replay.decisions().values() if made.mode == "shadow"]
    assert Counter(made.rule for made in shadows) == {
        "titan-slide": titan.POSITIONS,
        "titan-reset": titan.FIRINGS,
    }
    assert len({(made.chip, made.code) for made in shadows}) == titan.PAIRS
    assert not replay.read(topics.DEADLETTERS)


def _kill_in_the_middle(replay: Replay, kills: int, events: int) -> None:
    """Kill a router and a recovery stage, and start new ones, each time some more of the trace is handled."""
    dice = random.Random(20_14)
    for number in range(kills):
        wanted = events * (number + 1) // (kills + 2)
        deadline = time.monotonic() + PATIENCE
        while replay.handled("recovery", topics.INBOX) < wanted:
            assert time.monotonic() < deadline, replay.logs()
            time.sleep(0.05)
        for name, place in (("router", 0), ("recovery", 1)):
            alive = [p for p in replay.processes[place::2] if p.poll() is None]
            victim = dice.choice(alive)
            victim.send_signal(signal.SIGKILL)
            victim.wait(10)
            replay.start(name)
