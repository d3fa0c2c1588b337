"""`relight incidents`, `jobs`, `nodes`, `explain`, `sql` on the real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from audit.migrate import migrate
from audit.settings import StoreSettings
from audit.store import Store
from relight.cli import main
from sandbox.clickhouse import ClickHouse
from schemas.facts import NodeSeen, RunSeen, WorkloadKind
from schemas.mailbox import HoldAnswer, HoldCause, HoldRequest, PauseOrder, ResumeOrder
from schemas.records import Decision, FaultDomain, IncidentState
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


def test_nodes_say_for_what_they_are_held_and_what_comes_next(relight: Any) -> None:
    (found,) = rows(relight("nodes", "--held", "-o", "json"))

    assert (found["node"], found["held_for"], found["answer"]) == ("node-1", "ascend/80E01801", "held")
    assert "benchmark" in found["next_step"]


def test_an_event_is_explained_by_the_decision_about_it(relight: Any) -> None:
    result = relight("explain", "fault-inc-1")

    assert result.exit_code == 0, result.output
    assert "in_place_recovery" in result.output
    assert relight("explain", "unheard-of").exit_code == 1


def test_sql_reads_and_nothing_else(relight: Any) -> None:
    question = "SELECT recovered FROM reading.rto_by_strategy WHERE strategy = 'in_place_recovery'"

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
    assert not order(ResumeOrder(by="sre", reason="done"), 4)
    assert not order(PauseOrder(by="sre", reason="an hour", until=START + timedelta(hours=1)), 5)
    assert order(PauseOrder(by="sre", reason="long", until=datetime.now(UTC) + timedelta(hours=1)), 6)


def test_an_answer_that_was_cut_says_so(relight: Any) -> None:
    result = relight("sql", "SELECT number FROM numbers(300000)", "-o", "json")

    assert result.exit_code == 3
    assert "cut after" in result.output


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    orders: list[str] = []
    monkeypatch.setattr("relight.commands.release.give", lambda subject, _order: orders.append(subject))
    return orders


@pytest.mark.parametrize(
    ("node", "code", "says", "ordered"),
    [
        (NODE.uid, 0, "", [f"node/{NODE.uid}"]),
        (NODE.name, 1, f"right would be its UID: {NODE.uid}", []),
        ("no-such\x1b[2J", 0, "the record knows no node no-such", ["node/no-such\x1b[2J"]),
    ],
)
def test_a_release_asks_the_record_who_holds_the_node(
    node: str, code: int, says: str, ordered: list[str], relight: Any, given: list[str]
) -> None:
    result = relight("release", node, "--reason", "replaced")

    assert (result.exit_code, given) == (code, ordered), result.output
    assert says in result.output
    assert "\x1b" not in result.output


def test_a_release_does_not_need_the_record(monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
    monkeypatch.setenv("RELIGHT_STORE__PORT", "1")

    result = CliRunner().invoke(main, ["release", "uid-1", "--reason", "replaced"])

    assert (result.exit_code, given) == (0, ["node/uid-1"])
    assert "was not asked" in result.output
