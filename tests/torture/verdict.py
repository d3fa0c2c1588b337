"""Waits until a pipeline has come to rest, and compares what stands in its topics with the oracle's answer."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from schemas import topics
from schemas.envelope import decode
from streams.core import Core
from streams.state_records import CELL, POSITION_KEY, Position, cell_key, read_key
from tests.torture.oracle import Oracle
from tests.torture.pipeline import PARTITIONS, Pipeline, wait_until

REST = 0.6
"""Seconds without a new message: longer than the toy's nap, so that no tick is on its way."""

CellKey = tuple[int, str, str, str]


class Referee:
    """Follows one pipeline with one oracle."""

    def __init__(self, pipeline: Pipeline, core: Core) -> None:
        self.oracle = Oracle(core)
        self._pipeline = pipeline
        self._core = core
        self._read_to: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    def wait_for_rest(self, patience: float = 60.0) -> None:
        """Return when every message is applied, no tick is outstanding, and nothing new came for a while."""
        quiet_since = time.monotonic()
        seen: dict[int, int] = {}

        def is_at_rest() -> bool:
            nonlocal quiet_since, seen
            self._pipeline.require_alive()
            ends = self._pipeline.ends(topics.INBOX)
            if ends != seen:
                seen, quiet_since = ends, time.monotonic()
                return False
            if time.monotonic() - quiet_since < REST:
                return False
            if self._pipeline.committed("recovery") != {number: end or -1001 for number, end in ends.items()}:
                return False
            self._read_on()
            return not self.oracle.waiting() and {
                number: position for number, position in self.positions().items() if ends[number]
            } == {number: end for number, end in ends.items() if end}

        wait_until(is_at_rest, "the pipeline comes to rest", patience=patience, every=0.1)

    def positions(self) -> dict[int, int]:
        """Position of each partition by the state log."""
        found: dict[int, int] = {}
        for message in self._pipeline.read_all(topics.STATE):
            if message.key() == POSITION_KEY:
                found[message.partition() or 0] = Position.model_validate_json(message.value() or b"").next
        return found

    def cells(self) -> dict[CellKey, bytes]:
        """Every cell that stands in the state log, encoded by the core once more."""
        last: dict[CellKey, bytes | None] = {}
        for message in self._pipeline.read_all(topics.STATE):
            parts = read_key(message.key() or b"")
            if parts[0] == CELL:
                last[message.partition() or 0, parts[1], parts[2], parts[3]] = message.value()
        return {key: self._core.encode_cell(self._core.decode_cell(raw)) for key, raw in last.items() if raw}

    def differences(self) -> dict[CellKey, tuple[bytes | None, bytes | None]]:
        """Cells that are not as they should be: what is right, what stands there."""
        self._read_on()
        right, found = self.oracle.encoded_cells(), self.cells()
        return {
            key: (right.get(key), found.get(key))
            for key in right.keys() | found.keys()
            if right.get(key) != found.get(key)
        }

    def sent(self) -> set[tuple[str, str, str]]:
        """Topic, id and origin of everything the stage sent."""
        inbox = self._pipeline.read_all(topics.INBOX)
        return {
            *_identities(topics.COMMANDS, self._pipeline.read_all(topics.COMMANDS)),
            *(sent for sent in _identities(topics.INBOX, inbox) if sent[2].startswith("recovery/")),
        }

    def check(self, counted: Counter[str]) -> None:
        """Cells, emits and occurrences are those of the straight run and of the script."""
        wrong = self.differences()
        assert not wrong, f"{len(wrong)} cells differ, such as {next(iter(wrong.items()))}"
        sent = self.sent()
        assert sent == self.oracle.emits, (
            f"missing {len(self.oracle.emits - sent)}, never decided {len(sent - self.oracle.emits)}: "
            f"{next(iter(self.oracle.emits ^ sent))}"
        )
        found = self.counted()
        miscounted = {
            subject: (right, found.get(subject, 0))
            for subject, right in counted.items()
            if found.get(subject, 0) != right
        }
        assert not miscounted, (
            f"{len(miscounted)} subjects miscounted, such as {next(iter(miscounted.items()))}"
        )

    def counted(self) -> dict[str, int]:
        """How often each subject counted."""
        return {
            subject: getattr(cells["toy"], "count", -1)
            for answer in self.oracle.partitions.values()
            for (_, subject), cells in answer.cells.items()
            if "toy" in cells
        }

    def _read_on(self) -> None:
        for partition in range(PARTITIONS):
            for message in self._pipeline.read(topics.INBOX, partition, self._read_to[partition]):
                self.oracle.take(message)
                self._read_to[partition] = (message.offset() or 0) + 1


class ChainWatch:
    """Reads the state log all along and sees whether each position begins where the last one ended."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.broken: list[str] = []
        self.links = 0
        self._pipeline = pipeline
        self._last: dict[int, int] = defaultdict(int)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        consumer = self._pipeline.clients.reader()
        name = self._pipeline.name(topics.STATE)
        consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        while not self._stop.is_set():
            for message in consumer.consume(1000, 0.1):
                if message.error() is None and message.key() == POSITION_KEY:
                    self._see(message)
        consumer.close()

    def _see(self, message: Message) -> None:
        partition = message.partition() or 0
        position = Position.model_validate_json(message.value() or b"")
        self.links += 1
        if position.first != self._last[partition]:
            self.broken.append(
                f"state/{partition}@{message.offset()}: from {position.first}, the one before ended at {self._last[partition]}"
            )
        self._last[partition] = position.next


def superseded_offsets(pipeline: Pipeline) -> set[tuple[int, int]]:
    """Records of the state log that a later one of the same key has replaced, and that are still there."""
    last: dict[tuple[int, bytes], int] = {}
    old: set[tuple[int, int]] = set()
    for message in pipeline.read_all(topics.STATE):
        place = (message.partition() or 0, message.key() or b"")
        if place in last:
            old.add((place[0], last[place]))
        last[place] = message.offset() or 0
    return old


def force_compaction(pipeline: Pipeline) -> int:
    """Make the broker clean the state log now; returns how many records are gone for good. Fails when none are."""
    before = superseded_offsets(pipeline)
    producer = pipeline.clients.producer()
    poke = cell_key(("", ""), "poke").replace(b"cell", b"poke")  # a kind that the stage does not know

    def is_cleaned() -> bool:
        for partition in range(PARTITIONS):  # one more record closes the segment before it
            producer.produce(pipeline.name(topics.STATE), key=poke, value=b"", partition=partition)
        producer.flush()
        return len(superseded_offsets(pipeline) & before) < len(before) / 2

    if before:
        wait_until(is_cleaned, "the state log is compacted", every=0.5)
    return len(before - superseded_offsets(pipeline))


def _identities(topic: topics.Topic, messages: Iterable[Message]) -> Iterable[tuple[str, str, str]]:
    for message in messages:
        event = decode(message.value() or b"")
        yield topic.name, event.id, event.origin or ""
