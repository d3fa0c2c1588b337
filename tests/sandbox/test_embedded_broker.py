"""The embedded broker carries relight's processes: what is published is routed, decided and written into the store, without Java."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from audit.settings import StoreSettings
from audit.store import Store
from producers.clock_offset import MADE_UP
from relight.cli import main
from sandbox import embedded_broker
from sandbox.embedded_broker import EmbeddedBroker
from sandbox.errors import NotRunning
from sandbox.stage.program import Program, bare_environment
from schemas.topics import DECISIONS, TOPICS
from tests.torture.pipeline import wait_until

PATIENCE = 150.0
FAULT = ("--node-uid", "u1", "--node", "n1", "--chip", "GPU-1", "--namespace", "xid", "--code", "79")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as running:
        yield running


def relight(broker: EmbeddedBroker, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "relight.cli", *arguments],
        env={**environment(broker), **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def environment(broker: EmbeddedBroker) -> dict[str, str]:
    return {
        **bare_environment(Path(os.devnull)),
        **broker.environment,
        "RELIGHT_KAFKA__BOOTSTRAP": broker.bootstrap,
        "RELIGHT_CLUSTER": "lab",
    }


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_published_fault_is_routed_decided_and_in_the_store(
    broker: EmbeddedBroker, store_settings: StoreSettings, tmp_path: Path
) -> None:
    at = {
        "RELIGHT_STORE__PORT": str(store_settings.port),
        "RELIGHT_STORE__DATABASE": store_settings.database,
    }
    told = relight(broker, "audit", "migrate", **at)
    assert told.returncode == 0, told.stderr
    names = {"router": ("router",), "recovery": ("recovery",), "audit": ("audit", "run")}
    programs = [
        Program(name, words, folder=tmp_path, environment={**environment(broker), **at})
        for name, words in names.items()
    ]
    for program in programs:
        program.launch()
    try:
        for words in (("rules", "release"), ("publish", "--id", "fault-1", "chip-fault", *FAULT)):
            told = relight(broker, *words, USER="sre")
            assert told.returncode == 0, told.stderr
        with Store(store_settings, store_settings.reader) as store:
            decided = f"SELECT count() FROM {store_settings.database}.decisions WHERE trigger = 'fault-1'"
            wait_until(
                lambda: store.rows(decided)[0][0] == 1, "its decision is in the store", patience=PATIENCE
            )
    except AssertionError as error:
        pytest.fail(
            f"{error}\n" + "\n".join(program.log_file.read_text("utf-8")[-2000:] for program in programs)
        )
    finally:
        for program in programs:
            program.kill()
    tail = ("topics", "tail", DECISIONS.name, "--from-start", "--for", "0.5")
    # A busy machine needs longer for the first.
    wait_until(lambda: "fault-1" in relight(broker, *tail).stdout, "it is read in the topic")


def test_its_stamps_are_no_times_and_no_clock_is_compared_with_them(broker: EmbeddedBroker) -> None:
    stamps: list[tuple[int, int]] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(
        DECISIONS.name, value=b"x", on_delivery=lambda _, message: stamps.append(message.timestamp())
    )
    producer.flush(20)

    ((kind, milliseconds),) = stamps
    assert (kind, milliseconds / 1000) == (TIMESTAMP_LOG_APPEND_TIME, MADE_UP)


def test_topics_of_the_catalogue_are_there_and_another_appears_when_asked_for(broker: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    found = admin.list_topics(timeout=10).topics

    assert {name: len(topic.partitions) for name, topic in found.items()} == {
        topic.name: embedded_broker.PARTITIONS for topic in TOPICS
    }
    assert len(admin.list_topics("another", timeout=10).topics["another"].partitions) == 4


def test_topics_create_and_check_say_at_once_what_can_be_said_of_it(broker: EmbeddedBroker) -> None:
    def topics(word: str, **variables: str) -> Result:
        return CliRunner(env={**environment(broker), **variables}).invoke(main, ["topics", word])

    made = topics("create", RELIGHT_TOPICS__PREFIX="mine.")
    assert (made.exit_code, len(made.stdout.splitlines())) == (0, len(TOPICS))
    assert topics("create").stdout == "nothing to create\n"

    wrong = topics("create", RELIGHT_TOPICS__PARTITIONS="48")
    assert wrong.exit_code == 1
    assert "inbox.v1: number of partitions is 4; right would be 48" in wrong.stderr

    check = topics("check")
    assert check.exit_code == 1
    assert "a stand-in that keeps no settings" in check.stderr


def test_a_frozen_broker_goes_on_with_what_it_had_and_a_killed_one_comes_back_empty(
    broker: EmbeddedBroker,
) -> None:
    def end() -> int:
        asking = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "asking"})
        try:
            return asking.get_watermark_offsets(TopicPartition("signals.v1", 0), timeout=10)[1]
        finally:
            asking.close()

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    broker.suspend()
    producer.produce("signals.v1", b"said while it stood", partition=0)
    assert producer.flush(0.2) == 1
    broker.resume()
    assert producer.flush(30) == 0
    assert end() == 1

    broker.restart()

    assert end() == 0


def test_it_ends_with_its_starter_and_says_when_it_has_no_address(tmp_path: Path) -> None:
    stopped = EmbeddedBroker(tmp_path / "broker")
    with pytest.raises(NotRunning, match="address"):
        _ = stopped.bootstrap

    with stopped as running:
        assert running.is_running
    assert not stopped.is_running
