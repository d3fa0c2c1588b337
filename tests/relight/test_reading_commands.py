"""`relight incidents`, `jobs`, `nodes`, `explain`, `sql` on the real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from audit.migrate import migrate
from audit.settings import StoreSettings
from audit.store import Store
from relight.cli import main
from sandbox.clickhouse import ClickHouse
from schemas.commands import StepName
from schemas.facts import NodeSeen, RunSeen, WorkloadKind
from schemas.mailbox import HoldAnswer, HoldCause, HoldRequest, PauseOrder, ResumeOrder
from schemas.records import Considered, Decision, FaultDomain, IncidentState
from schemas.signals import Placement, ProcessExit
from schemas.topics import DECISIONS, INBOX, SIGNALS
from tests.audit.story import CHIP, NODE, START, Story, in_place, put

pytestmark = pytest.mark.slow


def told() -> Story:
    story = Story()
    story.release_default_rulebook()
    seen = RunSeen(
        run="run-1",
        workload=WorkloadKind.JOB,
        namespace="team",
        name="llama",
        object_uid="run-1",
        epoch=1,
        size=4,
        supervised=True,
        annotations={"fault-tolerance/job-retry-num": "3"},
    )
    story.tell(SIGNALS, "run/run-1", seen, 0)
    in_place(story, "run-1", "inc-1", (2, 12, 15, 18, 19, 30))
    cause = HoldCause(
        namespace="ascend", code="80E01801", chip=CHIP, evidence="e", ladder_class="isolate", seen_at=START
    )
    request = HoldRequest(
        node=NODE, run="run-1", incident="inc-1", attempt=1, cause=cause, reason="third", rule="repeats"
    )
    story.tell(SIGNALS, f"node/{NODE.uid}", NodeSeen(node=NODE, ready=True, cordoned=True, our_taint=True), 5)
    story.tell(INBOX, f"node/{NODE.uid}", request, 5)
    asked = Decision(  # the node's own word on a run's request: it names no code
        verdict="hold",
        rule="repeats",
        row="4",
        reason="asked by run run-1: third",
        rulebook="r",
        trigger="t",
        trigger_time=START,
        domain=FaultDomain.NODE,
    )
    story.tell(DECISIONS, f"node/{NODE.uid}", asked, 5.5)
    story.tell(INBOX, "run/run-1", HoldAnswer(node=NODE, incident="inc-1", attempt=1, answer="held"), 6)
    return story


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest) -> Iterator[Store]:
    """The story in a database of this file's own; tests that write use other runs and nodes."""
    running = request.getfixturevalue("clickhouse")
    settings = StoreSettings(port=running.port, database="reading")
    with Store(settings, settings.migrator) as store:
        migrate(store, lambda: datetime.now(UTC))
        put(store, told().records)
        yield store
        store.command("DROP DATABASE reading")


TWINS = ("4f1c2a09aaaa4aaaaaaaaaaaaaaaaaaa", "4f1c2a09bbbb4bbbbbbbbbbbbbbbbbbb")
"""Incidents whose ids begin alike, as the ids of a year's worth may."""


@pytest.fixture(scope="module")
def twins(filled: Store) -> tuple[str, str]:
    """Two more incidents in the record, of one run; the first decided by the event `fault-` and its id."""
    story = Story(offsets={"incidents.v1": 200, "decisions.v1": 200, "signals.v1": 200})
    for incident in TWINS:
        story.decision("7f0c1d2e-0000-4000-8000-00000000000a", incident, 1, "in_place_recovery", 2)
        story.state(incident, 1, IncidentState.ACTING, 2)
    put(filled, story.records)
    return TWINS


@pytest.fixture
def relight(filled: Store, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("RELIGHT_STORE__PORT", str(clickhouse.port))
    monkeypatch.setenv("RELIGHT_STORE__DATABASE", filled.database)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments)

    return run


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_incidents_are_listed_and_chosen_by_run_node_and_state(relight: Any) -> None:
    (found,) = rows(relight("incidents", "list", "-o", "json"))

    assert (found["incident"], found["result"], found["run"], found["node"]) == (
        "inc-1",
        "recovered",
        "run-1",
        "node-1",
    )
    assert rows(relight("incidents", "list", "--run", "run-1", "-o", "json")) == [found]
    assert rows(relight("incidents", "list", "--run", "other", "-o", "json")) == []
    assert rows(relight("incidents", "list", "--open", "-o", "json")) == []


