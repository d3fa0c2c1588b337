"""What stands in the report, read from the views and put into the order people read it. Pure but for the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from audit.store import Store
from relight.record import ATTEMPTS_OF_EACH
from relight.report.evidence import cause_of
from relight.report.plots import Plots, draw

PHASES: Final = (
    "detection",
    "termination",
    "requeue",
    "warm_up",
    "checkpoint",
    "communication",
    "stabilisation",
)
AT_ONCE: Final = 250
"""Incidents whose chains are asked for in one question."""
_DRAWN: Final = 5000
"""Incidents in the pictures of recovery times, newest first; more would make the page heavy."""
_WINDOW: Final = "fault_time >= {since:DateTime64(6)} AND fault_time < {until:DateTime64(6)}"
STRATEGIES: Final = f"""
SELECT
    strategy,
    count() AS incidents,
    countIf(outcome = 'recovered') AS recovered,
    countIf(outcome = 'open') AS open,
    countIf(outcome = 'never') AS never,
    countIf(outcome = 'stable_unknown') AS unknown,
    quantileExactIf(0.5)(rto_seconds, outcome = 'recovered') AS p50,
    quantileExactIf(0.95)(rto_seconds, outcome = 'recovered') AS p95,
    quantileExactIf(0.99)(rto_seconds, outcome = 'recovered') AS p99
FROM {{db}}.rto WHERE {_WINDOW} GROUP BY strategy ORDER BY incidents DESC
"""  # noqa: S608 - texts of our own; values are bound by the server
MEDIANS: Final = f"""
SELECT
    strategy,
    phase,
    any(ordinal) AS ordinal,
    quantileExactIf(0.5)(seconds, state = 'measured') AS p50,
    countIf(state = 'measured') AS measured
FROM {{db}}.phases WHERE (cluster, incident) IN (SELECT cluster, incident FROM {{db}}.rto WHERE {_WINDOW})
GROUP BY strategy, phase ORDER BY strategy, ordinal
"""  # noqa: S608 - as above
INCIDENTS: Final = f"""
SELECT
    i.incident AS incident,
    i.run AS run,
    i.strategy AS strategy,
    i.state AS state,
    i.result AS result,
    i.code AS code,
    i.node AS node,
    i.chip AS chip,
    i.reason AS reason,
    length(a.numbers) AS attempts,
    i.trigger AS trigger,
    i.fault_time AS fault_time,
    r.rto_seconds AS rto_seconds,
    r.rto_first_step_seconds AS first_step,
    r.outcome AS outcome
