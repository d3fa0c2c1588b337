"""The audit's health: red long before Kafka forgets, measured by what the broker says it keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from audit.errors import StoreAway
from audit.process import LateStore, make_health
from audit.retention import LOOK_EVERY, Retention
from audit.settings import AuditSettings, StoreSettings
from audit.writer import READ
from runtime.errors import BrokerAway
from runtime.health import Health

DAY = 86_400.0


def health(
    oldest_days: float | None, kept: timedelta | None, away: float | None = None, refusal: str | None = None
) -> Health:
    oldest = None if oldest_days is None else time.time() - oldest_days * DAY
    writer: Any = SimpleNamespace(oldest=oldest, away_since=away, refusal=refusal)
    retention: Any = SimpleNamespace(shortest=kept)
    store: Any = SimpleNamespace(connected=True)
    return make_health(AuditSettings(cluster="lab"), writer, retention, store)


@pytest.mark.parametrize(
    ("oldest", "kept", "red"),
    [
        (3.4, timedelta(days=7), False),
        (3.6, timedelta(days=7), True),
        (0.6, timedelta(days=1), True),
        (3.6, timedelta(days=30), False),
        (900, None, False),
        (None, timedelta(days=1), False),
    ],
)
def test_health_is_red_at_half_of_the_shortest_retention(
    oldest: float | None, kept: timedelta | None, red: bool
) -> None:
    assert ("keeps up" in health(oldest, kept).faults()) is red


def test_a_store_that_is_away_is_told_at_once() -> None:
    found = health(0.001, timedelta(days=7), away=time.monotonic() - 12).faults()

    assert found == {"store": "the store has not answered for 12 s"}


def test_a_store_that_refuses_is_told_with_its_reason() -> None:
    found = health(0.001, timedelta(days=7), time.monotonic() - 12, "Not enough privileges").faults()

    assert found == {"store": "the store has refused what is written for 12 s: Not enough privileges"}


def test_a_store_that_never_answered_is_away_and_no_reason_to_end() -> None:
    settings = AuditSettings(cluster="lab", store=StoreSettings(port=1))
    store = LateStore(settings)
    writer: Any = SimpleNamespace(oldest=None, away_since=None, refusal=None)
    retention: Any = SimpleNamespace(shortest=timedelta(days=7))

    with pytest.raises(StoreAway):
        store.connect()
    assert make_health(settings, writer, retention, store).faults() == {
        "store": "the store has not answered yet"
    }
    store.close()


def looking(answers: list[Callable[[], list[timedelta]]]) -> tuple[Retention, list[float]]:
    now = [0.0]

    def ask() -> list[timedelta]:
        return answers.pop(0)()

    return Retention(ask, READ, lambda: now[0]), now


def away() -> list[timedelta]:
    raise BrokerAway("nobody")


def test_the_shortest_retention_is_the_broker_s_word_asked_for_again_and_again() -> None:
    days = [timedelta(days=30), timedelta(days=2)]
    retention, now = looking([lambda: days, away, lambda: days[:1], list])
    assert retention.shortest == timedelta(days=7)

    told = []
    for _ in range(4):
        retention.look()
        retention.look()  # not yet time
        told.append(retention.shortest)
        now[0] += LOOK_EVERY.total_seconds()

    assert told == [timedelta(days=2), timedelta(days=2), timedelta(days=30), None]
