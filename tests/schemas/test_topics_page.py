"""docs/topics.md is the contract in words: its table is the catalogue's, its examples are run, its numbers are the settings'."""

from __future__ import annotations

import json
import re
import shlex
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from recovery.cells import SEEN_KEPT
from relight.cli import main
from runtime.kafka import PARTITIONER
from runtime.settings import DeadLetterSettings, TopicSettings
from schemas.envelope import CONTENT_TYPE, MAX_EVENT_BYTES, decode
from schemas.export import schema_of
from schemas.ids import mailbox_key
from schemas.records import IncidentResult
from schemas.signals import OTHERS_MAY_TELL
from schemas.topics import TOPICS, Component, Topic
from streams.dead_letters import Reason
from streams.route import mailboxes
from streams.settings import RouterSettings

PAGE = (Path(__file__).parents[2] / "docs" / "topics.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first fenced block of a language."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no {language} block"
    return found[1]


EVENT: dict[str, Any] = json.loads(block("json"))


def row(topic: Topic) -> str:
    kept = "the last of each key" if topic.retention is None else f"{topic.retention.days} days"

    def named(parts: tuple[Component, ...]) -> str:
        return ", ".join("**others**" if part is Component.EXTERNAL else part.value for part in parts)

    cells = (f"`{topic.name}`", topic.key, kept, named(topic.writers), named(topic.readers), topic.says)
    return f"| {' | '.join(cells)} |"


def test_the_table_is_the_catalogue() -> None:
    inside = PAGE.partition("<!-- generated: topics -->\n")[2].partition("<!-- end -->")[0]

    assert inside.splitlines()[2:] == [row(topic) for topic in TOPICS]


def test_the_example_is_valid_and_lands_in_the_mailbox_it_names() -> None:
    event = decode(json.dumps(EVENT).encode())

    Draft202012Validator(schema_of(event.type)).validate(EVENT)
    assert isinstance(event.data, OTHERS_MAY_TELL)
    assert mailboxes(event.data) == (event.subject,)


PUBLISHED = [line for line in PAGE.splitlines() if line.startswith("relight publish")]


@pytest.mark.parametrize("line", PUBLISHED)
def test_a_command_of_the_page_makes_a_valid_event(line: str) -> None:
    words = shlex.split(line)[1:]
    result = CliRunner().invoke(main, [words[0], "--dry-run", *words[1:]])

    assert result.exit_code == 0, result.output
    assert decode(result.stdout.encode()).cluster == "lab"


def test_the_first_command_says_what_the_example_says() -> None:
    words = shlex.split(PUBLISHED[0])[1:]
    made = json.loads(CliRunner().invoke(main, [words[0], "--dry-run", *words[1:]]).stdout)

    assert {name: made[name] for name in EVENT} == EVENT


def test_the_python_of_the_page_sends_what_relight_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    given: list[dict[str, Any]] = []

    class Producer:
        def __init__(self, settings: dict[str, Any]) -> None:
            given.append(settings)

        def produce(self, topic: str, **message: Any) -> None:
            sent.append({"topic": topic, **message})

        def flush(self) -> None:
            """All of it was taken."""

    monkeypatch.setitem(sys.modules, "confluent_kafka", SimpleNamespace(Producer=Producer))
    names: dict[str, Any] = {}
    exec(compile(block("python"), "docs/topics.md", "exec"), names)  # noqa: S102 - our own page is under test
    names["tell"](EVENT)

    (message,) = sent
    assert message["topic"] == "external-signals.v1"
    assert message["key"].encode() == mailbox_key(EVENT["cluster"], EVENT["subject"])
    assert decode(message["value"].encode()) == decode(json.dumps(EVENT).encode())
    assert message["headers"] == {"content-type": CONTENT_TYPE}
    assert given[0]["partitioner"] == PARTITIONER


def test_types_others_may_tell_are_those_of_the_page() -> None:
    section = PAGE.partition("## Tell what you see")[2].partition("```")[0]

    assert set(re.findall(r"`(signal\.\w+\.v1)`", section)) == {
        kind.TYPE.removeprefix("dev.relight.") for kind in OTHERS_MAY_TELL
    }


def test_every_reason_of_a_dead_letter_and_every_result_has_its_words() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.partition("| reason |")[2], re.MULTILINE)

    assert {word for cell in rows for word in re.findall(r"\w+", cell)} == {reason.value for reason in Reason}
    assert [result for result in IncidentResult if f"`{result.value}`" not in PAGE] == []


def test_numbers_are_those_of_the_settings() -> None:
    router = RouterSettings()

    assert f"{router.external_per_source:g} events a second and source" in PAGE
    assert f"{router.external_burst} at once, {router.external_total:g} a second of all together" in PAGE
    assert router.time.ahead == timedelta(minutes=5)
    assert "More than 5 min ahead" in PAGE
    assert router.time.oldest == router.time.nonsense == timedelta(hours=24)
    assert f"at most {MAX_EVENT_BYTES:,} bytes" in PAGE
    assert f"the last {SEEN_KEPT} ids" in PAGE
    assert DeadLetterSettings().whole_up_to == 4_000_000
    assert f"`RELIGHT_TOPICS__PARTITIONS`, {TopicSettings().partitions}" in PAGE
