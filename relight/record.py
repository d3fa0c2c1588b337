"""Questions to the record, as the reader's user and within its limits. The views are the contract; nothing here reads a raw table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from relight.tables import plain

if TYPE_CHECKING:
    from audit.store import Store

ROWS: Final = 100_000
LIMITS: Final = {"max_execution_time": 30, "max_result_rows": ROWS, "result_overflow_mode": "break"}
"""A person's question must not stop the writer; 30 s and 100,000 rows."""

_WHERE: Final = (
    "right would be RELIGHT_STORE__HOST=... and RELIGHT_STORE__PORT=... (`. FOLDER/env` for a sandbox)"
)

LEAST: Final = 6
"""Letters of an id that are enough to look for the rest; the server compares them as text, so that no letter stands for another."""
CANDIDATES: Final = 10
"""How many are listed where a prefix is that of several."""

ATTEMPTS_OF_EACH: Final = "(SELECT incident, arraySort(groupUniqArray(attempt)) AS numbers FROM {db}.attempts{which} GROUP BY incident)"
"""Numbers of each incident's attempts. They grow over all incidents of a run, since a supervisor refuses a lower one (design 8): people count
within an incident, so a place in this list is what is shown."""
_ATTEMPTS: Final = ATTEMPTS_OF_EACH.replace("{which}", " WHERE incident = {incident:String}")

INCIDENTS: Final = f"""
SELECT i.incident AS incident, state, paused, result, strategy, run, code, node, chip, length(a.numbers) AS attempts, fault_time,
    closed_at, reason
FROM {{db}}.incidents AS i
LEFT JOIN {ATTEMPTS_OF_EACH.replace("{which}", "")} AS a ON a.incident = i.incident
WHERE ({{run:String}} = '' OR run = {{run:String}} OR length({{run:String}}) >= 6 AND startsWith(run, {{run:String}}))
    AND ({{node:String}} = '' OR node = {{node:String}})
    AND (NOT {{open:Bool}} OR state != 'closed')
ORDER BY fault_time DESC
LIMIT {{limit:UInt32}}
"""  # noqa: S608 - texts of our own; values are bound by the server
INCIDENT: Final = f"""
SELECT cluster, i.incident AS incident, run, state, result, result_cause, strategy, length(a.numbers) AS attempts, domain, code, node, chip,
    rule, reason, fault_time, opened_at, closed_at, epoch, paused, trigger, rulebook
FROM {{db}}.incidents AS i LEFT JOIN {_ATTEMPTS} AS a ON a.incident = i.incident WHERE i.incident = {{incident:String}}
"""  # noqa: S608 - as above
BUDGETS: Final = """
SELECT run, incidents, job_retries_used, job_retries_left, pod_retries_used, pod_retries_left, unconditional_chain, hang_chain
FROM {db}.jobs WHERE run IN (SELECT run FROM {db}.incidents WHERE incident = {incident:String})
"""
CHAIN: Final = f"""
SELECT at, link, nullIf(indexOf(a.numbers, c.attempt), 0) AS attempt, what, detail, event_id
FROM {{db}}.cause_chain AS c LEFT JOIN {_ATTEMPTS} AS a ON a.incident = c.incident
WHERE c.incident = {{incident:String}} ORDER BY at, ordinal
"""  # noqa: S608 - as above
INCIDENTS_LIKE: Final = """
SELECT DISTINCT incident FROM {db}.incidents WHERE startsWith(incident, {id:String}) ORDER BY incident LIMIT {limit:UInt32}
"""
PHASES: Final = f"""
SELECT nullIf(indexOf(a.numbers, p.attempt), 0) AS attempt, strategy, phase, seconds, state
FROM {{db}}.phases AS p LEFT JOIN {_ATTEMPTS} AS a ON a.incident = p.incident
WHERE p.incident = {{incident:String}} ORDER BY p.attempt, ordinal
"""  # noqa: S608 - as above
CONSIDERED: Final = """
SELECT at, verdict, rule, ladder_row, reason, flags, looked_at, trigger FROM {db}.explained WHERE incident = {incident:String} ORDER BY at
"""
JOBS: Final = """
SELECT run, name, namespace, epoch, size, supervised, paused, job_retries_used, job_retries_left, pod_retries_used, pod_retries_left,
    unconditional_chain, hang_chain, incidents, last_incident, ended
FROM {db}.jobs
WHERE {run:String} = '' OR run = {run:String} OR name = {run:String} OR length({run:String}) >= 6 AND startsWith(run, {run:String})
ORDER BY last_seen DESC LIMIT {limit:UInt32}
"""
NODES: Final = """
SELECT node, node_uid, held_for, since, answer, ready, cordoned, our_taint, faults_24h, incident, next_step
FROM {db}.node_standing
WHERE ({node:String} = '' OR node = {node:String}) AND (NOT {held:Bool} OR held_for != '')
ORDER BY node LIMIT {limit:UInt32}
"""
RUNS_MEANT: Final = """
SELECT id, max(called) AS name FROM
(
    SELECT run AS id, name AS called FROM {db}.jobs
    UNION ALL
    SELECT run, '' FROM {db}.incidents
)
WHERE id = {id:String} OR called = {id:String} OR length({id:String}) >= {least:UInt8} AND startsWith(id, {id:String})
GROUP BY id ORDER BY id = {id:String} DESC, name = {id:String} DESC, id LIMIT {limit:UInt32}
"""
NODES_MEANT: Final = """
SELECT node_uid, node FROM {db}.node_standing
WHERE node_uid = {id:String} OR node = {id:String} OR length({id:String}) >= {least:UInt8} AND startsWith(node_uid, {id:String})
ORDER BY node_uid = {id:String} DESC, node = {id:String} DESC, node_uid LIMIT {limit:UInt32}
"""
HOLDER: Final = """
SELECT held_for FROM {db}.node_standing WHERE node_uid = {node:String}
"""
EVENT: Final = """
SELECT event_time, kind, run, node, chip, code, state, detail, nullIf(exit_code, -1) AS exit_code, nullIf(exit_signal, 0) AS exit_signal,
    if(kind = 'process_exit', attempt >= 0, NULL) AS ordered_by_relight, source, trust, timequality
FROM {db}.signals_once WHERE event_id = {event:String}
"""
EXPLAINED: Final = """
SELECT at, subject, verdict, rule, ladder_row, mode, reason, incident, nullIf(count, -1) AS count, flags, looked_at, rulebook
FROM {db}.explained WHERE trigger = {event:String} ORDER BY at
"""
LIKE: Final = """
SELECT DISTINCT kind, id, trigger FROM
(
    SELECT 'event' AS kind, event_id AS id, event_id AS trigger FROM {db}.signals_once WHERE startsWith(event_id, {id:String})
    UNION ALL
    SELECT 'event', trigger AS id, trigger FROM {db}.explained WHERE startsWith(trigger, {id:String})
    UNION ALL
    SELECT 'decision', event_id AS id, trigger FROM {db}.explained WHERE startsWith(event_id, {id:String})
    UNION ALL
    SELECT 'incident', incident AS id, trigger FROM {db}.incidents WHERE startsWith(incident, {id:String})
)
ORDER BY id = {id:String} DESC, kind, id LIMIT {limit:UInt32}
"""


