"""The agent's words made into events of the machine, or into nothing: a field that is wrong makes the whole word no order."""

from __future__ import annotations

from typing import Any

from supervisor import machine

MOST_GRACE = 600.0  # seconds
FURTHEST = 1e12  # seconds: also keeps out NaN and infinity
STATES = (machine.STOP, machine.RUN, machine.RELEASE)


def order_of(message: dict[str, Any], offset: float) -> machine.Event | None:
    """An order or an extension; `offset` takes wall-clock seconds to the machine's clock."""
    try:
        if message["type"] == "extend":
            return machine.Extend(_finite(message["until"]) + offset)
        if message["type"] != "desired" or message["state"] not in STATES:
            return None
        return machine.Order(
            epoch=_whole(message["epoch"]),
            attempt=_whole(message["attempt"]),
            state=message["state"],
            until=_finite(message.get("until", 0.0)) + offset,
            otherwise=_one_of(message.get("otherwise", machine.EXIT), (machine.EXIT, machine.RERUN)),
            grace=min(max(_finite(message.get("grace", 30.0)), 0.0), MOST_GRACE),
            reset=_one_of(message.get("counter", "continue"), ("continue", "reset")) == "reset",
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(value)
    number = float(value)
    if not abs(number) < FURTHEST:
        raise ValueError(number)
    return number


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < FURTHEST:
        raise ValueError(value)
    return value


def _one_of(value: object, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(value)
    return value
