"""`relight publish`: what it prints, how it ends, and what arrives on a real broker."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, TopicPartition

from relight.cli import main
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings, Settings, TopicSettings
from runtime.topics import TopicAdministration
from sandbox.kafka_server import KafkaBroker
from schemas.envelope import Event, decode
from schemas.signals import ChipFault, NodeCondition, PreemptionNotice
from schemas.topics import EXTERNAL_SIGNALS, SIGNALS

FAULT = (
    "chip-fault",
    "--node-uid",
    "u1",
    "--node",
    "n1",
    "--chip",
    "GPU-1",
    "--namespace",
    "xid",
    "--code",
    "79",
)


def publish(*arguments: str | Path, stdin: str | None = None, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(main, ["publish", *map(str, arguments)], input=stdin)


def test_a_dry_run_prints_the_event_and_sends_nothing() -> None:
    result = publish("--cluster", "lab", "--id", "x", "--dry-run", *FAULT)

    event = decode(result.stdout.encode())
    assert result.exit_code == 0
    assert (event.id, event.subject, event.cluster) == ("x", "node/u1", "lab")
    assert isinstance(event.data, ChipFault)
    assert (event.data.code, event.data.state, event.data.node.name) == ("79", "once", "n1")


def test_the_time_may_be_given() -> None:
    result = publish("--cluster", "lab", "--time", "2026-03-01T12:00:00+01:00", "--dry-run", *FAULT)

    assert decode(result.stdout.encode()).time.isoformat() == "2026-03-01T11:00:00+00:00"


def test_a_placement_makes_it_the_runs() -> None:
    event = decode(
        publish("--cluster", "lab", "--dry-run", *FAULT, "--run", "r1", "--pod-uid", "p1").stdout.encode()
    )

    assert event.subject == "run/r1"


def test_other_kinds_are_built_from_flags() -> None:
    condition = publish(
        "--cluster", "lab", "--dry-run", "node-condition", "--node", "n1", "--condition", "not-ready"
    )
    notice = publish(
        "--cluster", "lab", "--dry-run", "preemption-notice", "--node", "n1", "--deadline", "2026-03-01T12:00:00Z"
    )  # fmt: skip

    assert isinstance(decode(condition.stdout.encode()).data, NodeCondition)
    assert isinstance(decode(notice.stdout.encode()).data, PreemptionNotice)


def test_an_invalid_value_ends_with_3_and_its_place() -> None:
    result = publish("--cluster", "lab", *FAULT[:-1], "7 9")

    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("code: String should match pattern")


def condition(name: str, *options: str) -> Result:
    return publish(
        "--cluster", "lab", "--dry-run", *options, "node-condition", "--node", "n1", "--condition", name
    )


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("not-redy", "right would be 'not-ready'"),
        ("NotReady", "right would be 'not-ready'"),
        ("moonlight", "right would be one of container-runtime-unhealthy, disk-pressure"),
    ],
)
def test_a_condition_no_table_has_ends_with_3_and_what_would_be_right(name: str, right: str) -> None:
    result = condition(name)

    assert (result.exit_code, result.stdout) == (3, "")
    assert f"condition: '{name}' is no condition of a node" in result.stderr
    assert right in result.stderr


def test_a_code_table_nobody_has_ends_with_3_and_the_one_that_was_meant() -> None:
    result = publish("--cluster", "lab", "--dry-run", *FAULT[:-4], "--namespace", "xidd", "--code", "79")

    assert (result.exit_code, result.stdout) == (3, "")
    assert "'xidd' is no code table of chips in the default rulebook; right would be 'xid'" in result.stderr


def test_names_of_a_rulebook_of_ones_own_are_sent_when_that_is_said() -> None:
    assert condition("moonlight", "--unlisted").exit_code == 0


def test_in_a_file_the_line_with_an_unknown_name_is_told_and_none_is_sent(tmp_path: Path) -> None:
    lines = [condition("not-ready").stdout, condition("not-redy", "--unlisted").stdout]
    file = tmp_path / "events.jsonl"
    file.write_text("".join(lines), encoding="utf-8")

    refused = publish("--cluster", "lab", "--dry-run", "--file", file)

    assert (refused.exit_code, refused.stdout) == (3, "")
    assert f"{file}:2: condition: 'not-redy'" in refused.stderr
    assert "1 of 2 events is not valid; nothing was sent" in refused.stderr
    assert publish("--cluster", "lab", "--dry-run", "--unlisted", "--file", file).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "nothing to publish"),
        (FAULT, "no cluster is known"),
        (("--cluster", "lab", "--time", "noon", *FAULT), "'noon' is no time; right would be"),
        (("--cluster", "lab", "--id", "x", "--file", "-"), "in a file each line has its own"),
        (("--cluster", "lab", "--file", "-", *FAULT), "not both"),
        (("--cluster", "lab", "--bootstrap", "x", "--file", "/nowhere"), "does not exist"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], says: str) -> None:
    result = publish(*arguments, stdin="")

    assert result.exit_code == 2
    assert says in result.stderr


def test_settings_that_contradict_each_other_are_wrong_usage() -> None:
    result = publish(*FAULT, RELIGHT_CLOCK="event")

    assert result.exit_code == 2
    assert "topics.prefix is empty" in result.stderr


def test_one_bad_line_sends_none(tmp_path: Path) -> None:
    good = json.loads(publish("--cluster", "lab", "--dry-run", *FAULT).stdout)
    file = tmp_path / "events.jsonl"
    file.write_text(json.dumps(good) + "\n{}\nnope\n", encoding="utf-8")

    result = publish("--cluster", "lab", "--file", file, "--bootstrap", "127.0.0.1:1")

    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{file}:2: type: no CloudEvents type given",
        f"{file}:3: no JSON: Expecting value at character 1",
        "2 of 3 events are not valid; nothing was sent",
    ]


def test_a_broker_that_is_away_ends_with_1() -> None:
    result = publish("--cluster", "lab", "--bootstrap", "127.0.0.1:1", "--patience", "0.3", *FAULT)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert "no broker answers at 127.0.0.1:1" in result.stderr


@pytest.fixture
def pipeline(kafka: KafkaBroker) -> Settings:
    settings = Settings(
        kafka=KafkaSettings(bootstrap=kafka.bootstrap, replication_factor=1, min_insync_replicas=1),
        topics=TopicSettings(prefix=f"publish-{uuid.uuid4().hex[:8]}.", partitions=3),
    )
    TopicAdministration(settings, KafkaClients(settings.kafka, "test")).create()
    return settings


def arrived(settings: Settings, topic: str) -> list[tuple[Event, bytes | None]]:
    name = settings.topic(topic)
    reader: Consumer = KafkaClients(settings.kafka, "test").reader()
    places = [TopicPartition(name, partition, 0) for partition in range(settings.topics.partitions)]
    ends = {place.partition: reader.get_watermark_offsets(place, timeout=10)[1] for place in places}
    reader.assign(places)
    found: list[tuple[Event, bytes | None]] = []
    while len(found) < sum(ends.values()):
        message = reader.poll(10)
        assert message is not None
        value, key = message.value(), message.key()
        assert isinstance(value, bytes)
        found.append((decode(value), key if isinstance(key, bytes) else None))
    reader.close()
    return found


def environment(settings: Settings) -> dict[str, str]:
    return {
        "RELIGHT_KAFKA__BOOTSTRAP": settings.kafka.bootstrap,
        "RELIGHT_TOPICS__PREFIX": settings.topics.prefix,
    }


def test_a_confirmed_event_is_on_the_external_topic_under_its_mailbox(pipeline: Settings) -> None:
    result = publish("--cluster", "lab", "--id", "x", *FAULT, **environment(pipeline))

    assert result.exit_code == 0, result.stderr
    identity, topic, partition, offset = result.stdout.split()
    assert (identity, topic, int(offset)) == ("x", pipeline.topic(EXTERNAL_SIGNALS.name), 0)
    assert 0 <= int(partition) < 3
    ((event, key),) = arrived(pipeline, EXTERNAL_SIGNALS.name)
    assert (event.id, key) == ("x", b"lab/node/u1")
    assert not arrived(pipeline, SIGNALS.name)


def test_a_file_is_sent_whole(pipeline: Settings) -> None:
    line = json.loads(publish("--cluster", "lab", "--dry-run", *FAULT).stdout)
    lines = "".join(json.dumps({**line, "id": f"event-{number}"}) + "\n" for number in range(200))

    result = publish("--cluster", "lab", "--file", "-", stdin=lines, **environment(pipeline))

    assert result.exit_code == 0, result.stderr
    assert [row.split()[0] for row in result.stdout.splitlines()] == [
        f"event-{number}" for number in range(200)
    ]
    assert {event.id for event, _ in arrived(pipeline, EXTERNAL_SIGNALS.name)} == {
        f"event-{n}" for n in range(200)
    }


def test_a_topic_that_is_not_there_ends_with_1(kafka: KafkaBroker) -> None:
    result = publish(
        "--cluster", "lab", "--bootstrap", kafka.bootstrap, "--topic", "no-such-topic", "--patience", "20", *FAULT
    )  # fmt: skip

    assert result.exit_code == 1
    assert result.stderr == (
        f"topic no-such-topic is not at {kafka.bootstrap}; right would be one of `relight topics create`\n"
    )
