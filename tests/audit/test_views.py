"""What analysts are promised: phases that sum to the RTO, what is missing told apart from what is nothing, the chain behind an incident."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, Literal

import pytest

from audit.migrate import migrate
from audit.settings import StoreSettings
from audit.store import Store
from recovery.annotations import JOB_RETRY_NUM, POD_RETRY_NUM, read_annotations
from rules.packaged import default_content
from schemas.cluster import POD_RETRIES_USED, RETRIES_USED
from schemas.commands import StepName
from schemas.facts import NodeSeen
from schemas.mailbox import HoldAnswer, HoldCause, HoldRequest, ReleaseNodeOrder
from schemas.records import (
    Considered,
    Counters,
    Decision,
    FaultDomain,
    IncidentResult,
    IncidentState,
)
from schemas.signals import HangEvidence, Milestone, MilestoneName, Placement, ProcessExit, RepairResult
from schemas.topics import DECISIONS, EXTERNAL_SIGNALS, INBOX, SIGNALS
from tests.audit.story import CHIP, NODE, START, Story, in_place, put

pytestmark = pytest.mark.slow
FILLED = (
    "SELECT name FROM system.tables WHERE database = 'views' AND engine LIKE '%MergeTree' AND total_rows > 0"
)
PHASES = ("detection", "termination", "requeue", "warm_up", "checkpoint", "communication", "stabilisation")


class Reader:
    def __init__(self, store: Store) -> None:
        self.store = store

    def __call__(self, statement: str) -> list[tuple[Any, ...]]:
        return self.store.rows(statement.replace("{db}", self.store.database))

    def phases(self, incident: str, attempt: int = 1) -> dict[str, tuple[float | None, str]]:
        rows = self(
            f"SELECT phase, seconds, state FROM {{db}}.phases WHERE incident = '{incident}' AND attempt = {attempt} ORDER BY ordinal"
        )
        assert len(rows) == 7
        return {phase: (seconds, state) for phase, seconds, state in rows}


@pytest.fixture
def story() -> Story:
    told = Story()
    told.release_default_rulebook()
    return told


@pytest.fixture(scope="module")
def migrated(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Making tables and views is what costs; each test empties them."""
    running = request.getfixturevalue("clickhouse")
    settings = StoreSettings(port=running.port, database="views")
    with Store(settings, settings.migrator) as store:
        migrate(store, lambda: datetime.now(UTC))
        yield store
        store.command("DROP DATABASE views")


@pytest.fixture
def read(migrated: Store, story: Story) -> Any:
    for (table,) in migrated.rows(FILLED):
        migrated.command(f"TRUNCATE TABLE views.{table}")

    def reader() -> Reader:
        put(migrated, story.records)
        return Reader(migrated)

    return reader


def test_an_in_place_recovery_is_measured_phase_by_phase_and_lacks_two(story: Story, read: Any) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))

    found = read()

    assert found.phases("inc-1") == {
        "detection": (2.0, "measured"),
        "termination": (10.0, "measured"),
        "requeue": (0.0, "not_applicable"),
        "warm_up": (0.0, "not_applicable"),
        "checkpoint": (3.0, "measured"),
        "communication": (3.0, "measured"),
        "stabilisation": (12.0, "measured"),
    }
    assert found("SELECT rto_seconds, rto_first_step_seconds, outcome, strategy, code FROM {db}.rto") == [
        (30.0, 19.0, "recovered", "in_place_recovery", "ascend/80E01801")
    ]


def test_communication_before_checkpoint_is_as_good(story: Story, read: Any) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 18, 15, 19, 30))

    phases = read().phases("inc-1")

    assert phases["communication"] == (3.0, "measured")
    assert phases["checkpoint"] == (3.0, "measured")


