"""Messages that are none: what a broken or hostile sender puts into a topic."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from schemas.envelope import encode, make_event
from tests.streams.toy_core import fault

CLUSTER = "torture"
HUGE = 2_000_000
HUGE_SHARE = 500
"""One in so many is huge: two megabytes each."""


def good(number: int) -> bytes:
    """A signal that is to be handled."""
    return encode(
        make_event(
            fault("count", node=f"n{number % 50}"),
            id=f"good-{number}",
            source="/clusters/torture/test",
            subject=f"node/n{number % 50}",
            time=datetime.now(UTC),
            cluster=CLUSTER,
        )
    )


def random_bytes(dice: random.Random) -> bytes:
    """No text at all."""
    return dice.randbytes(dice.randrange(1, 2000))


def wrong_types(dice: random.Random) -> bytes:
    """Right fields, wrong values."""
    event = json.loads(good(dice.randrange(100)))
    place = dice.choice(["id", "time", "subject", "cluster", "data", "specversion"])
    event[place] = dice.choice([None, "", [], {"a": 1}, [True]])
    return json.dumps(event).encode()


def no_event(dice: random.Random) -> bytes:
    """JSON of another kind."""
    return json.dumps(
        dice.choice([None, 1, "text", [1, 2], {"a": "b"}, {"__faust": {"ns": "unknown"}}])
    ).encode()


def unknown_version(dice: random.Random) -> bytes:
    """A type of a release to come."""
    event = json.loads(good(dice.randrange(100)))
    event["type"] = event["type"].replace(".v1", f".v{dice.randrange(2, 99)}")
    return json.dumps(event).encode()


def deep(dice: random.Random) -> bytes:
    """Nested without end."""
    depth = dice.choice([200, 5_000, 50_000])
    opening, closing = dice.choice([("[", "]"), ('{"a":', "}")])
    event = json.dumps(json.loads(good(1)) | {"data": "HERE"})
    return event.replace('"HERE"', opening * depth + "1" + closing * depth).encode()


def other_century(dice: random.Random) -> bytes:
    """A clock that is decades ahead."""
    event = json.loads(good(dice.randrange(100)))
    event["time"] = (datetime(2099, 1, 1, tzinfo=UTC) + timedelta(days=dice.randrange(300))).isoformat()
    return json.dumps(event).encode()


def huge(dice: random.Random) -> bytes:
    """Two megabytes."""
    return dice.randbytes(1000) * (HUGE // 1000)


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    random_bytes,
    wrong_types,
    no_event,
    unknown_version,
    deep,
    other_century,
)


def malformed(dice: random.Random, kinds: tuple[Callable[[random.Random], bytes], ...] = KINDS) -> bytes:
    """Some malformed message."""
    return huge(dice) if dice.randrange(HUGE_SHARE) == 0 else dice.choice(kinds)(dice)
