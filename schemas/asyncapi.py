"""AsyncAPI 3 document of all topics, made from the catalogue, from who writes what, and from the exported JSON Schemas. Pure.

A channel is a topic, a message a CloudEvents type, an operation one part of relight that writes a channel or reads it. Other systems are not
operations of this application: `x-relight` of a channel says whether they may write it or read it. Names of topics are those without a prefix;
brokers and numbers of partitions are the site's and stand in no document.

`document` refers to the promised schemas beside it (`json/TYPE.json`) and is kept as `asyncapi.json`; `bundled` is the same in one piece, to
hand over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from schemas.envelope import CONTENT_TYPE, TYPE_PREFIX, Payload
from schemas.export import all_schemas
from schemas.topics import DEADLETTERS, STATE, TOPICS, Component, Topic
from schemas.traffic import WRITTEN, types_in

FILE: Final = Path(__file__).parent / "asyncapi.json"
CONTRACT: Final = "1"
"""First version of topics and types; each name ends with its own (`signals.v1`), and a break is a new name."""
SCHEMA_FORMAT: Final = "application/schema+json;version=draft-2020-12"
KAFKA_BINDING: Final = "0.5.0"
MEDIA_TYPE: Final = CONTENT_TYPE.partition(";")[0]
DEAD_LETTER: Final = "dead_letter"
STATE_RECORD: Final = "state_record"
DEAD_LETTER_HEADERS: Final = {
    "relight.reason": "Short reason, such as unreadable or rate_capped.",
    "relight.detail": "What was wrong, in a sentence.",
    "relight.stage": "Who put it here.",
    "relight.topic": "Where it stood.",
    "relight.partition": "Its partition there.",
    "relight.offset": "Its offset there.",
    "relight.time": "The broker's append time there.",
}

Json = dict[str, Any]


def document() -> Json:
    """The document, with references to the promised schemas beside it."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "relight",
            "version": CONTRACT,
            "description": (
                "Topics of one relight pipeline on Kafka. Values are CloudEvents 1.0 in structured JSON; keys begin with the cluster's id; the "
                "partitioner is murmur2. Other systems write external-signals.v1 and read decisions.v1 and incidents.v1; everything else is "
                "relight's own and is described so that it can be read. See docs/topics.md."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": MEDIA_TYPE,
        "channels": {channel_id(topic): _channel(topic) for topic in TOPICS},
        "operations": dict(_operations()),
        "components": {"messages": _messages()},
    }


def bundled() -> Json:
    """The document in one piece: schemas stand in `components`, and nothing refers to another file."""
    whole = document()
    whole["components"]["schemas"] = {name: _moved(schema, name) for name, schema in all_schemas().items()}
    for name in all_schemas():
        message = whole["components"]["messages"][message_id(name)]
        message["payload"]["schema"] = {"$ref": f"#/components/schemas/{name}"}
    return whole


def text(made: Json) -> str:
    """As it is written to a file."""
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def is_current(file: Path = FILE) -> bool:
    """The kept copy is what the catalogue and the models say."""
    return file.exists() and file.read_text(encoding="utf-8") == text(document())


def channel_id(topic: Topic) -> str:
    """Name of a topic's channel: without its version, in letters and underscores."""
    return topic.name.rpartition(".")[0].replace("-", "_")


def message_id(type_name: str) -> str:
    """Name of a type's message within the document."""
    return type_name.removeprefix(TYPE_PREFIX)


def _names_in(topic: Topic) -> tuple[str, ...]:
    if topic is STATE:
        return (STATE_RECORD,)
    if topic is DEADLETTERS:
        return (DEAD_LETTER,)
    return tuple(message_id(kind.TYPE) for kind in types_in(topic.name))


def _channel(topic: Topic) -> Json:
    settings: Json = {"cleanup.policy": [topic.cleanup.value]}
    if topic.retention is not None:
        settings["retention.ms"] = topic.retention // timedelta(milliseconds=1)
    if topic.max_message_bytes is not None:
        settings["max.message.bytes"] = topic.max_message_bytes
    return {
        "address": topic.name,
        "summary": topic.says,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _names_in(topic)},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "topicConfiguration": settings,
                "bindingVersion": KAFKA_BINDING,
            }
        },
        "x-relight": {
            "key": topic.key,
            "writers": [writer.value for writer in topic.writers],
            "readers": [reader.value for reader in topic.readers],
            "othersMayWrite": Component.EXTERNAL in topic.writers,
            "othersMayRead": Component.EXTERNAL in topic.readers,
            "brokerSetsTheTime": topic.log_append_time,
            "readCommittedOnly": topic.transactional,
        },
    }


def _operations() -> Iterator[tuple[str, Json]]:
    for topic in TOPICS:
        for writer in topic.writers:
            if writer is not Component.EXTERNAL:
                yield _operation(topic, writer, "send", _said_by(topic, writer))
        for reader in topic.readers:
            if reader is not Component.EXTERNAL:
                yield _operation(topic, reader, "receive", _names_in(topic))


def _said_by(topic: Topic, writer: Component) -> tuple[str, ...]:
    written = WRITTEN.get(topic.name)
    return _names_in(topic) if written is None else tuple(message_id(kind.TYPE) for kind in written[writer])


def _operation(topic: Topic, part: Component, action: str, names: tuple[str, ...]) -> tuple[str, Json]:
    channel = channel_id(topic)
    verb = "writes" if action == "send" else "reads"
    return f"{part.value.replace('-', '_')}_{verb}_{channel}", {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "title": f"{part.value} {verb} {topic.name}",
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in names],
    }


def _messages() -> Json:
    found: Json = {}
    for topic in TOPICS:
        for kind in types_in(topic.name):
            found[message_id(kind.TYPE)] = _event(kind)
    found[STATE_RECORD] = {
        "summary": "The recovery stage's own; its form is no promise. Nobody else reads or writes it.",
        "contentType": "application/json",
    }
    found[DEAD_LETTER] = {
        "summary": "Another message's bytes as they came; why stands in the headers. Above the size limit a head of them.",
        "contentType": "application/octet-stream",
        "headers": {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": says} for name, says in DEAD_LETTER_HEADERS.items()
            },
            "required": list(DEAD_LETTER_HEADERS),
        },
    }
    return dict(sorted(found.items()))


def _event(kind: type[Payload]) -> Json:
    return {
        "name": kind.TYPE,
        "summary": _first_sentence(kind),
        "contentType": MEDIA_TYPE,
        "payload": {"schemaFormat": SCHEMA_FORMAT, "schema": {"$ref": f"./json/{kind.TYPE}.json"}},
    }


def _first_sentence(kind: type[Payload]) -> str:
    said, full_stop, _ = " ".join((kind.__doc__ or "").split()).partition(". ")
    return said + "." if full_stop else said


def _moved(part: Any, name: str) -> Any:  # noqa: ANN401 - any part of a JSON document
    """A schema as a part of the whole: its references lead through the whole, and it is no document of its own any more."""
    if isinstance(part, list):
        return [_moved(one, name) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: f"#/components/schemas/{name}{value[1:]}"
        if key == "$ref" and isinstance(value, str)
        else _moved(value, name)
        for key, value in part.items()
        if not (key in {"$id", "$schema"} and isinstance(value, str))
    }