def test_one_incident_is_shown_with_its_phases_chain_and_what_was_considered(relight: Any) -> None:
    result = relight("incidents", "show", "inc-1")

    assert result.exit_code == 0, result.output
    for expected in (
        "termination",
        "not_applicable",
        "told 4 pods to stop",
        "in_place_recovery",
        "row 6",
        "recovered",
    ):
        assert expected in result.output


def test_attempts_are_counted_within_their_incident_and_the_runs_budget_stands_apart(
    relight: Any, filled: Store
) -> None:
    story = Story(
        offsets=dict.fromkeys(("incidents.v1", "decisions.v1", "commands.v1", "inbox.v1", "signals.v1"), 400)
    )
    story.decision("run-a", "third-of-run", 0, "attribute", 1)
    for number, step in ((7, StepName.STOP_PROCESSES), (9, StepName.SUSPEND_JOB)):
        story.decision("run-a", "third-of-run", number, "in_place_recovery", number)
        story.command("run-a", "third-of-run", number, step, 0, number)
    story.state("third-of-run", 9, IncidentState.ACTING, 9)
    put(filled, story.records)

    (listed,) = rows(relight("incidents", "list", "--run", "run-a", "-o", "json"))
    shown = rows(relight("incidents", "show", "third-of-run", "-o", "json"))
    of_the_run = rows(relight("incidents", "show", "inc-1", "-o", "json"))[1]

    assert (listed["attempts"], shown[0]["attempts"]) == (2, 2)
    assert {row["attempt"] for row in shown if "phase" in row} == {1, 2}
    assert [(row["what"], row["attempt"]) for row in shown if row.get("link") in {"command", "decision"}] == [
        ("attribute by self-heal (row 6)", None), ("in_place_recovery by self-heal (row 6)", 1),
        ("begin stop_processes", 1), ("in_place_recovery by self-heal (row 6)", 2), ("begin suspend_job", 2),
    ]  # fmt: skip
    assert (of_the_run["run"], of_the_run["job_retries_used"], of_the_run["incidents"]) == ("run-1", 0, 1)
    assert "its run so far" in relight("incidents", "show", "inc-1").output


def test_an_incident_nobody_knows_is_an_error_that_says_so(relight: Any) -> None:
    result = relight("incidents", "show", "nope\x1b[2J")

    assert result.exit_code == 1
    assert "no incident" in result.output
    assert "\x1b" not in result.output


def test_jobs_show_counters_and_budgets(relight: Any) -> None:
    (found,) = rows(relight("jobs", "llama", "-o", "json"))

    assert (found["run"], found["namespace"], found["size"], found["incidents"], found["last_incident"]) == (
        "run-1",
        "team",
        4,
        1,
        "inc-1",
    )
    assert (found["job_retries_left"], found["pod_retries_left"]) == (3, None)
    (listed,) = (line for line in relight("jobs").output.splitlines() if " llama " in line)
    assert [cell.strip() for cell in listed.strip("│").split("│")][4:6] == ["3", "-"]


def test_nodes_say_for_what_they_are_held_and_what_comes_next(relight: Any) -> None:
    (found,) = rows(relight("nodes", "--held", "-o", "json"))

    assert (found["node"], found["held_for"], found["answer"]) == ("node-1", "ascend/80E01801", "held")
    assert "benchmark" in found["next_step"]