def test_a_boundary_nobody_told_is_incomplete_and_never_nothing(story: Story, read: Any) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, None, 18, 19, 30))

    found = read()
    phases = found.phases("inc-1")

    assert phases["checkpoint"] == (None, "incomplete")
    assert phases["communication"] == (None, "incomplete")
    assert phases["termination"] == (10.0, "measured")
    assert found("SELECT rto_seconds FROM {db}.rto") == [(30.0,)]


def test_stable_without_a_baseline_is_unknown_and_the_first_step_has_its_own_name(
    story: Story, read: Any
) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, None))

    found = read()

    assert found.phases("inc-1")["stabilisation"] == (None, "stable_unknown")
    assert found("SELECT outcome, rto_seconds, rto_first_step_seconds FROM {db}.rto") == [
        ("stable_unknown", None, 19.0)
    ]


def test_a_failed_attempt_stays_inside_the_incident(story: Story, read: Any) -> None:
    run, incident = "run-1", "inc-1"
    trigger = story.fault(run, 0)
    story.decision(run, incident, 1, "in_place_recovery", 2, trigger)
    story.state(incident, 1, IncidentState.ACTING, 2)
    story.command(run, incident, 1, StepName.STOP_PROCESSES, 0, 2)
    story.decision(run, incident, 2, "unconditional_job_reschedule", 60)
    story.command(run, incident, 2, StepName.SUSPEND_JOB, 0, 60)
    story.command(run, incident, 2, StepName.RESUME_JOB, 1, 75)
    story.outcome(run, incident, 2, StepName.RESUME_JOB, 1, 80)
    for name, at in (
        (MilestoneName.COMMAND_STARTED, 90),
        (MilestoneName.CHECKPOINT_LOADED, 95),
        (MilestoneName.COMMUNICATION_READY, 97),
        (MilestoneName.FIRST_STEP, 98),
        (MilestoneName.STABLE, 120),
    ):
        story.milestone(run, name, at, attempt=0)  # as new pods tell, which no order has reached yet
    story.state(
        incident,
        2,
        IncidentState.CLOSED,
        120,
        strategy="unconditional_job_reschedule",
        result=IncidentResult.RECOVERED,
    )

    found = read()
    first, second = found.phases(incident, 1), found.phases(incident, 2)

    assert first["detection"] == (2.0, "measured")
    assert first["termination"] == (58.0, "failed")
    assert first["checkpoint"] == (None, "not_reached")
    assert second["detection"] == (0.0, "not_applicable")
    assert [second[phase][0] for phase in PHASES[1:]] == [15.0, 5.0, 10.0, 5.0, 2.0, 23.0]
    total = sum(seconds or 0 for phases in (first, second) for seconds, _ in phases.values())
    assert total == 120.0
    assert found("SELECT rto_seconds, attempts FROM {db}.rto") == [(120.0, 2)]


def test_phases_sum_to_the_recovery_time_whatever_the_times(story: Story, read: Any) -> None:
    seeded = random.Random(20260301)
    for number in range(120):
        times = sorted(round(seeded.uniform(0.001, 900), 6) for _ in range(6))
        if seeded.random() < 0.5:
            times[2], times[3] = times[3], times[2]
        in_place(story, f"run-{number}", f"inc-{number}", times)

    found = read()(
        """SELECT p.incident, p.total, r.rto_seconds, p.unknown FROM
        (SELECT incident, sum(seconds) AS total, countIf(isNull(seconds)) AS unknown FROM {db}.phases GROUP BY incident) AS p
        INNER JOIN {db}.rto AS r ON r.incident = p.incident"""
    )

    assert len(found) == 120
    assert all(unknown == 0 and abs(total - rto) < 1e-6 for _, total, rto, unknown in found)


