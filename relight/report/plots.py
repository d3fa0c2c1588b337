"""The pictures of recovery times as coordinates, for the template to draw as SVG. Pure.

Two: each incident as a point over the days (what never came back stands on the upper edge, so that it cannot hide), and for each strategy the
share of *all* its incidents that was stable again within a time. A curve that ends below 100 % is one whose rest never came back, or is still
open. Time is drawn by its logarithm: a restart in place and a job that waited for a spare differ by a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

WIDTH: Final = 560.0
HEIGHT: Final = 250.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 14.0, 28.0
COLOURS: Final = 6
"""Colours of strategies in the style sheet; more strategies begin again."""
_TICKS: Final = (1, 3, 10, 30, 60, 180, 600, 1800, 3600, 10_800, 36_000, 86_400, 604_800)
_DAYS: Final = 5
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale and what stands at it."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Dot:
    """One incident."""

    x: float
    y: float
    colour: int
    outcome: str
    says: str


@dataclass(frozen=True, slots=True)
class Curve:
    """One strategy: points of a staircase, as SVG wants them."""

    strategy: str
    colour: int
    points: str
    ends_at: float


@dataclass(frozen=True, slots=True)
class Plots:
    """Both pictures; without a single measured time there are none."""

    dots: list[Dot]
    curves: list[Curve]
    seconds_up: list[Tick]
    seconds_along: list[Tick]
    days: list[Tick]
    shares: list[Tick]
    colours: dict[str, int]


def draw(rows: Sequence[dict[str, Any]], since: datetime, until: datetime) -> Plots | None:
    """`rows`: strategy, fault_time, rto_seconds, outcome, code, of each incident."""
    measured = [
        row["rto_seconds"] for row in rows if row["outcome"] == "recovered" and row["rto_seconds"] > 0
    ]
    if not measured:
        return None
    least, most = _bounds(measured)
    colours = {name: place % COLOURS for place, name in enumerate(dict.fromkeys(r["strategy"] for r in rows))}

    def share_of_scale(seconds: float) -> float:
        return math.log(max(seconds, least) / least) / math.log(most / least)

    def up(seconds: float) -> float:
        return HEIGHT - BOTTOM - share_of_scale(seconds) * (HEIGHT - TOP - BOTTOM)

    def along(seconds: float) -> float:
        return LEFT + share_of_scale(seconds) * (WIDTH - LEFT - RIGHT)

    ticks = [tick for tick in _TICKS if least <= tick <= most]
    return Plots(
        dots=[_dot(row, colours, since, until, up) for row in rows],
        curves=[_curve(name, colour, rows, along) for name, colour in colours.items()],
        seconds_up=[Tick(up(tick), _named(tick)) for tick in ticks],
        seconds_along=[Tick(along(tick), _named(tick)) for tick in ticks],
        days=_days(since, until),
        shares=[Tick(_share_up(share), f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)],
        colours=colours,
    )


def _bounds(measured: Iterable[float]) -> tuple[float, float]:
    """Ticks around the measured times, so that the scale ends at words people know."""
    times = sorted(measured)
    least = max((tick for tick in _TICKS if tick <= times[0]), default=times[0])
    most = min((tick for tick in _TICKS if tick >= times[-1]), default=times[-1])
    return float(least), float(most if most > least else 2 * least)


def _dot(row: dict[str, Any], colours: dict[str, int], since: datetime, until: datetime, up: Scale) -> Dot:
    recovered = row["outcome"] == "recovered"
    y = up(row["rto_seconds"]) if recovered else TOP / 2
    return Dot(
        _day(row["fault_time"], since, until), y, colours[row["strategy"]], row["outcome"], row["code"] or ""
    )


def _curve(name: str, colour: int, rows: Sequence[dict[str, Any]], along: Scale) -> Curve:
    ours = [row for row in rows if row["strategy"] == name]
    times = sorted(row["rto_seconds"] for row in ours if row["outcome"] == "recovered")
    points, share = [(LEFT, _share_up(0.0))], 0.0
    for place, seconds in enumerate(times, start=1):
        x = along(seconds)
        points.append((x, _share_up(share)))
        share = place / len(ours)
        points.append((x, _share_up(share)))
    points.append((WIDTH - RIGHT, _share_up(share)))
    return Curve(name, colour, " ".join(f"{x:.1f},{y:.1f}" for x, y in points), share)


def _share_up(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _day(moment: datetime, since: datetime, until: datetime) -> float:
    whole = (until - since).total_seconds() or 1.0
    return LEFT + (moment - since).total_seconds() / whole * (WIDTH - LEFT - RIGHT)


def _days(since: datetime, until: datetime) -> list[Tick]:
    step = (until - since) / _DAYS
    moments = [since + step * number for number in range(_DAYS + 1)]
    short = step.total_seconds() < 86_400  # noqa: PLR2004 - a day
    return [
        Tick(_day(moment, since, until), f"{moment:%d %b %H:%M}" if short else f"{moment:%d %b}")
        for moment in moments
    ]


def _named(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