def test_an_event_is_explained_by_the_decision_about_it(
    relight: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.tables._WIDTH_WITHOUT_TERMINAL", 80)
    result = relight("explain", "fault-inc-1")

    assert result.exit_code == 0, result.output
    assert "in_place_recovery" in result.output
    assert relight("explain", "unheard-of").exit_code == 1
    found = rows(relight("explain", "fault-inc-1", "-o", "json"))
    assert [(row.get("kind"), row.get("verdict")) for row in found] == [
        ("chip_fault", None),
        (None, "in_place_recovery"),
    ]


def test_an_end_of_a_process_is_explained_with_its_code_and_whether_relight_ordered_it(
    relight: Any, filled: Store
) -> None:
    story = Story(offsets={"signals.v1": 800})
    where = Placement(run="run-e", rank=0)
    for name, end in (
        ("crashed", ProcessExit(placement=where, start=1, exit_code=17)),
        ("stopped-as-told", ProcessExit(placement=where, start=2, exit_code=0, signal=15, ordered_attempt=4)),
    ):
        story.tell(SIGNALS, "run/run-e", end, 1, id=name)
    put(filled, story.records)

    crashed, stopped = (
        rows(relight("explain", name, "-o", "json"))[0] for name in ("crashed", "stopped-as-told")
    )

    assert (crashed["exit_code"], crashed["exit_signal"], crashed["ordered_by_relight"]) == (17, None, 0)
    assert (stopped["exit_signal"], stopped["ordered_by_relight"]) == (15, 1)
    assert "exit_code" not in relight("explain", "fault-inc-1").output


def test_what_a_decision_does_not_have_is_not_shown_of_it(relight: Any, filled: Store) -> None:
    story = Story(offsets={"decisions.v1": 900})
    for trigger, row, count in (("counted", "4", 3), ("late", "", None)):
        decision = Decision(
            verdict="record", rule="gap", row=row, reason="late", rulebook="r", trigger=trigger, trigger_time=START, count=count,
            domain=FaultDomain.POD, considered=(Considered(rule="gap", row=row, outcome="matched"),),
        )  # fmt: skip
        story.tell(DECISIONS, "run/run-l", decision, 1)
    put(filled, story.records)

    counted, late = relight("explain", "counted").output, relight("explain", "late").output

    assert "gap (row 4): matched" in counted
    assert "gap: matched" in late
    shown = {line.strip("│ ").split("│")[0].strip() for line in late.splitlines()}
    assert {"verdict", "rule", "flags"} <= shown
    assert not {"count", "ladder_row"} & shown
    assert "-1" not in late
    assert {"count", "ladder_row"} <= {
        line.strip("│ ").split("│")[0].strip() for line in counted.splitlines()
    }
    assert rows(relight("explain", "late", "-o", "json"))[0]["count"] is None


def test_sql_reads_and_nothing_else(relight: Any) -> None:
    question = (
        "SELECT recovered FROM reading.rto_by_strategy WHERE strategy = 'in_place_recovery' AND recovered > 0"
    )

    assert rows(relight("sql", question, "-o", "json")) == [{"recovered": 1}]
    refused = relight("sql", "DROP TABLE reading.signals")
    assert refused.exit_code == 1
    assert "privileges" in refused.output


def test_a_store_that_is_away_is_one_readable_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_STORE__PORT", "1")

    result = CliRunner().invoke(main, ["incidents", "list"])

    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith(
        "Error: no store answers at 127.0.0.1:1 (Connection refused); right would be RELIGHT_STORE__HOST="
    )
    assert "`. FOLDER/env` for a sandbox" in line


def test_a_store_of_no_such_host_is_told_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_STORE__HOST", "no-such-host.invalid")

    result = CliRunner().invoke(main, ["jobs"])

    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    assert "no store answers at no-such-host.invalid:8123" in result.output


def test_the_driver_says_nothing_beside_the_error_of_a_command() -> None:
    script = "from relight.cli import main; main(['incidents', 'list'])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "RELIGHT_STORE__PORT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert [line.partition(" at ")[0] for line in done.stderr.splitlines()] == ["Error: no store answers"]


def test_a_pause_is_seen_until_it_is_over(relight: Any, filled: Store) -> None:
    story = Story(offsets={"inbox.v1": 100, "incidents.v1": 100, "decisions.v1": 100})
    story.decision("run-p", "inc-p", 1, "in_place_recovery", 2)
    story.state("inc-p", 1, IncidentState.ACTING, 2)

    def order(given: PauseOrder | ResumeOrder, at: float) -> bool:
        story.tell(INBOX, "run/run-p", given, at)
        put(filled, story.records)
        (found,) = rows(relight("incidents", "list", "--run", "run-p", "-o", "json"))
        return bool(found["paused"])

    assert order(PauseOrder(by="sre", reason="storage"), 3)
    assert "acting, paused" in relight("incidents", "list", "--run", "run-p").output
    assert not order(ResumeOrder(by="sre", reason="done"), 4)
    assert not order(PauseOrder(by="sre", reason="an hour", until=START + timedelta(hours=1)), 5)
    assert order(PauseOrder(by="sre", reason="long", until=datetime.now(UTC) + timedelta(hours=1)), 6)


def test_a_pause_that_recovery_does_not_obey_is_not_shown(relight: Any, filled: Store) -> None:
    """Told again after the resume, overtaken by it on the way, or given to a node."""
    story = Story(offsets={"inbox.v1": 200})
    for run in ("run/told-again", "run/overtaken", "run/paused-anew"):
        story.tell(INBOX, run, PauseOrder(by="sre", reason="storage"), 3, id=f"pause of {run}")
        story.tell(INBOX, run, ResumeOrder(by="sre", reason="done"), 9)
    story.tell(
        INBOX, "run/told-again", PauseOrder(by="sre", reason="storage"), 20, id="pause of run/told-again"
    )
    late = story.tell(INBOX, "run/overtaken", PauseOrder(by="ann", reason="look"), 8)
    story.records[-1] = replace(late, arrived=START + timedelta(seconds=21))
    story.tell(INBOX, "run/paused-anew", PauseOrder(by="ann", reason="look"), 22)
    story.tell(INBOX, f"node/{NODE.uid}", PauseOrder(by="sre", reason="ours"), 23)
    put(filled, story.records)

    query = "SELECT subject, ordered_by FROM reading.paused WHERE subject != 'run/run-p'"
    found = rows(relight("sql", query, "-o", "json"))

    assert found == [{"subject": "run/paused-anew", "ordered_by": "ann"}]


def test_a_pause_is_over_by_a_resume_from_a_clock_that_runs_slow(relight: Any, filled: Store) -> None:
    story = Story(offsets={"inbox.v1": 300})
    story.tell(INBOX, "run/slow-clock", PauseOrder(by="sre", reason="storage"), 100)
    slow = story.tell(INBOX, "run/slow-clock", ResumeOrder(by="ann", reason="done"), 50)
    story.records[-1] = replace(slow, arrived=START + timedelta(seconds=200))
    put(filled, story.records)

    query = "SELECT ordered_by FROM reading.paused WHERE subject = 'run/slow-clock'"

    assert rows(relight("sql", query, "-o", "json")) == []


def test_an_answer_that_was_cut_says_so(relight: Any) -> None:
    result = relight("sql", "SELECT number FROM numbers(300000)", "-o", "json")

    assert result.exit_code == 3
    assert "cut after" in result.output


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    orders: list[str] = []
    for command in ("pause", "release"):
        monkeypatch.setattr(
            f"relight.commands.{command}.give", lambda subject, _order: orders.append(subject)
        )
    return orders


UNKNOWN = "99999999-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("node", "code", "says", "ordered"),
    [
        (NODE.uid, 0, "", [f"node/{NODE.uid}"]),
        (NODE.uid[:8], 0, f"{NODE.uid[:8]} is {NODE.uid}", [f"node/{NODE.uid}"]),
        (NODE.uid[:5], 1, "or 6 letters of it and more", []),
        (NODE.name, 1, f"is the name of a node; right would be its UID: {NODE.uid}", []),
        ("no-such\x1b[2J", 1, "the record knows no node no-such", []),
        (UNKNOWN, 0, "given all the same", [f"node/{UNKNOWN}"]),
    ],
)
def test_a_release_asks_the_record_which_node_is_meant(
    node: str, code: int, says: str, ordered: list[str], relight: Any, given: list[str]
) -> None:
    result = relight("release", node, "--reason", "replaced")

    assert (result.exit_code, given) == (code, ordered), result.output
    assert says in result.output
    assert "\x1b" not in result.output


