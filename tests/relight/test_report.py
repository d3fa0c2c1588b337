"""`relight report`: one file, nothing fetched, nothing of others that a browser would run, bars that fit their times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from audit.migrate import migrate
from audit.settings import StoreSettings
from audit.store import Store
from relight.cli import main
from relight.report.content import lay_out, read_content
from relight.report.page import make_page, seconds
from schemas.commands import StepName
from schemas.records import Decision, FaultDomain, Incident, IncidentResult, IncidentState
from schemas.signals import Placement, ProcessExit
from schemas.topics import DECISIONS, INCIDENTS, SIGNALS
from tests.audit.story import START, Story, in_place, put

pytestmark = pytest.mark.timeout(180)  # the first to ask for the page makes the store and the page
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'\u202egnp\x1b[2J"


class Seen(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def told() -> Story:
    story = Story()
    story.release_default_rulebook()
    for number in range(6):
        in_place(
            story,
            f"run-{number}",
            f"inc-{number}",
            (2, 12 + number, 18 + number, 21 + number, 22 + number, 40 + number),
        )
    story.fault(HOSTILE, 0, id="hostile")
    story.decision(HOSTILE, "inc-open", 1, "in_place_recovery", 2, "hostile")
    story.state("inc-open", 1, IncidentState.ACTING, 2)
    story.command(HOSTILE, "inc-open", 1, StepName.STOP_PROCESSES, 0, 2)
    story.decision("run-x", "inc-never", 8, "in_place_recovery", 2)
    story.command("run-x", "inc-never", 8, StepName.STOP_PROCESSES, 0, 2)
    story.state("inc-never", 8, IncidentState.CLOSED, 90, result=IncidentResult.FAILED)
    ends_with_code_1(story)
    return story


def ends_with_code_1(story: Story) -> None:
    """A process ended and no chip's fault explains it: no code is named."""
    ended = ProcessExit(placement=Placement(run="run-y", rank=3), start=1, exit_code=17)
    story.tell(SIGNALS, "run/run-y", ended, 0, id="exit-y")
    decided = Decision(
        verdict="unconditional_job_reschedule", rule="abnormal-end", row="10", reason="nothing explains it", rulebook=story.rulebook,
        trigger="exit-y", trigger_time=START, incident="inc-exit", attempt=1, domain=FaultDomain.PROCESS,
    )  # fmt: skip
    story.tell(DECISIONS, "run/run-y", decided, 1)
    story.command("run-y", "inc-exit", 1, StepName.SUSPEND_JOB, 0, 1)
    opened = Incident(
        incident="inc-exit", state=IncidentState.ACTING, opened_at=START, fault_time=START, updated_at=START, attempt=1,
        strategy="unconditional_job_reschedule", trigger="exit-y", domain=FaultDomain.PROCESS, epoch=1, rulebook=story.rulebook,
    )  # fmt: skip
    story.tell(INCIDENTS, "inc-exit", opened, 1)


@pytest.fixture(scope="module")
def page(request: pytest.FixtureRequest) -> str:
    """Made once: tests read it."""
    running = request.getfixturevalue("clickhouse")
    store_settings = StoreSettings(port=running.port, database="report_page")
    with Store(store_settings, store_settings.migrator) as store:
        migrate(store, lambda: datetime.now(UTC))
        put(store, told().records)
        content = read_content(
            store,
            since=START - timedelta(days=1),
            until=START + timedelta(days=1),
            made_at=START + timedelta(days=1),
        )
        store.command(f"DROP DATABASE {store_settings.database}")
    return make_page(content)


@pytest.mark.slow
def test_the_page_fetches_nothing_and_runs_nothing(page: str) -> None:
    seen = Seen()
    seen.feed(page)

    assert "script" not in seen.tags
    assert not {"img", "link", "iframe", "object", "embed"} & set(seen.tags)
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in {"src", "href"}]
    assert "http" not in re.sub(r"http-equiv", "", page)
    assert "&lt;script&gt;" in page
    assert not {"\u202e", "\x1b"} & set(page)
    assert "url(" not in page
    assert "@import" not in page


