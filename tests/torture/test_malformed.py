"""Ten thousand messages that are none, among good ones: each dead-lettered once with its reason and its bytes, the good ones handled."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message

from sandbox.kafka_server import KafkaBroker
from schemas import topics
from schemas.envelope import decode
from schemas.ids import mailbox_key
from tests.streams.toy_core import ToyCore
from tests.torture import malformed
from tests.torture.pipeline import Pipeline, wait_until
from tests.torture.verdict import Referee

SEED = 4711
BAD_SIGNALS = 7_000
BAD_INBOX = 3_000
GOOD = 1_000
REASONS = {"unreadable", "unknown_type", "oversized", "nonsense_time"}

Where = tuple[str, int, int]


def feed(
    pipeline: Pipeline, topic: topics.Topic, values: list[bytes | None], *, first: int = 0
) -> dict[Where, bytes]:
    """Produce, numbered from `first`; returns what stands where, without the good ones (None: they come by themselves)."""
    producer = pipeline.clients.producer()
    stands: dict[Where, bytes] = {}

    def remember(value: bytes) -> Callable[[object, Message], None]:
        def delivered(error: object, message: Message) -> None:
            assert error is None
            stands[message.topic() or "", message.partition() or 0, message.offset() or 0] = value

        return delivered

    for number, value in enumerate(values, first):
        if value is None:
            key = mailbox_key(malformed.CLUSTER, f"node/n{number % 50}")
            producer.produce(pipeline.name(topic), key=key, value=malformed.good(number))
        else:
            producer.produce(
                pipeline.name(topic), key=b"%d" % number, value=value, on_delivery=remember(value)
            )
        producer.poll(0)
    assert producer.flush(60) == 0
    return stands


def mixed(
    dice: random.Random, bad: int, good: int, kinds: tuple[Callable[[random.Random], bytes], ...]
) -> list[bytes | None]:
    values: list[bytes | None] = [malformed.malformed(dice, kinds) for _ in range(bad)]
    values += [None] * good
    dice.shuffle(values)
    return values


def header(message: Message, name: str) -> str:
    headers = dict(message.headers() or [])
    value = headers[f"relight.{name}"]
    assert isinstance(value, bytes)
    return value.decode()


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_each_malformed_message_is_dead_lettered_once_and_the_good_ones_are_handled(
    torture_broker: KafkaBroker, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    pipeline = Pipeline(torture_broker, f"m{uuid.uuid4().hex[:6]}.", tmp_path, module="tests.torture.worker")
    stands = feed(pipeline, topics.SIGNALS, mixed(dice, BAD_SIGNALS, GOOD, malformed.KINDS))
    timeless = tuple(
        kind for kind in malformed.KINDS if kind is not malformed.other_century
    )  # the router judges time
    stands |= feed(pipeline, topics.INBOX, mixed(dice, BAD_INBOX, GOOD, timeless))
    try:
        pipeline.start("relight.cli", "router")
        pipeline.start()
        wait_until(
            lambda: sum(pipeline.ends(topics.DEADLETTERS).values()) >= len(stands),
            "all dead letters",
            every=0.5,
        )
        wait_until(
            lambda: sum(pipeline.ends(topics.INBOX).values()) >= BAD_INBOX + 2 * GOOD,
            "all good ones are routed",
        )
        referee = Referee(pipeline, ToyCore())
        referee.wait_for_rest()
        pipeline.require_alive()
    except AssertionError as error:
        pytest.fail(f"seed {SEED}: {error}\n{pipeline.logs()}")
    finally:
        pipeline.end_all()

    assert referee.differences() == {}
    letters = pipeline.read_all(topics.DEADLETTERS)
    places = [
        (header(letter, "topic"), int(header(letter, "partition")), int(header(letter, "offset")))
        for letter in letters
    ]
    assert sorted(places) == sorted(stands)
    assert all(letter.value() == stands[place] for letter, place in zip(letters, places, strict=True))
    reasons = Counter(header(letter, "reason") for letter in letters)
    assert set(reasons) == REASONS
    assert {header(letter, "stage") for letter in letters} == {"router", "recovery"}
    handled = Counter(
        decode(message.value() or b"").id
        for message in pipeline.read_all(topics.INBOX)
        if (message.topic() or "", message.partition() or 0, message.offset() or 0) not in stands
    )
    assert set(handled) == {name for name in handled if name.startswith("good-")}
    assert sum(handled.values()) == 2 * GOOD
    assert sum(referee.counted().values()) == 2 * GOOD