def test_open_and_never_recovered_incidents_are_counted_apart(story: Story, read: Any) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    story.fault("run-2", 0)
    story.decision("run-2", "inc-2", 1, "in_place_recovery", 2)
    story.state("inc-2", 1, IncidentState.ACTING, 2)
    story.command("run-2", "inc-2", 1, StepName.STOP_PROCESSES, 0, 2)
    story.decision("run-3", "inc-3", 1, "in_place_recovery", 2)
    story.command("run-3", "inc-3", 1, StepName.STOP_PROCESSES, 0, 2)
    story.state("inc-3", 1, IncidentState.CLOSED, 90, result=IncidentResult.FAILED)

    found = read()("SELECT recovered, open, never_recovered, rto_p50 FROM {db}.rto_by_strategy")

    assert found == [(1, 1, 1, 30.0)]


def test_what_was_lost_counts_from_the_begin_of_the_save(story: Story, read: Any) -> None:
    for step in range(1, 9):
        story.progress("run-1", step, -10 + step)
    story.checkpoint("run-1", "begin", 5, -6)
    story.checkpoint("run-1", "end", 5, -4)
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    story.checkpoint("run-1", "restored", 5, 15)

    found = read()("SELECT step_at_fault, step_restored, rpo_steps, rpo_seconds FROM {db}.rpo")

    assert found == [(8, 5, 3, 6.0)]


def test_the_chain_of_an_incident_leads_from_the_evidence_to_stable(story: Story, read: Any) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))

    rows = read()(
        "SELECT link, what, rulebook FROM {db}.cause_chain WHERE incident = 'inc-1' ORDER BY at, ordinal"
    )
    links = [link for link, _, _ in rows]

    assert links[0] == "evidence"
    assert links.index("decision") < links.index("command") < links.index("write") <= links.index("outcome")
    assert rows[-1][0] == "state"
    assert ("milestone", "stable") in [(link, what) for link, what, _ in rows]
    assert all(rulebook == story.rulebook for link, _, rulebook in rows if link == "decision")
    assert "told 4 pods to stop" in [what for _, what, _ in rows]


ASKED_FOR = HoldRequest(
    node=NODE,
    run="run-1",
    incident="inc-1",
    attempt=1,
    cause=HoldCause(
        namespace="ascend", code="80E01801", chip=CHIP, evidence="e", ladder_class="isolate", seen_at=START
    ),
    reason="third in 24 h",
    rule="repeats",
)
STANDING = "SELECT held_for, isNull(since), answer, incident, next_step != '' FROM {db}.node_standing"


def ask_to_hold(story: Story, incident: str, at: float, answer: Literal["held", "refused"] | None) -> None:
    request = ASKED_FOR.model_copy(update={"incident": incident})
    story.tell(INBOX, f"node/{NODE.uid}", request, at)
    if answer:
        given = HoldAnswer(node=NODE, incident=incident, attempt=1, answer=answer)
        story.tell(INBOX, "run/run-1", given, at + 1)


def test_why_a_node_was_isolated_is_answered(story: Story, read: Any) -> None:
    ask_to_hold(story, "inc-1", 5, "held")

    found = read()(
        "SELECT what, node, run, code, chip, answer, reason FROM {db}.isolation_history ORDER BY at"
    )

    assert found == [
        ("hold_request", "node-1", "run-1", "ascend/80E01801", "SN-1", "", "third in 24 h"),
        ("hold_answer", "node-1", "run-1", "", "", "held", ""),
    ]


def test_a_node_that_was_released_stands_as_one_nobody_asked_for(story: Story, read: Any) -> None:
    story.tell(SIGNALS, f"node/{NODE.uid}", NodeSeen(node=NODE, ready=True), 0)
    ask_to_hold(story, "inc-1", 5, "held")
    before = read()(STANDING)
    story.tell(INBOX, f"node/{NODE.uid}", ReleaseNodeOrder(by="sre", reason="repaired"), 10)
    released = read()(STANDING)
    ask_to_hold(story, "inc-2", 15, None)
    asked_anew = read()(STANDING)
    story.tell(INBOX, f"node/{NODE.uid}", ReleaseNodeOrder(by="sre", reason="repaired"), 20)
    own = Decision(
        verdict="hold", rule="lemon", row="4", reason="third", rulebook="r", trigger="t", trigger_time=START,
        domain=FaultDomain.NODE, code="ascend/80E01801",
    )  # fmt: skip
    story.tell(DECISIONS, f"node/{NODE.uid}", own, 25)
    held_by_itself = read()(STANDING)

    assert before == [("ascend/80E01801", 0, "held", "inc-1", 1)]
    assert released == [("", 1, "", "", 0)]
    assert asked_anew == [("ascend/80E01801", 0, "", "inc-2", 1)]
    assert held_by_itself == [("ascend/80E01801", 0, "", "", 1)]


