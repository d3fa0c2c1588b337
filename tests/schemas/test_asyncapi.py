"""The AsyncAPI document is current, keeps AsyncAPI's rules, leads nowhere that is not there, and says what the code does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from relight.cli import main
from runtime.settings import DeadLetterSettings
from schemas import topics
from schemas.asyncapi import (
    DEAD_LETTER_HEADERS,
    FILE,
    bundled,
    channel_id,
    document,
    is_current,
    message_id,
    text,
)
from schemas.catalogue import PAYLOADS
from schemas.envelope import encode
from schemas.topics import TOPICS, Component
from schemas.traffic import WATCHERS_SIGNALS, WRITTEN, types_in
from streams.dead_letters import DeadLetters, Reason
from streams.routing import INTERNAL_TYPES
from streams.settings import EXTERNAL_TYPES
from tests.schemas.asyncapi_rules import RULES
from tests.schemas.samples import sample
from tests.streams.fakes import FakeMessage

ROOT = Path(__file__).parents[2]
DOCUMENTS = {"kept": document(), "bundled": bundled()}


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def resolved(whole: dict[str, Any], reference: str) -> Any:
    file, _, pointer = reference.partition("#")
    found: Any = json.loads((FILE.parent / file).read_text(encoding="utf-8")) if file else whole
    for name in pointer.split("/")[1:]:
        found = found[name.replace("~1", "/").replace("~0", "~")]
    return found


def test_the_kept_document_is_current() -> None:
    assert is_current(), "right would be: relight schemas asyncapi --write"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_keeps_the_rules_of_asyncapi(name: str) -> None:
    Draft202012Validator.check_schema(RULES)
    Draft202012Validator(RULES).validate(DOCUMENTS[name])


@pytest.mark.parametrize(
    "damage",
    [
        {"info": {"title": "x"}},
        {"operations": {"a": {"action": "publish"}}},
        {"channels": {"a b": {}}},
        {"id2": 1},
    ],
)
def test_what_breaks_the_rules_is_seen(damage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Draft202012Validator(RULES).validate(document() | damage)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_reference_leads_somewhere(name: str) -> None:
    whole = DOCUMENTS[name]
    found = set(references(whole))

    assert len(found) > 100
    for reference in found:
        assert resolved(whole, reference), reference


def test_in_one_piece_it_needs_no_other_file() -> None:
    whole = DOCUMENTS["bundled"]

    assert {reference[0] for reference in references(whole)} == {"#"}
    assert not re.search(r'"\$(id|schema)":', text(whole))


def test_operations_name_messages_of_their_own_channel() -> None:
    whole = document()
    for name, operation in whole["operations"].items():
        channel = operation["channel"]["$ref"]
        messages = [message["$ref"] for message in operation["messages"]]

        assert messages, name
        assert [one for one in messages if not one.startswith(f"{channel}/messages/")] == []
        assert name.endswith(channel.rpartition("/")[2])


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
def test_what_is_written_is_valid_by_the_handed_over_document(payload: Any) -> None:
    """An independent reader takes the schema from the one file it was given."""
    whole = DOCUMENTS["bundled"]
    registry = Registry().with_resource("urn:doc", Resource(whole, DRAFT202012))  # type: ignore[call-arg] # attrs
    schema = whole["components"]["messages"][message_id(payload.TYPE)]["payload"]["schema"]
    validator = Draft202012Validator({"$ref": f"urn:doc{schema['$ref']}"}, registry=registry)
    written = json.loads(encode(sample(payload.TYPE)))

    validator.validate(written)
    with pytest.raises(ValidationError):
        validator.validate(written | {"type": "dev.relight.other.v1"})


# ------------------------------------------------------------ it says what the code does


def test_every_type_stands_in_some_topic_and_every_topic_in_the_document() -> None:
    said = {kind for topic in TOPICS for kind in types_in(topic.name)}

    assert said == set(PAYLOADS)
    assert set(document()["channels"]) == {channel_id(topic) for topic in TOPICS}


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_channel_says_key_policy_writers_and_readers_of_its_topic(topic: topics.Topic) -> None:
    channel = document()["channels"][channel_id(topic)]
    operations = document()["operations"].values()
    here = [one for one in operations if one["channel"]["$ref"] == f"#/channels/{channel_id(topic)}"]

    assert channel["address"] == topic.name
    assert channel["x-relight"]["key"] == topic.key
    assert channel["bindings"]["kafka"]["topicConfiguration"]["cleanup.policy"] == [topic.cleanup.value]
    ours = [part for part in topic.writers if part is not Component.EXTERNAL]
    assert len([one for one in here if one["action"] == "send"]) == len(ours)
    assert channel["x-relight"]["othersMayWrite"] == (topic.name == "external-signals.v1")
    assert channel["x-relight"]["othersMayRead"] == (topic.name in {"decisions.v1", "incidents.v1"})


@pytest.mark.parametrize(
    "topic", [one for one in TOPICS if one.name in WRITTEN], ids=lambda topic: topic.name
)
def test_who_writes_what_names_the_writers_of_the_catalogue(topic: topics.Topic) -> None:
    assert set(WRITTEN[topic.name]) == set(topic.writers)


def test_what_stands_in_the_signal_topics_is_what_the_router_lets_through() -> None:
    assert {kind.TYPE for kind in types_in("signals.v1")} == INTERNAL_TYPES
    assert {kind.TYPE for kind in types_in("external-signals.v1")} == EXTERNAL_TYPES
    assert {kind.TYPE for kind in types_in("inbox.v1")} >= INTERNAL_TYPES


def test_the_watcher_tells_no_other_signal_and_the_agent_none_that_only_the_watcher_knows() -> None:
    """By what their modules name: a part that learned to say more has to be written down."""
    watcher = {path: path.read_text(encoding="utf-8") for path in (ROOT / "producers/cluster").glob("*.py")}
    agent = {
        path: path.read_text(encoding="utf-8")
        for path in (ROOT / "producers").rglob("*.py")
        if "cluster" not in path.parts and path.stem != "publish"
    }
    made_by_watcher = {
        kind
        for kind in PAYLOADS
        if any(re.search(rf"\b{kind.__name__}\(", code) for code in watcher.values())
    }
    made_by_agent = {
        kind for kind in PAYLOADS if any(re.search(rf"\b{kind.__name__}\(", code) for code in agent.values())
    }

    assert made_by_watcher <= set(WRITTEN["signals.v1"][Component.WATCHER])
    assert set(WATCHERS_SIGNALS) <= made_by_watcher
    assert made_by_agent <= set(WRITTEN["signals.v1"][Component.NODE_AGENT])


def test_headers_of_a_dead_letter_are_those_of_the_document() -> None:
    letters = DeadLetters("router", DeadLetterSettings(), str)
    made = letters.make(FakeMessage(0, b"{"), Reason.UNREADABLE, "no JSON")

    assert {name for name, _ in made.headers} == set(DEAD_LETTER_HEADERS)


# ------------------------------------------------------------ the command


def test_the_command_prints_the_document_in_one_piece() -> None:
    result = CliRunner().invoke(main, ["schemas", "asyncapi"])

    assert result.exit_code == 0
    assert json.loads(result.output) == json.loads(text(bundled()))


def test_a_stale_copy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = tmp_path / "asyncapi.json"
    stale.write_text(text(document() | {"defaultContentType": "text/plain"}), encoding="utf-8")

    assert not is_current(stale)
    assert not is_current(tmp_path / "none.json")
    monkeypatch.setattr("schemas.asyncapi.FILE", stale)
    assert CliRunner().invoke(main, ["schemas", "asyncapi", "--write"]).exit_code == 0
    assert is_current(stale)