RUNS = ("aaaa1111-0000-4000-8000-000000000001", "aaaa1111-0000-4000-8000-000000000002")


@pytest.fixture(scope="module")
def runs(filled: Store) -> tuple[str, str]:
    """Two runs whose ids begin alike, one of them seen only in what was decided."""
    story = Story(offsets=dict.fromkeys(("incidents.v1", "decisions.v1", "signals.v1"), 600))
    seen = RunSeen(
        run=RUNS[0], workload=WorkloadKind.JOB, namespace="team", name="seen", object_uid=RUNS[0], epoch=1, size=4, supervised=True,
    )  # fmt: skip
    story.tell(SIGNALS, f"run/{RUNS[0]}", seen, 0)
    story.decision(RUNS[1], "inc-of-twin", 1, "in_place_recovery", 2)
    story.state("inc-of-twin", 1, IncidentState.ACTING, 2)
    put(filled, story.records)
    return RUNS


@pytest.mark.parametrize(
    ("run", "code", "says", "ordered"),
    [
        (RUNS[0], 0, "", [f"run/{RUNS[0]}"]),
        (RUNS[1], 0, "", [f"run/{RUNS[1]}"]),
        (RUNS[0][:8], 1, "begins several ids", []),
        ("seen", 1, f"is the name of a job; right would be its UID: {RUNS[0]}", []),
        (
            "bbbb1111",
            1,
            "the record knows no run bbbb1111, and this is no whole UID; nothing was ordered",
            [],
        ),
        ("run-1' OR '1", 1, "the record knows no run", []),
        (UNKNOWN, 0, "the record knows no run", [f"run/{UNKNOWN}"]),
    ],
)
@pytest.mark.usefixtures("runs")
def test_a_shortened_run_is_paused_only_if_it_is_that_of_one(
    run: str, code: int, says: str, ordered: list[str], relight: Any, given: list[str]
) -> None:
    result = relight("pause", f"run/{run}", "--reason", "storage")

    assert (result.exit_code, given) == (code, ordered), result.output
    assert says in result.output


