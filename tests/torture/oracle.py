"""The right answer: `advance` folded over the inbox as it stands, in offset order, one message after the other.

Deliberately another program than the stage: no groups, no overlay, no transactions, no heap. It knows the rules only: what is not readable or
belongs to a halted subject is skipped, so is a tick before its time and an order to resume that had come already, a message that makes the core
raise halts its subject.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Message

from recovery.interface import Cell, Delivery
from schemas import topics
from schemas.envelope import Event, Origin, decode
from schemas.errors import DecodeError
from schemas.mailbox import ResumeOrder, RulebookSwitch, Tick
from streams.core import Core
from tests.torture.pipeline import Pipeline

Subject = tuple[str, str]

CELL_CAP = 256 * 1024


@dataclass
class PartitionAnswer:
    """What one inbox partition comes to."""

    next: int = 0
    now: datetime = field(default_factory=lambda: datetime.fromtimestamp(0, UTC))
    cells: dict[Subject, dict[str, Cell]] = field(default_factory=lambda: defaultdict(dict))
    rulebook: Any = None
    halted: set[Subject] = field(default_factory=set)
    resumes: set[tuple[str, str, str]] = field(default_factory=set)
    """Orders to resume that came, by cluster, subject and id: each acts once."""

    def had_already(self, resume: tuple[str, str, str]) -> bool:
        """Whether it came before; from now on it has."""
        is_known = resume in self.resumes
        self.resumes.add(resume)
        return is_known


class Oracle:
    """Folds on as the inbox grows."""

    def __init__(self, core: Core, rulebooks: Mapping[str, Any] | None = None) -> None:
        self.partitions: dict[int, PartitionAnswer] = defaultdict(PartitionAnswer)
        self.emits: set[tuple[str, str, str]] = set()
        """Topic, event id, origin of everything the stage has to have sent."""
        self._core = core
        self._rulebooks = rulebooks or {}

    def fold(self, pipeline: Pipeline, number: int, position: int) -> None:
        """Apply a partition's messages up to `position`."""
        answer = self.partitions[number]
        assert answer.next <= position, f"the position of inbox/{number} went back to {position}"
        for message in pipeline.read(topics.INBOX, number, answer.next):
            if (message.offset() or 0) >= position:
                return
            self.take(message)

    def take(self, message: Message) -> None:
        """Apply the next message of a partition."""
        number, offset, timestamp = message.partition(), message.offset(), message.timestamp()[1]
        assert number is not None
        assert offset is not None
        answer = self.partitions[number]
        assert offset == answer.next, f"inbox/{number} has no offset {answer.next}: it must be dense"
        answer.next = offset + 1
        answer.now = max(answer.now, datetime.fromtimestamp(timestamp / 1000, UTC))
        try:
            event = decode(message.value() or b"")
        except DecodeError:
            return
        if isinstance(event.data, RulebookSwitch):
            answer.rulebook = self._rulebooks[event.data.rulebook]
            return
        self._deliver(answer, event, datetime.fromtimestamp(timestamp / 1000, UTC), number, offset)

    def waiting(self) -> list[datetime]:
        """Due times that no tick has answered yet."""
        return [
            cell.due
            for answer in self.partitions.values()
            for subject, cells in answer.cells.items()
            if subject not in answer.halted
            for cell in cells.values()
            if cell.due is not None
        ]

    def encoded_cells(self) -> dict[tuple[int, str, str, str], bytes]:
        """Every cell by partition, cluster, subject and name."""
        return {
            (number, cluster, subject, name): self._core.encode_cell(cell)
            for number, answer in self.partitions.items()
            for (cluster, subject), cells in answer.cells.items()
            for name, cell in cells.items()
        }

    def _deliver(
        self, answer: PartitionAnswer, event: Event, arrival: datetime, number: int, offset: int
    ) -> None:
        subject = (event.cluster, event.subject)
        if isinstance(event.data, ResumeOrder) and answer.had_already((*subject, event.id)):
            return
        if subject in answer.halted:
            if isinstance(event.data, ResumeOrder):
                answer.halted.discard(subject)
                answer.cells.pop(subject, None)
            return
        if isinstance(event.data, Tick) and answer.now < event.data.due:
            return
        rulebook = answer.rulebook or self._core.empty
        try:
            done = self._core.advance(answer.cells[subject], Delivery(event, arrival, answer.now), rulebook)
            if any(
                len(self._core.encode_cell(cell)) > CELL_CAP
                for cell in done.cells.values()
                if cell is not None
            ):
                raise ValueError("a cell above the cap")  # noqa: TRY301 - as if the core had raised
        except Exception:  # noqa: BLE001 - whatever the core raises halts its subject
            answer.halted.add(subject)
            return
        for name, cell in done.cells.items():
            if cell is None:
                answer.cells[subject].pop(name, None)
            else:
                answer.cells[subject][name] = cell
        for index, emit in enumerate(done.emits):
            origin = str(Origin("recovery", number, offset, index))
            self.emits.add((emit.topic, emit.event.id, origin))
