"""Every query of docs/sql.md runs, and answers something where the record holds something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from audit.migrate import VIEWS, migrate
from audit.settings import StoreSettings
from audit.store import Store
from schemas.mailbox import HoldAnswer, HoldCause, HoldRequest
from schemas.topics import INBOX
from tests.audit.story import CHIP, NODE, START, Story, in_place, put

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^## (.+?)\n.*?```sql\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
EMPTY_IS_RIGHT = {
    "Do the phases sum to the recovery time?",
    "Whose budget is nearly used up?",
    "What could nobody read?",
    "How much work was lost?",
    "Who paused what?",
}


def told() -> Story:
    story = Story()
    story.release_default_rulebook()
    for number in range(3):
        in_place(story, f"run-{number}", f"inc-{number}", (2, 12, 15, 18, 19, 30))
    story.seen("run-1", -100)
    story.ended("run-1", 900)
    cause = HoldCause(
        namespace="ascend", code="80E01801", chip=CHIP, evidence="e", ladder_class="isolate", seen_at=START
    )
    request = HoldRequest(
        node=NODE, run="run-1", incident="inc-1", attempt=1, cause=cause, reason="third", rule="repeats"
    )
    story.tell(INBOX, f"node/{NODE.uid}", request, 5)
    story.tell(INBOX, "run/run-1", HoldAnswer(node=NODE, incident="inc-1", attempt=1, answer="held"), 6)
    return story


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    running = request.getfixturevalue("clickhouse")
    settings = StoreSettings(port=running.port, database="cookbook")
    with Store(settings, settings.migrator) as migrator:
        migrate(migrator, lambda: datetime.now(UTC))
        put(migrator, told().records)
        with Store(settings, settings.reader) as reader:
            yield reader
        migrator.command("DROP DATABASE cookbook")


def test_there_are_queries() -> None:
    assert len(QUERIES) >= 12


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_the_query_answers(title: str, query: str, store: Store) -> None:
    found = store.rows(query.replace("relight.", "cookbook."))

    if title == "Do the phases sum to the recovery time?":
        assert found == []
    elif title not in EMPTY_IS_RIGHT:
        assert found


def test_the_page_names_every_view_and_no_other() -> None:
    table = PAGE.split("## How fast")[0]
    named = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    made = {
        name
        for path in VIEWS.glob("*.sql")
        for name in re.findall(r"CREATE OR REPLACE VIEW \{db\}\.(\w+)", path.read_text(encoding="utf-8"))
    }
    inner = {
        "decisions_once",
        "commands_once",
        "outcomes_once",
        "signals_once",
        "attempt_spans",
        "attempts_with_marks",
        "boundaries",
        "milestones",
        "incident_spans",
    }

    assert named == made - inner
