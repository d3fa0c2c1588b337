"""What the stage leans on in Faust, proven on the pinned versions with a real broker.

Nothing is read before a partition was taken up, and reading then begins where the stage says, whatever the group had committed.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import pytest
from aiokafka.errors import IllegalStateError
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewTopic
from faust.types import TP

from runtime.errors import PinError
from runtime.health import Health
from runtime.kafka import KafkaClients
from runtime.metrics import StreamMetrics
from runtime.settings import ConsumerSettings, KafkaSettings
from sandbox.kafka_server import KafkaBroker
from streams import pins
from streams.faust_shell import FaustShell
from streams.ports import Message, PartitionWorker, Place
from streams.settings import GroupingSettings, StreamSettings

MESSAGES, COMMITTED, POSITION = 20, 15, 7
"""The group is told 15 by hand; the state says 7."""
PATIENCE = 90
LOADING = 0.3
"""Seconds a partition takes to load, with messages waiting: a reader that does not wait would read meanwhile."""


ORDER = [
    "revoked",
    "assigned",
    "closed",
    "loading",
    "loaded",
    "complete",
    "partitions resumed",
    "seek",
    "flow resumed",
    "handled",
]
"""Of a rebalance. One that changes nothing for a member, or is cut short by the next, leaves something out."""


class Diary:
    """What happened, in order; entries of the same name in a row are one."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.closed = False
        """Nothing is written down any more."""

    def note(self, what: str) -> None:
        """Write down."""
        if not self.closed and self.entries[-1:] != [what]:
            self.entries.append(what)

    def around(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, written down before it is made."""

        @functools.wraps(call)
        def noted(*arguments: Any, **named: Any) -> Any:
            self.note(what)
            return call(*arguments, **named)

        return noted


class Worker:
    """Handles by writing down."""

    def __init__(self, diary: Diary) -> None:
        self.position = POSITION
        self.blocked: str | None = None
        self.had: list[int] = []
        self._diary = diary

    async def handle(self, messages: Sequence[Message]) -> None:
        """Remember the offsets."""
        self._diary.note("handled")
        self.had += [message.offset for message in messages]
        self.position = self.had[-1] + 1

    async def idle(self) -> None:
        """Nothing to write."""

    async def settle(self) -> None:
        """Nothing is under way."""

    async def close(self) -> None:
        """Nothing to let go of."""
        self._diary.note("closed")


class Stage:
    """Takes its time to load."""

    def __init__(self, diary: Diary) -> None:
        self.workers: dict[Place, Worker] = {}
        self._diary = diary

    async def open(self, place: Place) -> PartitionWorker:
        """Load for a while."""
        self._diary.note("loading")
        await asyncio.sleep(LOADING)
        self._diary.note("loaded")
        self.workers[place] = Worker(self._diary)
        return self.workers[place]


class Member:
    """One member of the group in this process, with a diary."""

    def __init__(self, settings: StreamSettings, topic: str) -> None:
        self.diary = Diary()
        self.stage = Stage(self.diary)
        self.shell = FaustShell(
            "order", [topic], self.stage, GroupingSettings(), settings, StreamMetrics("order"), Health()
        )
        app, note = self.shell.app, self.diary.around
        for signal, what in (
            (app.on_partitions_revoked, "revoked"),
            (app.on_partitions_assigned, "assigned"),
            (app.on_rebalance_complete, "complete"),
        ):
            untyped: Any = signal
            untyped.send = self._then(untyped.send, what)
        consumer: Any = app.consumer
        consumer.resume_partitions = note("partitions resumed", consumer.resume_partitions)
        consumer.perform_seek = note("seek", consumer.perform_seek)
        consumer.resume_flow = note("flow resumed", consumer.resume_flow)

    def _then(self, send: Callable[..., Any], what: str) -> Callable[..., Any]:
        """The signal, written down when everybody has been told and has done what it does then."""

        async def sent(*arguments: object, **named: object) -> None:
            await send(*arguments, **named)
            self.diary.note(what)

        return sent

    def had(self) -> list[int]:
        """Offsets handled, all partitions together."""
        return sorted(offset for worker in self.stage.workers.values() for offset in worker.had)


def rebalances(diary: Diary) -> list[list[str]]:
    """What was noted, one list for each rebalance.

    Without the seeks of Faust's fetcher, which takes back at any time what it had fetched when the flow stopped: nothing of it was handed out.
    """
    found: list[list[str]] = [[]]
    for entry in diary.entries:
        if entry == "revoked":
            found.append([])
        if entry == "seek" and found[-1][-1:] != ["partitions resumed"]:
            continue
        found[-1].append(entry)
    assert found[0] == []
    return found[1:]


async def until(is_so: Callable[[], bool], what: str, diary: Diary) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not is_so():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"not within {PATIENCE} s: {what}; {diary.entries}")


def fill(settings: StreamSettings, topic: str, partitions: int) -> None:
    """Messages in each partition, and a commit that is wrong."""
    clients = KafkaClients(settings.kafka, "order")
    admin = clients.admin()
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)
    producer = clients.producer()
    for number in range(MESSAGES):
        for partition in range(partitions):
            producer.produce(topic, value=b"%d" % number, partition=partition)
    assert producer.flush(20) == 0
    wrong = [TopicPartition(topic, partition, COMMITTED) for partition in range(partitions)]
    committer = clients.reader(settings.identity("order"))
    committer.commit(offsets=wrong, asynchronous=False)
    committer.close()


def settings_for(kafka: KafkaBroker, topic: str) -> StreamSettings:
    return StreamSettings(
        kafka=KafkaSettings(bootstrap=kafka.bootstrap, replication_factor=1, min_insync_replicas=1),
        topics=StreamSettings().topics.model_copy(update={"prefix": f"{topic}."}),
        consumer=ConsumerSettings.model_validate({"session_timeout": "3s", "heartbeat": "500ms"}),
    )


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nothing_is_read_before_a_partition_is_taken_up_and_then_from_where_the_stage_says(
    kafka: KafkaBroker, topic_name: str
) -> None:
    settings = settings_for(kafka, topic_name)
    fill(settings, topic_name, 2)

    async def main() -> tuple[Member, Member]:
        first, second = Member(settings, topic_name), Member(settings, topic_name)
        await first.shell.app.start()
        await until(lambda: len(first.had()) == 2 * (MESSAGES - POSITION), "all is read", first.diary)
        await second.shell.app.start()
        await until(lambda: len(second.had()) == MESSAGES - POSITION, "the second reads", second.diary)
        for member in (second, first):
            member.diary.closed = True
            await member.shell.stop()
            await member.shell.app.stop()
        return first, second

    first, second = asyncio.run(main())

    for member in (first, second):
        for rebalance in rebalances(member.diary):
            assert rebalance == sorted(rebalance, key=ORDER.index), member.diary.entries
    taken_up = [step for step in ORDER if step != "closed"]
    assert taken_up in rebalances(first.diary)
    assert taken_up in rebalances(second.diary)
    assert any("closed" in rebalance for rebalance in rebalances(first.diary)), "the first lost nothing"
    assert first.had() == sorted([*range(POSITION, MESSAGES)] * 2)
    assert second.had() == [*range(POSITION, MESSAGES)]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_seek_is_made_in_the_thread_that_reads_and_one_of_a_partition_that_moved_on_is_none(
    kafka: KafkaBroker, topic_name: str
) -> None:
    """Made in ours, it once took a batch away under the reader's hands (KeyError in aiokafka's fetcher), and the worker died."""
    settings = settings_for(kafka, topic_name)
    fill(settings, topic_name, 1)
    seeks: list[tuple[int, int]] = []

    async def main() -> None:
        member = Member(settings, topic_name)
        await member.shell.app.start()
        await until(lambda: len(member.had()) == MESSAGES - POSITION, "all is read", member.diary)
        holding = member.shell.holdings.get(Place(topic_name, 0))
        assert holding is not None
        client: Any = member.shell.app.consumer._thread._ensure_consumer()  # type: ignore[attr-defined]
        seek = client.seek

        def noted(topic_partition: TP, offset: int) -> None:
            seeks.append((threading.get_ident(), offset))
            if len(seeks) > 1:
                raise IllegalStateError
            seek(topic_partition, offset)

        client.seek = noted
        await member.shell.overseer.read_on(holding)
        await member.shell.overseer.read_on(holding)
        member.diary.closed = True
        await member.shell.stop()
        await member.shell.app.stop()

    asyncio.run(main())

    assert [offset for _, offset in seeks] == [MESSAGES, MESSAGES]
    assert threading.get_ident() not in {thread for thread, _ in seeks}


@pytest.mark.parametrize("library", pins.PROVEN)
def test_the_versions_this_was_proven_with_are_installed_and_no_other_is_started(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert version(library) == pins.PROVEN[library]
    pins.check_pins()
    monkeypatch.setitem(pins.PROVEN, library, "0.0.1")
    with pytest.raises(PinError, match=f"{library} is .*, proven is 0.0.1"):
        pins.check_pins()