def test_a_hold_that_was_refused_says_so(story: Story, read: Any) -> None:
    story.tell(SIGNALS, f"node/{NODE.uid}", NodeSeen(node=NODE, ready=True), 0)
    ask_to_hold(story, "inc-1", 5, "refused")

    assert read()(STANDING) == [("", 1, "refused", "inc-1", 0)]


BUDGETS = "SELECT job_retries_used, job_retry_num, job_retries_left, pod_retries_used, pod_retry_num, pod_retries_left FROM {db}.jobs"


@pytest.mark.parametrize(
    ("annotations", "job", "pod"),
    [
        ({JOB_RETRY_NUM: "3"}, (0, 3, 3), (0, None, None)),
        ({JOB_RETRY_NUM: " 128 ", POD_RETRY_NUM: "2"}, (0, 128, 128), (0, 2, 2)),
        ({JOB_RETRY_NUM: "3", RETRIES_USED: "2", POD_RETRY_NUM: "1", POD_RETRIES_USED: "4"}, (2, 3, 1), (4, 1, 0)),
        ({JOB_RETRY_NUM: "129", POD_RETRY_NUM: "two"}, (0, 0, 0), (0, None, None)),
        ({}, (0, 0, 0), (0, None, None)),
    ],
)  # fmt: skip
def test_before_the_first_decision_a_budget_is_what_the_job_asks_for(
    story: Story, read: Any, annotations: dict[str, str], job: tuple[int, ...], pod: tuple[int | None, ...]
) -> None:
    story.seen("run-1", 0, annotations=annotations)

    assert read()(BUDGETS) == [(*job, *pod)]
    wished = read_annotations(annotations, pod_retry_default=0)
    assert (job[1], pod[1] or 0) == (wished.job_retry_num, wished.pod_retry_num)


def test_a_decision_that_tells_no_counters_changes_no_budget(story: Story, read: Any) -> None:
    story.seen("run-1", 0, annotations={JOB_RETRY_NUM: "3", POD_RETRY_NUM: "2"})
    story.decision("run-1", "inc-0", 0, "record", 1)
    told_nothing = read()(BUDGETS)
    counters = Counters(job_retries_used=1, job_retry_num=3, pod_retries_used=1, pod_retry_num=5)
    story.decision("run-1", "inc-1", 1, "in_place_recovery", 2, counters=counters)
    story.decision("run-1", "inc-1", 1, "record", 3)
    counted = read()(BUDGETS)

    assert told_nothing == [(0, 3, 3, 0, 2, 2)]
    assert counted == [(1, 3, 2, 1, 5, 4)]


@pytest.mark.parametrize(
    ("end", "what"),
    [
        ({"exit_code": 1, "rank": 1, "node": NODE}, "process_exit code 1 of rank 1 on node-1"),
        ({"exit_code": 0, "rank": 0}, "process_exit code 0 of rank 0"),
        ({"exit_code": 0, "signal": 15, "node": NODE}, "process_exit signal 15 on node-1"),
        ({"exit_code": 137, "signal": 9, "oom": True, "rank": 2}, "process_exit signal 9 (out of memory) of rank 2"),
    ],
)  # fmt: skip
def test_an_end_in_the_chain_says_how_and_of_which_rank_as_far_as_it_is_known(
    story: Story, read: Any, end: dict[str, Any], what: str
) -> None:
    where = Placement(run="run-1", rank=end.pop("rank", None))
    story.tell(SIGNALS, "run/run-1", ProcessExit(placement=where, start=1, **end), 0, id="end")
    story.decision("run-1", "inc-1", 1, "in_place_recovery", 1, "end")

    assert read()("SELECT what FROM {db}.cause_chain WHERE link = 'evidence'") == [(what,)]


