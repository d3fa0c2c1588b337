"""The pictures of recovery times as coordinates, for the template to draw as SVG. Pure.

Two: each incident as a point over time (what never came back stands on the upper edge, so that it cannot hide), and for each strategy the
share of *all* its incidents that was stable again within a time. A curve that ends below 100 % is one whose rest never came back, or is still
open. Time is drawn by its logarithm: a restart in place and a job that waited for a spare differ by a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from relight.report.time_axis import TimeAxis, axis_of

WIDTH: Final = 560.0
HEIGHT: Final = 250.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 14.0, 28.0
COLOURS: Final = 6
"""Colours of strategies in the style sheet; more strategies begin again."""
_TICKS: Final = (1, 3, 10, 30, 60, 180, 600, 1800, 3600, 10_800, 36_000, 86_400, 604_800)
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
    moments: list[Tick]
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

    axis = axis_of((row["fault_time"] for row in rows), since, until)
    ticks = [tick for tick in _TICKS if least <= tick <= most]
    return Plots(
        dots=[_dot(row, colours, axis, up) for row in rows],
        curves=[_curve(name, colour, rows, along) for name, colour in colours.items()],
        seconds_up=[Tick(up(tick), _named(tick)) for tick in ticks],
        seconds_along=[Tick(along(tick), _named(tick)) for tick in ticks],
        moments=[Tick(_across(axis.share(at)), label) for at, label in axis.lines()],
        shares=[Tick(_share_up(share), f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)],
        colours=colours,
    )


def _bounds(measured: Iterable[float]) -> tuple[float, float]:
    """Ticks around the measured times, so that the scale ends at words people know."""
    times = sorted(measured)
    least = max((tick for tick in _TICKS if tick <= times[0]), default=times[0])
    most = min((tick for tick in _TICKS if tick >= times[-1]), default=times[-1])
    return float(least), float(most if most > least else 2 * least)


def _dot(row: dict[str, Any], colours: dict[str, int], axis: TimeAxis, up: Scale) -> Dot:
    recovered = row["outcome"] == "recovered"
    y = up(row["rto_seconds"]) if recovered else TOP / 2
    says = row["code"] or f"{row['strategy']}, no fault code".replace("_", " ")
    x = _across(axis.share(row["fault_time"]))
    return Dot(x, y, colours[row["strategy"]], row["outcome"], says)


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


def _across(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _named(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