FROM {{db}}.incidents AS i
INNER JOIN {{db}}.rto AS r ON r.cluster = i.cluster AND r.incident = i.incident
LEFT JOIN {ATTEMPTS_OF_EACH.replace("{which}", "")} AS a ON a.incident = i.incident
WHERE i.{_WINDOW.replace(" AND ", " AND i.")}
ORDER BY i.fault_time DESC LIMIT {{limit:UInt32}}
"""  # noqa: S608 - as above
SPANS: Final = """
SELECT incident, attempt, phase, state, began_at, ended_at, seconds FROM {db}.phases
WHERE incident IN {incidents:Array(String)} ORDER BY incident, attempt, ordinal
"""
_OF_THESE: Final = ATTEMPTS_OF_EACH.replace("{which}", " WHERE incident IN {incidents:Array(String)}")
CHAINS: Final = f"""
SELECT c.incident AS incident, at, link, nullIf(indexOf(a.numbers, c.attempt), 0) AS attempt, what, detail
FROM {{db}}.cause_chain AS c LEFT JOIN {_OF_THESE} AS a ON a.incident = c.incident
WHERE c.incident IN {{incidents:Array(String)}} ORDER BY incident, at, ordinal
"""  # noqa: S608 - as above
EVIDENCE: Final = """
SELECT e.incident AS incident, s.event_id AS event_id, s.event_time AS at, kind, exit_code, exit_signal, oom, rank, name, state
FROM (SELECT DISTINCT incident, trigger FROM {db}.explained WHERE incident IN {incidents:Array(String)}) AS e
INNER JOIN
(
    SELECT * FROM {db}.signals_once WHERE event_id IN (SELECT trigger FROM {db}.explained WHERE incident IN {incidents:Array(String)})
) AS s ON s.event_id = e.trigger
ORDER BY incident, at
"""
POINTS: Final = f"""
SELECT strategy, fault_time, rto_seconds, outcome, code FROM {{db}}.rto WHERE {_WINDOW} ORDER BY fault_time DESC LIMIT {_DRAWN}
"""  # noqa: S608 - as above
LEMONS: Final = """
SELECT node, chip, code, faults, runs, last_seen FROM {db}.lemons WHERE last_seen >= {since:DateTime64(6)} ORDER BY faults DESC LIMIT 20
"""
HELD: Final = """
SELECT node, held_for, since, answer, next_step FROM {db}.node_standing WHERE held_for != '' ORDER BY since
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of a timeline, in percent of its width."""

    phase: str
    state: str
    left: float
    width: float
    seconds: float


@dataclass(slots=True)
class Story:
    """One incident."""

    facts: dict[str, Any]
    bars: list[Bar] = field(default_factory=list)
    chain: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Content:
    """Everything the template shows."""

    since: datetime
    until: datetime
    made_at: datetime
    strategies: list[dict[str, Any]]
    medians: dict[str, list[Bar]]
    """Of each phase by itself: they do not add up to the median recovery time, which is `median_rto`."""
    median_rto: dict[str, float | None]
    stories: list[Story]
    lemons: list[dict[str, Any]]
    held: list[dict[str, Any]]
    shown: int
    total: int
    plots: Plots | None


def read_content(
    store: Store,
    *,
    since: datetime,
    until: datetime,
    made_at: datetime,
    limit: int = 200,
    told: Callable[[int, int], None] = lambda _done, _of: None,
) -> Content:
    """Read all of it; `told` hears how many incidents of how many are read. Raises StoreAway, StoreRefused."""
    window = {"since": since, "until": until}
    strategies = _rows(store, STRATEGIES, window)
    incidents = _rows(store, INCIDENTS, {**window, "limit": limit})
    stories = {row["incident"]: Story(row) for row in incidents}
    told(0, len(incidents))
    for first in range(0, len(incidents), AT_ONCE):
        some = [row["incident"] for row in incidents[first : first + AT_ONCE]]
        _read_stories(store, stories, some)
        told(first + len(some), len(incidents))
    return Content(
        since=since,
        until=until,
        made_at=made_at,
        strategies=strategies,
        medians=_medians(_rows(store, MEDIANS, window)),
        median_rto={row["strategy"]: row["p50"] for row in strategies},
        stories=list(stories.values()),
        lemons=_rows(store, LEMONS, window),
        held=_rows(store, HELD, {}),
        plots=draw(_rows(store, POINTS, window), since, until),
        shown=len(incidents),
        total=sum(row["incidents"] for row in strategies),
    )


def _read_stories(store: Store, stories: dict[str, Story], some: list[str]) -> None:
    named = {"incidents": some}
    for row in _rows(store, SPANS, named):
        _add_span(stories[row["incident"]], row)
    for row in _rows(store, CHAINS, named):
        stories[row["incident"]].chain.append(row)
    seen: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(store, EVIDENCE, named):
        seen.setdefault(row["incident"], []).append(row)
    for incident in some:
        facts, chain = stories[incident].facts, stories[incident].chain
        acted = min((row["at"] for row in chain if row["link"] == "command"), default=None)
        facts["cause"] = cause_of(facts["code"], facts["trigger"], seen.get(incident, []), acted)
        stories[incident].bars = lay_out(stories[incident].facts.pop("spans", []))


def _rows(store: Store, question: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns, rows = store.table(question.replace("{db}", store.database), parameters)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _add_span(story: Story, row: dict[str, Any]) -> None:
    if row["began_at"] is not None and row["ended_at"] is not None and row["state"] != "not_applicable":
        story.facts.setdefault("spans", []).append(row)


def lay_out(spans: list[dict[str, Any]]) -> list[Bar]:
    """Spans as stretches of one line from the first begin to the last end; what has no length is left out."""
    if not spans:
        return []
    first = min(span["began_at"] for span in spans)
    whole = (max(span["ended_at"] for span in spans) - first).total_seconds()
    if whole <= 0:
        return []
    return [
        Bar(
            span["phase"],
            span["state"],
            100 * (span["began_at"] - first).total_seconds() / whole,
            100 * span["seconds"] / whole,
            span["seconds"],
        )
        for span in spans
        if span["seconds"] is not None and span["seconds"] > 0
    ]


def _medians(rows: list[dict[str, Any]]) -> dict[str, list[Bar]]:
    """Median phases of each strategy, drawn to one scale."""
    known = [row for row in rows if row["measured"] and row["p50"] is not None and row["p50"] > 0]
    totals: dict[str, float] = {}
    for row in known:
        totals[row["strategy"]] = totals.get(row["strategy"], 0.0) + row["p50"]
    longest = max(totals.values(), default=0.0)
    drawn: dict[str, list[Bar]] = {}
    for row in known:
        bars = drawn.setdefault(row["strategy"], [])
        left = bars[-1].left + bars[-1].width if bars else 0.0
        bars.append(Bar(row["phase"], "measured", left, 100 * row["p50"] / longest, row["p50"]))
    return drawn