def test_a_fault_in_the_chain_has_no_gap_where_nothing_is_known(story: Story, read: Any) -> None:
    story.fault("run-1", 0, id="fault")
    story.tell(
        SIGNALS,
        "run/run-1",
        HangEvidence(placement=Placement(run="run-1"), state="stalled", method="steps", last_progress=START),
        1,
        id="hang",
    )
    story.decision("run-1", "inc-1", 1, "in_place_recovery", 2, "fault")
    story.decision("run-1", "inc-1", 1, "merge", 3, "hang")

    found = read()("SELECT what FROM {db}.cause_chain WHERE link = 'evidence' ORDER BY at")

    assert found == [("chip_fault ascend/80E01801 on node-1 chip SN-1",), ("hang",)]


def test_a_decision_by_no_row_of_the_ladder_names_none(story: Story, read: Any) -> None:
    rule, row = (
        Considered(rule=rule, row=row, outcome="not_matched") for rule, row in (("gap", ""), ("repeats", "4"))
    )
    decision = Decision(
        verdict="record", rule="gap", row="", reason="late", rulebook="r", trigger="t", trigger_time=START,
        incident="inc-1", domain=FaultDomain.POD, considered=(rule, row),
    )  # fmt: skip
    story.tell(DECISIONS, "run/run-1", decision, 1)

    found = read()
    assert found("SELECT what FROM {db}.cause_chain WHERE link = 'decision'") == [("record by gap",)]
    assert found("SELECT looked_at FROM {db}.explained") == [
        (["gap: not_matched", "repeats (row 4): not_matched"],)
    ]


def test_clocks_that_disagree_are_flagged_and_the_sum_still_holds(story: Story, read: Any) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 14, 18, 19, 17.5))

    found = read()
    phases = found.phases("inc-1")

    assert phases["stabilisation"] == (-0.5, "clock_skew")
    assert sum(seconds or 0 for seconds, _ in phases.values()) == pytest.approx(17.5)


def test_every_column_of_every_table_says_what_it_is(read: Any) -> None:
    silent = read()(
        "SELECT table, name FROM system.columns WHERE database = '{db}' AND comment = '' AND table != 'schema_migrations'"
        " AND table IN (SELECT name FROM system.tables WHERE database = '{db}' AND engine LIKE '%MergeTree')"
    )

    assert silent == []
    assert read()(
        "SELECT count(), countIf(comment = '') FROM system.columns WHERE database = '{db}' AND table = 'productive_share'"
    ) == [(14, 0)]


def test_an_incident_that_relight_itself_judged_stable_ends_when_it_was_closed(
    story: Story, read: Any
) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, None))
    story.records = [r for r in story.records if b'"result":"incomplete"' not in (r.value or b"")]
    story.state("inc-1", 1, IncidentState.CLOSED, 33, result=IncidentResult.RECOVERED)

    found = read()

    assert found.phases("inc-1")["stabilisation"] == (15.0, "measured")
    assert found("SELECT rto_seconds, outcome FROM {db}.rto") == [(33.0, "recovered")]