@pytest.mark.usefixtures("twins")
def test_the_beginning_of_one_runs_id_is_enough(relight: Any, given: list[str]) -> None:
    result = relight("pause", "run/7f0c1d2e", "--reason", "storage")

    assert (result.exit_code, given) == (0, ["run/7f0c1d2e-0000-4000-8000-00000000000a"]), result.output
    assert "7f0c1d2e is 7f0c1d2e-0000" in result.output


def test_the_list_of_incidents_reads_at_100_columns_with_ids_on_one_line(
    relight: Any, twins: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.tables._WIDTH_WITHOUT_TERMINAL", 100)

    lines = relight("incidents", "list").output.splitlines()

    assert max(map(len, lines)) <= 100
    rows_of_twins = [line for line in lines if twins[0][:8] in line]
    assert len(rows_of_twins) == len(twins)
    for line in rows_of_twins:
        assert all(cell in line for cell in ("acting", "in_place_recovery", "ascend/80E01801", "node-1"))
    assert not any(twin in line for line in lines for twin in twins)
    assert "ids are shortened" in lines[-1]
    found = {row["incident"]: row for row in rows(relight("incidents", "list", "-o", "json"))}
    assert set(twins) <= set(found)
    assert len(found[twins[0]]) == 13


@pytest.mark.parametrize("width", [80, 160])
def test_an_id_is_never_wrapped(
    relight: Any, twins: tuple[str, str], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.tables._WIDTH_WITHOUT_TERMINAL", width)

    assert relight("incidents", "list").output.count(twins[0][:8]) == len(twins)
    (held,) = (line for line in relight("nodes", "--held").output.splitlines() if NODE.name in line)
    assert " inc-1 " in held


def test_an_incident_is_shown_by_the_beginning_of_its_id(relight: Any, twins: tuple[str, str]) -> None:
    shown = rows(relight("incidents", "show", twins[0][:9], "-o", "json"))

    assert shown[0]["incident"] == twins[0]
    assert twins[0] in relight("incidents", "show", twins[0][:9]).output


@pytest.mark.parametrize("command", [("incidents", "show"), ("explain",)])
def test_a_beginning_of_several_ids_lists_them(
    relight: Any, twins: tuple[str, str], command: tuple[str, ...]
) -> None:
    result = relight(*command, twins[0][:8])

    assert result.exit_code == 1
    assert "begins several ids" in result.output
    assert all(twin in result.output for twin in twins)


@pytest.mark.parametrize(
    "given", ["4f1c2", "4f1c2_", "4f1c2%", "' OR 1=1 OR '", "' OR startsWith(incident, '4') OR '"]
)
@pytest.mark.usefixtures("twins")
def test_what_is_too_short_or_no_beginning_finds_nothing(relight: Any, given: str) -> None:
    shown = relight("incidents", "show", given)

    assert shown.exit_code == 1
    assert "no incident" in shown.output
    explained = relight("explain", given)
    assert explained.exit_code == 1
    assert "knows no event" in explained.output
    assert ("6 letters or more" in explained.output) == (len(given) < 6)


def test_an_incident_given_to_explain_is_told_to_be_one(relight: Any, twins: tuple[str, str]) -> None:
    result = relight("explain", twins[1][:10])

    assert result.exit_code == 1
    assert f"is an incident; right would be `relight incidents show {twins[1]}`" in result.output


def test_an_event_id_of_the_chain_is_taken_by_explain(relight: Any) -> None:
    chain = [row for row in rows(relight("incidents", "show", "inc-1", "-o", "json")) if "link" in row]
    (evidence,) = (row["event_id"] for row in chain if row["link"] == "evidence")
    decision = next(row["event_id"] for row in chain if row["link"] == "decision")

    assert evidence == "fault-inc-1"
    assert evidence[:8] in relight("incidents", "show", "inc-1").output
    whole = relight("explain", evidence).output
    assert relight("explain", evidence[:8]).output == whole
    by_decision = relight("explain", decision[:8])
    assert by_decision.exit_code == 0, by_decision.output
    assert f"it was about event {evidence}" in by_decision.output
    assert whole in by_decision.output


def test_what_is_asked_for_by_name_is_shown_whole(relight: Any) -> None:
    assert NODE.uid in relight("nodes", NODE.name).output
    assert "hang chain" not in relight("jobs").output
    assert "hang_chain" in relight("jobs", "llama").output
