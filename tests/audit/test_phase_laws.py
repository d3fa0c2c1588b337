"""Laws of the phases over incident histories of every shape: what is measured sums to the RTO, and nothing unknown is called nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from audit.migrate import migrate
from audit.settings import StoreSettings
from audit.store import Store
from schemas.commands import StepName
from schemas.records import IncidentResult, IncidentState
from schemas.signals import MilestoneName
from tests.audit.story import Story, put

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
KEPT = ("in_place_recovery", "hang_restart")
MOVED = ("isolated_job_reschedule", "unconditional_job_reschedule", "pod_reschedule")
QUERY = """
SELECT r.incident, r.outcome, r.rto_seconds, r.rto_first_step_seconds, p.states, p.seconds
FROM laws.rto AS r
INNER JOIN
(
    SELECT incident, groupArray((attempt, phase, state)) AS states, groupArray(tuple(seconds)) AS seconds
    FROM (SELECT * FROM laws.phases ORDER BY incident, attempt, ordinal) GROUP BY incident
) AS p ON p.incident = r.incident
"""


@dataclass(frozen=True)
class History:
    """An incident as it may go: attempts with their strategies; where each failed one broke off; which words of the last one are missing."""

    strategies: tuple[str, ...]
    broke_at: tuple[int, ...]
    seed: int
    swapped: bool
    missing: frozenset[str]
    ending: str


histories = st.builds(
    History,
    strategies=st.lists(st.sampled_from(KEPT + MOVED), min_size=1, max_size=3).map(tuple),
    broke_at=st.tuples(*[st.integers(0, 4)] * 2),
    seed=st.integers(0, 2**32),
    swapped=st.booleans(),
    missing=st.frozensets(st.sampled_from(["loaded", "connected", "started"]), max_size=1),
    ending=st.sampled_from(["recovered", "recovered", "recovered", "stable_unknown", "open", "failed"]),
)


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    running = request.getfixturevalue("clickhouse")
    with Store(StoreSettings(port=running.port, database="laws"), StoreSettings().migrator) as made:
        migrate(made, lambda: datetime.now(UTC))
        yield made
        made.command("DROP DATABASE laws")


def tell(story: Story, number: int, history: History) -> None:
    """Boundaries one after the other; a failed attempt stops at its own place and the next is decided after it."""
    run, incident = f"run-{number}", f"inc-{number}"
    seeded = random.Random(history.seed)
    times = accumulate(round(seeded.uniform(0.001, 900), 3) for _ in range(40))
    trigger = story.fault(run, 0, id=f"fault-{number}")
    last = len(history.strategies)
    for attempt, strategy in enumerate(history.strategies, start=1):
        stop = 9 if attempt == last else history.broke_at[attempt - 1]
        decided = next(times)
        story.decision(run, incident, attempt, strategy, decided, trigger)
        story.state(incident, attempt, IncidentState.ACTING, decided, strategy=strategy)
        first = StepName.STOP_PROCESSES if strategy in (*KEPT, "pod_reschedule") else StepName.SUSPEND_JOB
        story.command(run, incident, attempt, first, 0, decided)
        told = boundaries(history if attempt == last else None, strategy)
        for name in told[: min(stop, len(told))]:
            say(story, run, incident, attempt, strategy, name, next(times))
    if history.ending != "open":
        result = {"recovered": IncidentResult.RECOVERED, "failed": IncidentResult.FAILED}
        ended = result.get(history.ending, IncidentResult.INCOMPLETE)
        story.state(
            incident, last, IncidentState.CLOSED, next(times), strategy=history.strategies[-1], result=ended
        )


def boundaries(history: History | None, strategy: str) -> list[str]:
    order = [
        "terminated",
        *([] if strategy in KEPT else ["scheduled", "started"]),
        "loaded",
        "connected",
        "stepped",
    ]
    if history is None:
        return order[:-1]
    if history.swapped:
        first, second = order.index("loaded"), order.index("connected")
        order[first], order[second] = order[second], order[first]
    if history.ending in {"open", "failed"}:
        return order[: order.index("stepped")]
    return [name for name in order if name not in history.missing] + ["stable"] * (
        history.ending == "recovered"
    )


def say(story: Story, run: str, incident: str, attempt: int, strategy: str, name: str, at: float) -> None:
    resumes = strategy not in (*KEPT, "pod_reschedule")
    if name == "terminated":
        step = StepName.RESUME_JOB if resumes else StepName.START_PROCESSES
        story.command(run, incident, attempt, step, 1, at)
    elif name == "scheduled":
        story.bound(run, at)
    else:
        named = {
            "started": MilestoneName.COMMAND_STARTED,
            "loaded": MilestoneName.CHECKPOINT_LOADED,
            "connected": MilestoneName.COMMUNICATION_READY,
            "stepped": MilestoneName.FIRST_STEP,
            "stable": MilestoneName.STABLE,
        }
        story.milestone(run, named[name], at, attempt=attempt)


@settings(
    max_examples=3,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a history is small enough to be read as it is
    suppress_health_check=[HealthCheck.large_base_example],
)
@given(told=st.lists(histories, min_size=20, max_size=60))
def test_phases_sum_to_the_recovery_time_and_what_is_unknown_is_said(
    told: list[History], store: Store
) -> None:
    for (table,) in store.rows(
        "SELECT name FROM system.tables WHERE database = 'laws' AND engine LIKE '%MergeTree' AND total_rows > 0"
    ):
        store.command(f"TRUNCATE TABLE laws.{table}")
    story = Story()
    story.release_default_rulebook()
    for number, history in enumerate(told):
        tell(story, number, history)
    put(store, story.records)

    found = store.rows(QUERY)

    assert len(found) == len(told)
    for incident, outcome, rto, _first_step, states, seconds in found:
        history = told[int(incident.removeprefix("inc-"))]
        check(history, outcome, rto, [tuple(state) for state in states], [value for (value,) in seconds])


def check(
    history: History,
    outcome: str,
    rto: float | None,
    states: list[tuple[Any, ...]],
    seconds: list[float | None],
) -> None:
    assert len(states) == 7 * len(history.strategies), history
    total = sum(value for value in seconds if value is not None)
    unknown = [state for *_, state in states if state in {"incomplete", "stable_unknown"}]
    # Nothing unknown has a length, and nothing that is known lacks one.
    for (*_, state), value in zip(states, seconds, strict=True):
        assert (value is None) == (state in {"incomplete", "stable_unknown", "not_reached"}), (history, state)
        assert value is None or value >= 0, history
        assert state != "not_applicable" or value == 0, history
    for attempt, phase, state in states:
        lacks = history.strategies[attempt - 1] in KEPT and phase in {"requeue", "warm_up"}
        assert (state == "not_applicable") == (lacks or (phase == "detection" and attempt > 1)), (
            history,
            phase,
        )
    expected = {"failed": "never"}.get(history.ending, history.ending)
    assert outcome == expected, history
    if outcome == "recovered":
        assert rto is not None
        if not unknown:
            assert abs(total - rto) < 1e-6, history
        else:
            assert missing_here(history), history
            assert total < rto + 1e-6, history
    else:
        assert rto is None
        assert unknown, history
    if outcome == "stable_unknown" and not missing_here(history):
        assert unknown == ["stable_unknown"], history


def missing_here(history: History) -> bool:
    return bool(history.missing - ({"started"} if history.strategies[-1] in KEPT else set()))