def test_supervisor_watcher_and_training_process_each_end_their_phases(story: Story, read: Any) -> None:
    run, incident = "run-1", "inc-1"
    story.decision(run, incident, 1, "isolated_job_reschedule", 2, story.fault(run, 0))
    story.state(incident, 1, IncidentState.ACTING, 2)
    story.command(run, incident, 1, StepName.SUSPEND_JOB, 0, 2)
    story.command(run, incident, 1, StepName.RESUME_JOB, 1, 15)
    for pod, at in (("pod-0", 17), ("pod-1", 21)):  # the watcher: the last one counts
        story.bound(run, at, pod=pod)
    for rank, at in ((0, 26), (1, 30)):  # supervisors: the last one counts
        story.milestone(run, MilestoneName.COMMAND_STARTED, at, rank=rank)
    story.outcome(
        run, incident, 1, StepName.RESUME_JOB, 1, 33
    )  # every pod runs: later than every pod is bound
    for name, at in (
        (MilestoneName.CHECKPOINT_LOADED, 40),
        (MilestoneName.COMMUNICATION_READY, 44),
        (MilestoneName.FIRST_STEP, 45),
        (MilestoneName.STABLE, 60),
    ):  # the training process
        story.milestone(run, name, at)
    story.bound(run, 58, pod="pod-1")  # a pod that moves later ends no phase
    story.state(incident, 1, IncidentState.CLOSED, 60, result=IncidentResult.RECOVERED)

    phases = read().phases(incident)

    assert [phases[name] for name in PHASES] == [
        (seconds, "measured") for seconds in (2.0, 13.0, 6.0, 9.0, 10.0, 4.0, 16.0)
    ]


def test_other_systems_set_no_milestone(story: Story, read: Any) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, None))
    placement = Placement(run="run-1", rank=0)
    story.tell(EXTERNAL_SIGNALS, "run/run-1", Milestone(placement=placement, name=MilestoneName.STABLE), 30)

    assert read()("SELECT outcome, rto_seconds FROM {db}.rto") == [("stable_unknown", None)]


def test_a_run_that_was_set_back_lost_what_it_had_since_and_not_what_it_lost_before(
    story: Story, read: Any
) -> None:
    for step, at in ((1000, -50), (500, -40), (501, -30), (530, -1)):
        story.progress("run-1", step, at)
    story.checkpoint("run-1", "begin", 520, -11)
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    story.checkpoint("run-1", "restored", 520, 15)

    assert read()("SELECT step_at_fault, rpo_steps, rpo_seconds FROM {db}.rpo") == [(530, 10, 11.0)]


def test_other_systems_move_no_recovery_point_that_the_run_told_itself(story: Story, read: Any) -> None:
    story.progress("run-1", 8, -2)
    story.checkpoint("run-1", "begin", 5, -6)
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    story.checkpoint("run-1", "restored", 5, 15)
    story.checkpoint("run-1", "begin", 5, -1, topic=EXTERNAL_SIGNALS)
    story.checkpoint("run-1", "begin", 8, -1, topic=EXTERNAL_SIGNALS)
    story.checkpoint("run-1", "restored", 8, 13, topic=EXTERNAL_SIGNALS)

    found = read()("SELECT step_at_fault, step_restored, rpo_steps, rpo_seconds, told_by FROM {db}.rpo")

    assert found == [(8, 5, 3, 6.0, "run")]


def test_where_only_other_systems_tell_of_checkpoints_it_is_said(story: Story, read: Any) -> None:
    story.progress("run-1", 8, -2)
    story.checkpoint("run-1", "begin", 5, -6, topic=EXTERNAL_SIGNALS)
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    story.checkpoint("run-1", "restored", 5, 15, topic=EXTERNAL_SIGNALS)

    assert read()("SELECT rpo_steps, rpo_seconds, told_by FROM {db}.rpo") == [(3, 6.0, "other_system")]


SHARES = """
SELECT month, counted_from, incidents, wall_seconds, waiting_seconds, recovering_seconds, redone_seconds, productive_seconds,
       round(productive_share, 6), round(productive_share_once_started, 6)
FROM {db}.productive_share ORDER BY month
"""


