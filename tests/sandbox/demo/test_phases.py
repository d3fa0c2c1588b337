"""The phases shown while a recovery runs are those that the record will have: one story before the events' reading and before the views."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from audit.migrate import migrate
from audit.settings import StoreSettings
from audit.store import Store
from sandbox.demo.phases import phases_of
from schemas.commands import StepName
from schemas.envelope import decode
from schemas.records import Incident, IncidentResult, IncidentState
from schemas.signals import MilestoneName
from tests.audit.story import START, Story, in_place, put

RUN = "run-1"
RANKS = 2
IN_PLACE, ELSEWHERE = "in_place_recovery", "isolated_job_reschedule"


def reach(story: Story, attempt: int, *reached: tuple[MilestoneName, float]) -> None:
    """Both ranks, the second half a second after the first."""
    for name, at in reached:
        for rank in range(RANKS):
            story.milestone(RUN, name, at + rank / 2, rank=rank, attempt=attempt)


def in_one_attempt(story: Story) -> None:
    in_place(story, RUN, "inc", (2, 12, 18, 15, 19, 30))


def with_another_one_after_a_failure(story: Story) -> None:
    """Told to stop, which failed; then made anew elsewhere. Attempts of the run have numbers above one already."""
    story.fault(RUN, 0, id="fault")
    story.decision(RUN, "inc", 4, IN_PLACE, 1.5, "fault")
    story.state("inc", 4, IncidentState.ACTING, 1.5)
    story.command(RUN, "inc", 4, StepName.STOP_PROCESSES, 0, 1.6)
    story.decision(RUN, "inc", 5, ELSEWHERE, 20, "fault")
    story.command(RUN, "inc", 5, StepName.SUSPEND_JOB, 0, 20.1)
    story.command(RUN, "inc", 5, StepName.RESUME_JOB, 1, 27)
    story.bound(RUN, 28)
    story.bound(RUN, 30, pod="pod-1")
    story.outcome(RUN, "inc", 5, StepName.RESUME_JOB, 1, 31)
    reach(
        story, 5, (MilestoneName.COMMAND_STARTED, 33), (MilestoneName.COMMUNICATION_READY, 36),
        (MilestoneName.CHECKPOINT_LOADED, 38), (MilestoneName.FIRST_STEP, 39),
    )  # fmt: skip
    story.bound(RUN, 45, pod="pod-2")
    story.state("inc", 5, IncidentState.STABILISING, 31, strategy=ELSEWHERE)
    story.state("inc", 5, IncidentState.CLOSED, 60, strategy=ELSEWHERE, result=IncidentResult.RECOVERED)


def without_a_word_of_the_checkpoint(story: Story) -> None:
    in_place(story, RUN, "inc", (2, 12, None, 18, 19, 30))


@pytest.fixture(scope="module")
def by_the_views(request: pytest.FixtureRequest) -> Callable[[Story], dict[str, float]]:
    """Seconds of each phase as the demo's table has them."""
    running = request.getfixturevalue("clickhouse")
    settings = StoreSettings(port=running.port, database="live_phases")

    def read(story: Story) -> dict[str, float]:
        with Store(settings, settings.migrator) as store:
            migrate(store, lambda: datetime.now(UTC))
            put(store, story.records)
            found = store.rows(
                "SELECT phase, sum(seconds) FROM live_phases.phases WHERE state != 'not_applicable' AND isNotNull(seconds) GROUP BY phase"
            )
            store.command("DROP DATABASE live_phases")
        return {phase: round(seconds, 3) for phase, seconds in found}

    return read


def by_events(story: Story, seconds: float = 99) -> dict[str, tuple[float, bool]]:
    """As the live view has them at that second of the story, each with whether it is over."""
    now = START + timedelta(seconds=seconds)
    told = [(decode(record.value), record.arrived) for record in story.records if record.value]
    heard = sorted(
        ((event, arrived) for event, arrived in told if arrived <= now), key=lambda one: one[0].time
    )
    incident = [event.data for event, _ in heard if isinstance(event.data, Incident)][-1]
    arrived = {event.id: at for event, at in heard}
    phases = phases_of([event for event, _ in heard], incident, RANKS, now, arrived)
    return {phase.name: (round(phase.seconds, 3), phase.over) for phase in phases}


@pytest.mark.slow
@pytest.mark.timeout(180)  # a store is made for each story
@pytest.mark.parametrize(
    "happens", [in_one_attempt, with_another_one_after_a_failure, without_a_word_of_the_checkpoint]
)
def test_live_phases_are_those_of_the_record(
    happens: Callable[[Story], None], by_the_views: Callable[[Story], dict[str, float]]
) -> None:
    story = Story()
    story.release_default_rulebook()
    happens(story)

    live = by_events(story)

    assert all(over for _, over in live.values())
    assert {name: seconds for name, (seconds, _) in live.items()} == by_the_views(story)


def test_a_failed_attempt_ends_where_the_next_one_was_decided() -> None:
    story = Story()
    with_another_one_after_a_failure(story)

    assert by_events(story) == {
        "detection": (1.5, True), "termination": (18.5 + 7, True), "requeue": (3, True), "warm_up": (3.5, True),
        "communication": (3, True), "checkpoint": (2, True), "stabilisation": (21.5, True),
    }  # fmt: skip


def test_while_it_runs_the_last_phase_goes_on_and_the_job_waits_for_pods_until_it_runs() -> None:
    story = Story()
    with_another_one_after_a_failure(story)

    assert by_events(story, 5) == {"detection": (1.5, True), "termination": (3.5, False)}
    assert by_events(story, 30.5)["requeue"] == (3.5, False)
    assert by_events(story, 33.2)["warm_up"] == (3.2, False)
    assert by_events(story, 40)["stabilisation"] == (1.5, False)