@pytest.mark.slow
def test_there_are_pictures_of_the_times_and_of_each_timeline(page: str) -> None:
    seen = Seen()
    seen.feed(page)

    assert seen.tags.count("svg") == 2
    assert seen.tags.count("circle") == 9
    assert seen.tags.count("polyline") == 2
    assert (
        page.count("track tall") == 1 + 6 + 2
    )  # the style, six recoveries, the two that are open since their decisions
    assert "prefers-color-scheme: dark" in page


@pytest.mark.slow
def test_censored_incidents_stand_beside_the_percentiles(page: str) -> None:
    row = re.search(r"<tr><td>in place recovery</td>(.*?)</tr>", page, re.DOTALL)

    assert row
    cells = re.findall(r">([^<]*)</td>", row[1])
    assert cells == ["8", "6", "43.0 s", "45.0 s", "45.0 s", "1", "1", "0"]


@pytest.mark.slow
def test_an_incident_without_a_fault_code_says_what_it_began_with(page: str) -> None:
    (shown,) = re.findall(r"<span class=\"what\">unconditional job reschedule.*?</details>", page, re.DOTALL)

    assert "exit code 17 (rank 3)" in shown
    assert "Began with exit code 17 (rank 3); decided because nothing explains it." in shown


@pytest.mark.slow
def test_attempts_are_those_of_their_incident(page: str) -> None:
    (shown,) = re.findall(r"<details>(?:(?!</details>).)*incident inc-never.*?</details>", page, re.DOTALL)

    assert "incident inc-never, 1 attempt" in shown
    assert re.findall(r"<td class=\"number\">(\d*)</td>", shown)
    assert "8" not in re.findall(r"<td class=\"number\">(\d*)</td>", shown)


@pytest.mark.slow
def test_beside_the_medians_of_phases_stands_the_median_of_whole_incidents(page: str) -> None:
    section = page.partition("Where the time goes")[2].partition("Nodes that are held")[0]
    row = re.search(r"<tr><td[^>]*>in place recovery</td>.*?</tr>", section, re.DOTALL)

    assert row
    assert row[0].count('class="bar ') == 5
    assert row[0].endswith(
        "43.0 s</td></tr>"
    )  # as in the table of percentiles; the phases' medians come to less
    assert "need not add up" in section


@pytest.mark.slow
def test_the_command_writes_a_file(
    store_settings: StoreSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_STORE__PORT", str(store_settings.port))
    monkeypatch.setenv("RELIGHT_STORE__DATABASE", store_settings.database)
    with Store(store_settings, store_settings.migrator) as store:
        migrate(store, lambda: datetime.now(UTC))

    result = CliRunner().invoke(main, ["report", "-o", str(tmp_path / "r.html")])

    assert result.exit_code == 0, result.output
    assert "No incident in this time" in (tmp_path / "r.html").read_text()


def span(phase: str, began: float, ended: float, state: str = "measured") -> dict[str, Any]:
    return {
        "phase": phase,
        "state": state,
        "began_at": START + timedelta(seconds=began),
        "ended_at": START + timedelta(seconds=ended),
        "seconds": ended - began,
    }


def test_bars_stand_one_behind_the_other_and_fill_the_line() -> None:
    bars = lay_out([span("detection", 0, 10), span("termination", 10, 15), span("stabilisation", 15, 40)])

    assert [(bar.left, bar.width) for bar in bars] == [(0.0, 25.0), (25.0, 12.5), (37.5, 62.5)]


def test_nothing_is_drawn_of_what_has_no_length() -> None:
    assert lay_out([]) == []
    assert lay_out([span("detection", 5, 5)]) == []
    assert [
        bar.phase for bar in lay_out([span("detection", 0, 10), span("termination", 10, 9, "clock_skew")])
    ] == ["detection"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "\N{EN DASH}"),
        (float("nan"), "\N{EN DASH}"),
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (90, "1.5 min"),
        (7200, "2.0 h"),
    ],
)
def test_durations_are_as_people_read_them(value: float | None, shown: str) -> None:
    assert seconds(value) == shown
