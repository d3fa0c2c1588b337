"""What the record says: ClickHouse by its ordinary client, as the reader's user, through the views (and the two tables that have none)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from audit.settings import StoreSettings
from audit.store import Store
from sandbox.demo.seen import COMMANDS, DECISIONS, INCIDENTS, OUTCOMES
from sandbox.demo.world import STORE_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

PHASES: Final = (
    "detection", "termination", "requeue", "warm_up", "checkpoint", "communication", "stabilisation"
)  # fmt: skip
TABLES: Final = {
    COMMANDS: "commands_once",
    OUTCOMES: "outcomes_once",
    DECISIONS: "decisions_once",
    INCIDENTS: "incident_states",
}
UNKNOWN: Final = frozenset({"incomplete", "stable_unknown", "clock_skew"})
PATIENCE: Final = 30.0
AGAIN: Final = 0.5

_INCIDENTS: Final = """
SELECT i.incident, i.strategy, i.result, i.attempts, i.code, i.node, r.rto_seconds
FROM {db}.incidents AS i INNER JOIN {db}.rto AS r ON r.cluster = i.cluster AND r.incident = i.incident
WHERE i.run = {run:String} ORDER BY i.fault_time
"""
_SPANS: Final = """
SELECT p.incident, p.phase, arrayDistinct(groupArray(p.state)), sum(p.seconds) FROM {db}.phases AS p
INNER JOIN {db}.incidents AS i ON i.cluster = p.cluster AND i.incident = p.incident WHERE i.run = {run:String} GROUP BY p.incident, p.phase
"""
_DONE: Final = """
SELECT step, count(), sum(told) FROM
(
    SELECT o.step AS step, o.command AS command, max(greatest(o.told, 0)) AS told FROM {db}.outcomes_once AS o
    INNER JOIN {db}.incidents AS i ON i.cluster = o.cluster AND i.incident = o.incident
    WHERE i.run = {run:String} AND o.result = 'done' GROUP BY step, command
)
GROUP BY step
"""
_ISOLATIONS: Final = """
SELECT count(DISTINCT command) FROM {db}.outcomes_once WHERE step = 'isolate_node' AND result = 'done' AND notEmpty(effects)
"""
_PODS: Final = (
    "SELECT DISTINCT pod_uid, node FROM {db}.facts FINAL WHERE kind = 'pod_bound' AND run = {run:String}"
)
_JOB: Final = "SELECT job_retries_used, epoch, ended FROM {db}.jobs WHERE run = {run:String}"
_TAINTED: Final = "SELECT node FROM {db}.node_standing WHERE our_taint"
_HELD: Final = "SELECT node FROM {db}.node_standing WHERE held_for != '' AND answer = 'held'"


@dataclass(frozen=True)
class Span:
    """A phase of a recovery over all its attempts."""

    state: str
    """`measured`, `not_applicable` where no attempt had it, or why its length is not known."""
    seconds: float

    @classmethod
    def of(cls, states: Sequence[str], seconds: float | None) -> Self:
        """An attempt that failed has measured what it got to and has nothing of the rest."""
        unknown = sorted(set(states) & UNKNOWN)
        known = "not_applicable" if set(states) <= {"not_applicable", "not_reached"} else "measured"
        return cls(unknown[0] if unknown else known, seconds or 0.0)


@dataclass(frozen=True)
class Row:
    """One recovery in the record."""

    incident: str
    strategy: str
    result: str
    attempts: int
    code: str
    node: str
    rto: float | None
    """Seconds from the fault to stable throughput."""
    phases: Mapping[str, Span]
    """Of all its attempts together."""


@dataclass(frozen=True)
class Recorded:
    """All of it, as plain values."""

    recoveries: tuple[Row, ...]
    ids: Mapping[str, frozenset[str]]
    """Ids of the events, by kind."""
    steps_done: Mapping[str, int]
    """Commands of the run that were carried out, by step."""
    isolations: int
    """Commands that isolated a node: asked for by the run, given by the node's own mailbox."""
    pods_told: Mapping[str, int]
    """Pods that were told, by step."""
    pods: Mapping[str, str]
    """Node of every pod of the job, by UID."""
    retries_used: int
    schedule_count: int
    ended: str
    tainted: frozenset[str]
    held: frozenset[str]


@contextmanager
def reader(port: int) -> Iterator[Store]:
    """The store on this machine, as the reader's user."""
    settings = StoreSettings.model_validate({"port": port, "timeout": STORE_TIMEOUT})
    with Store(settings, settings.reader) as store:
        yield store


def read(store: Store, run: str) -> Recorded:
    """Everything there is of one run. Raises StoreAway, StoreRefused."""

    def rows(question: str) -> list[tuple[Any, ...]]:
        return store.rows(question.replace("{db}", store.database), {"run": run})

    spans: dict[str, dict[str, Span]] = {}
    for incident, phase, states, seconds in rows(_SPANS):
        spans.setdefault(incident, {})[phase] = Span.of(states, seconds)
    done = rows(_DONE)
    (used, epoch, ended), *_ = rows(_JOB) or [(0, 0, "")]
    return Recorded(
        recoveries=tuple(
            Row(incident, strategy, result, attempts, code, node, rto, spans.get(incident, {}))
            for incident, strategy, result, attempts, code, node, rto in rows(_INCIDENTS)
        ),
        ids={
            kind: frozenset(row[0] for row in rows(f"SELECT event_id FROM {{db}}.{table}"))  # noqa: S608 - names of our own
            for kind, table in TABLES.items()
        },
        steps_done={step: commands for step, commands, _ in done},
        isolations=rows(_ISOLATIONS)[0][0],
        pods_told={step: told for step, _, told in done},
        pods={uid: node for uid, node in rows(_PODS)},  # noqa: C416 - rows are wider types
        retries_used=used,
        schedule_count=epoch,
        ended=ended or "",
        tainted=frozenset(row[0] for row in rows(_TAINTED)),
        held=frozenset(row[0] for row in rows(_HELD)),
    )


def read_when_caught_up(store: Store, run: str, ids: Mapping[str, frozenset[str]]) -> Recorded:
    """Everything, once the record has all these events and the job's end; after half a minute whatever it has by then."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = read(store, run)
        complete = found.ended and all(wanted <= found.ids[kind] for kind, wanted in ids.items())
        if complete or time.monotonic() > deadline:
            return found
        time.sleep(AGAIN)
