"""Waits until a pipeline has handled what it was given, and compares what stands in its topics with the oracle's answer.

Compared is a cut: cells and position of a partition as they stand in one reading of the state log, with `advance` folded over the inbox up to
that very position. So nothing has to stand still meanwhile: deadlines may come due, actuators may answer.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from schemas import topics
from schemas.envelope import Origin, decode
from streams.core import Core
from streams.state_records import CELL, POSITION_KEY, Position, cell_key, read_key
from tests.torture.oracle import Oracle
from tests.torture.pipeline import PARTITIONS, Pipeline, wait_until

REST: Final = 0.6
"""Seconds without a new message: longer than the toy's nap, so that no tick is on its way."""
OVERDUE: Final = timedelta(seconds=2)
"""A due time so long past without its tick in the inbox: the tick is not coming."""

CellKey = tuple[int, str, str, str]
Sent = tuple[str, str, str]
"""Topic, event id and origin."""

EMITTED: Final = (topics.COMMANDS, topics.DECISIONS, topics.INCIDENTS, topics.INBOX)


@dataclass
class Standing:
    """One reading of the state log."""

    raw: dict[CellKey, bytes] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)


class Referee:
    """Follows one pipeline with one oracle."""

    def __init__(self, pipeline: Pipeline, core: Core, rulebooks: Mapping[str, Any] | None = None) -> None:
        self.oracle = Oracle(core, rulebooks)
        self._pipeline = pipeline
        self._core = core
        self._settled: set[Sent] = set()
        self._ahead: list[tuple[Sent, Origin]] = []
        """Sent for messages beyond the last cut."""
        self._emits_read_to: dict[tuple[str, int], int] = defaultdict(int)

    # ------------------------------------------------------------------ waiting

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
            if time.monotonic() - quiet_since < REST or not self._told_the_group(ends):
                return False
            positions = self.cut().positions
            return not self.oracle.waiting() and all(
                positions.get(number) == end for number, end in ends.items() if end
            )

        wait_until(is_at_rest, "the pipeline comes to rest", patience=patience, every=0.1)

    def wait_until_applied(self, patience: float) -> None:
        """Return when everything that stands in the inbox now is applied, and every tick came that was due."""
        wanted = self._pipeline.ends(topics.INBOX)

        def is_applied() -> bool:
            self._pipeline.require_alive()
            if not self._told_the_group(wanted):
                return False
            positions = self.cut().positions
            overdue = datetime.now(UTC) - OVERDUE
            return all(positions.get(number, 0) >= end for number, end in wanted.items()) and not any(
                due < overdue for due in self.oracle.waiting()
            )

        wait_until(is_applied, "the workers have applied everything", patience=patience, every=0.3)

    def _told_the_group(self, wanted: Mapping[int, int]) -> bool:
        committed = self._pipeline.committed("recovery")
        return all(committed[number] >= end for number, end in wanted.items() if end)

    # ------------------------------------------------------------------ comparing

    def cut(self) -> Standing:
        """Read the state log, and fold the oracle up to the positions that stand in it."""
        standing = self.standing()
        for number, position in standing.positions.items():
            self.oracle.fold(self._pipeline, number, position)
        return standing

    def standing(self) -> Standing:
        """Read the state log."""
        standing = Standing()
        for message in self._pipeline.read_all(topics.STATE):
            number = message.partition() or 0
            parts = read_key(message.key() or b"")
            value = message.value()
            if message.key() == POSITION_KEY:
                standing.positions[number] = Position.model_validate_json(value or b"").next
            elif parts[0] == CELL:
                key = (number, parts[1], parts[2], parts[3])
                if value:
                    standing.raw[key] = value
                else:
                    standing.raw.pop(key, None)
        return standing

    def differences(
        self, standing: Standing | None = None
    ) -> dict[CellKey, tuple[bytes | None, bytes | None]]:
        """Cells that are not as they should be: what is right, what stands there."""
        standing = standing or self.cut()
        right = self.oracle.encoded_cells()
        found = {
            key: self._core.encode_cell(self._core.decode_cell(raw)) for key, raw in standing.raw.items()
        }
        return {
            key: (right.get(key), found.get(key))
            for key in right.keys() | found.keys()
            if right.get(key) != found.get(key)
        }

    def sent(self) -> set[Sent]:
        """What the stage sent for the messages below the last cut; what it sent beyond may be half of it."""
        news = self._ahead
        for topic in EMITTED:
            for number in range(PARTITIONS):
                for message in self._pipeline.read(topic, number, self._emits_read_to[topic.name, number]):
                    assert message.offset() == self._emits_read_to[topic.name, number], "an emit was not read"
                    self._emits_read_to[topic.name, number] += 1
                    event = decode(message.value() or b"")
                    origin = event.origin_parts
                    if origin is not None and origin.stage == "recovery":
                        news.append(((topic.name, event.id, str(origin)), origin))
        settled = {
            sent for sent, origin in news if origin.offset < self.oracle.partitions[origin.partition].next
        }
        self._ahead = [(sent, origin) for sent, origin in news if sent not in settled]
        self._settled |= settled
        return self._settled

    def check(self) -> Standing:
        """Cells and emits are those of the straight run; returns what was compared."""
        standing = self.cut()
        wrong = self.differences(standing)
        assert not wrong, f"{len(wrong)} cells differ, such as {next(iter(wrong.items()))}"
        sent, right = self.sent(), self.oracle.emits
        assert sent == right, (
            f"missing {len(right - sent)}, never decided {len(sent - right)}: {next(iter(right ^ sent))}"
        )
        return standing

    def counted(self) -> dict[str, int]:
        """How often each subject of the toy counted."""
        return {
            subject: getattr(cells["toy"], "count", -1)
            for answer in self.oracle.partitions.values()
            for (_, subject), cells in answer.cells.items()
            if "toy" in cells
        }


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
