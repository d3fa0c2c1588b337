"""CNCF's own SDK reads what we write, and we read what it writes."""

import json
from datetime import UTC, datetime

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_structured_event
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from schemas.catalogue import PAYLOADS
from schemas.envelope import CONTENT_TYPE, Origin, Trust, decode, encode
from schemas.signals import ChipFault
from tests.schemas.samples import sample

TYPES = sorted(payload.TYPE for payload in PAYLOADS)
LONGEST_ATTRIBUTE = 20  # CloudEvents 1.0: names SHOULD not be longer


@pytest.mark.parametrize("type_name", TYPES)
def test_the_sdk_reads_every_type(type_name: str) -> None:
    event = sample(type_name)

    read = JSONFormat().read(CloudEvent, encode(event))

    assert isinstance(read, CloudEvent)
    assert (read.get_id(), read.get_type(), read.get_source()) == (event.id, event.type, event.source)
    assert read.get_specversion() == "1.0"
    assert read.get_subject() == event.subject
    assert read.get_time() == event.time
    assert read.get_extension("cluster") == "prod"
    assert read.get_extension("trust") == Trust.INTERNAL.value
    data = read.get_data()
    assert (json.loads(data) if isinstance(data, str | bytes) else data) == json.loads(encode(event))["data"]


def test_the_sdk_reads_it_as_a_structured_kafka_message() -> None:
    event = sample(ChipFault.TYPE).model_copy(update={"origin": str(Origin("agent:n:s", 0, 7, 0))})
    message = KafkaMessage(
        headers={"content-type": CONTENT_TYPE.encode()}, key=b"prod/node/a", value=encode(event)
    )

    read = from_structured_event(message)

    assert read.get_id() == event.id
    assert read.get_extension("origin") == "agent:n:s/0/7/0"


def test_we_read_what_the_sdk_writes() -> None:
    data = json.loads(encode(sample(ChipFault.TYPE)))["data"]
    theirs = CloudEvent(
        attributes={
            "id": "one",
            "source": "/their/monitor",
            "type": ChipFault.TYPE,
            "specversion": "1.0",
            "subject": "node/a",
            "time": datetime(2026, 3, 1, tzinfo=UTC),
            "datacontenttype": "application/json",
            "cluster": "prod",
        },
        data=data,
    )

    ours = decode(JSONFormat().write(theirs))

    assert ours.id == "one"
    assert isinstance(ours.data, ChipFault)


@pytest.mark.parametrize("type_name", TYPES)
def test_names_of_attributes_are_as_cloudevents_wants_them(type_name: str) -> None:
    names = set(json.loads(encode(sample(type_name)))) - {"data"}

    assert [name for name in names if not (name.isascii() and name.isalnum() and name.islower())] == []
    assert [name for name in names if len(name) > LONGEST_ATTRIBUTE] == []