@contextmanager
def reader() -> Iterator[Store]:
    """The store as the reader's user; what goes wrong ends as one readable message."""
    from audit.errors import AuditError, StoreAway
    from audit.settings import AuditSettings
    from audit.store import Store
    from runtime.errors import ProcessError
    from runtime.settings import read_settings

    try:
        settings = read_settings(AuditSettings)
        try:
            opened = Store(settings.store, settings.store.reader, limits=LIMITS)
        except StoreAway as error:
            raise click.ClickException(f"{error}; {_WHERE}") from error
        with opened as store:
            yield store
    except (ProcessError, AuditError) as error:
        raise click.ClickException(str(error)) from error


def whole_incident(store: Store, given: str) -> str | None:
    """The id that was meant by the whole of it or by its beginning; nothing where there is none. Raises ClickException for several."""
    if ask(store, INCIDENT, incident=given)[1]:
        return given
    found = [str(one) for (one,) in _like(store, INCIDENTS_LIKE, given)]
    if len(found) > 1:
        raise several(given, found)
    return found[0] if found else None


def what_is(store: Store, given: str) -> tuple[str, str, str] | None:
    """Kind, id and trigger of what the whole or the beginning of an id stands for. Raises ClickException for several."""
    found = _like(store, LIKE, given)
    named = [row for row in found if row[1] == given] or found
    if len(named) > 1:
        raise several(given, [f"{kind} {one}" for kind, one, _ in named])
    return (str(named[0][0]), str(named[0][1]), str(named[0][2])) if named else None


def several(given: str, found: Sequence[str]) -> click.ClickException:
    """What to say where a beginning is that of several."""
    lines = [*map(plain, found[:CANDIDATES]), *(["..."] if len(found) > CANDIDATES else [])]
    return click.ClickException(
        f"{plain(given)} begins several ids; right would be one of\n  " + "\n  ".join(lines)
    )


def _like(store: Store, question: str, given: str) -> list[tuple[Any, ...]]:
    return ask(store, question, id=given, limit=CANDIDATES + 1)[1] if len(given) >= LEAST else []


def ask(store: Store, question: str, **parameters: Any) -> tuple[list[str], list[tuple[Any, ...]]]:  # noqa: ANN401 - bound by the server
    """Columns and rows of one of the questions above."""
    return store.table(question.replace("{db}", store.database), parameters)