def test_the_productive_share_leaves_out_waiting_recovering_and_what_was_done_again(
    story: Story, read: Any
) -> None:
    story.seen("run-1", -1000)
    story.progress("run-1", 1, -900)
    story.checkpoint("run-1", "begin", 5, -60)
    story.progress("run-1", 8, -1)
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    story.checkpoint("run-1", "restored", 5, 15)
    story.ended("run-1", 500)

    assert read()(SHARES) == [
        (date(2026, 3, 1), "first_step", 1, 1500.0, 100.0, 30.0, 60.0, 1310.0, 0.873333, 0.935714)
    ]


def test_time_that_two_recoveries_lost_is_lost_once(story: Story, read: Any) -> None:
    story.seen("run-1", -1000)
    story.progress("run-1", 1, -900)
    story.checkpoint("run-1", "begin", 5, -60)
    story.progress("run-1", 8, -1)
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    story.checkpoint("run-1", "restored", 5, 15)
    story.progress("run-1", 6, 35)
    story.decision("run-1", "inc-2", 1, "in_place_recovery", 42)
    story.command("run-1", "inc-2", 1, StepName.STOP_PROCESSES, 0, 42)
    story.checkpoint("run-1", "restored", 5, 55)  # set back behind the first fault once more
    story.milestone("run-1", MilestoneName.FIRST_STEP, 60, attempt=1)
    story.milestone("run-1", MilestoneName.STABLE, 70, attempt=1)
    story.state(
        "inc-2", 1, IncidentState.CLOSED, 70, result=IncidentResult.RECOVERED, fault_time=40, opened=41
    )
    story.ended("run-1", 500)

    assert read()(SHARES) == [
        (date(2026, 3, 1), "first_step", 2, 1500.0, 100.0, 60.0, 70.0, 1270.0, 0.846667, 0.907143)
    ]


def test_a_run_over_a_month_s_end_has_a_row_in_each(story: Story, read: Any) -> None:
    midnight = -12 * 3600
    story.seen("run-1", midnight - 1000)
    story.milestone("run-1", MilestoneName.COMMAND_STARTED, midnight - 950)
    story.milestone("run-1", MilestoneName.FIRST_STEP, midnight - 900)
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    story.ended("run-1", 800)

    assert [row[:8] for row in read()(SHARES)] == [
        (date(2026, 2, 1), "first_step", 0, 1000.0, 100.0, 0.0, 0.0, 900.0),
        (date(2026, 3, 1), "first_step", 1, 44000.0, 0.0, 30.0, 0.0, 43970.0),
    ]


def test_a_run_that_tells_no_step_counts_from_what_is_known(story: Story, read: Any) -> None:
    story.seen("run-1", 0)
    story.bound("run-1", 40)
    story.ended("run-1", 100)
    story.seen("run-2", 0)
    story.ended("run-2", 100)

    found = read()(
        "SELECT counted_from, waiting_seconds, productive_share FROM {db}.productive_share ORDER BY run"
    )

    assert found == [("pod_bound", 40.0, 0.6), ("nothing", 100.0, 0.0)]


def test_a_chip_s_history_holds_its_faults_and_what_came_of_its_repairs(story: Story, read: Any) -> None:
    story.fault("run-1", 0)
    repair = RepairResult(node=NODE, unit=CHIP.id, incident="inc-1", attempt=1, result="healed")
    story.tell(SIGNALS, f"node/{NODE.uid}", repair, 20)

    found = read()(
        f"SELECT kind, what, incident FROM {{db}}.asset_history WHERE asset = '{CHIP.id}' ORDER BY at"
    )

    assert found == [("chip_fault", "asserted", ""), ("repair_result", "healed", "inc-1")]


def test_recovery_times_are_told_by_class_of_the_rulebook(story: Story, read: Any) -> None:
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    codes = default_content()["codes"]
    (wanted,) = {
        code["class"] for code in codes if (code["namespace"], code["code"]) == ("ascend", "80E01801")
    }

    found = read()("SELECT strategy, class, cluster, recovered FROM {db}.rto_by_strategy")

    assert found == [("in_place_recovery", wanted, "lab", 1)]
