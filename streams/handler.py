"""Messages of one inbox partition to a `Group`: deterministic, and without changing anything.

From the same memory the same messages give the same group. So a crash before the confirmation repeats the same emits with the same origins,
which their mailboxes drop, and a crash after it repeats none.

A message that makes the core raise again and again halts its subject, and only it: a `halted` record, a word to its supervisors to go on
without us, a decision for people, the message to the dead letters; then the partition goes on (finding Q27). An order to resume takes it up
again, and acts once: told again on its way it lifts no halt that came after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from confluent_kafka.cimpl import murmur2

from recovery.interface import Cell, Delivery, Emit
from runtime.settings import Clock
from schemas import topics
from schemas.envelope import MAX_EVENT_BYTES, Event, Origin, encode
from schemas.ids import PARTITION, mailbox_key, subject_kind, subject_name
from schemas.mailbox import PartitionGap, ResumeOrder, RulebookSwitch, Tick
from streams import stage_events
from streams.core import Core
from streams.dead_letters import DeadLetters, Reason
from streams.due_times import Due
from streams.errors import CellTooLarge, EmitTooLarge
from streams.group import Group
from streams.memory import Memory
from streams.ports import Message, Send
from streams.reading import Unreadable, read
from streams.state_records import (
    RESUMES_KEY,
    RULEBOOK_KEY,
    ActiveRulebook,
    Halt,
    Resumes,
    SubjectKey,
    cell_key,
    halted_key,
)

STAGE: Final = "recovery"
FORWARDED: Final = "relight.forwarded"
"""Header of a message that came to the wrong partition and was sent on once."""

RESUMES_KEPT: Final = 128
"""Orders to resume that a partition remembers: a repetition comes within seconds, and people give few."""
_ERROR_TEXT: Final = 1000


@dataclass(frozen=True, slots=True)
class HandlingLimits:
    """What the handling of a partition is told by the settings."""

    partitions: int
    clock: Clock
    cell_bytes: int
    raises: int
    tick_min: timedelta


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One call of the core, encoded and measured."""

    cells: list[tuple[str, Cell | None, bytes | None]]
    sends: list[Send]


class Handler:
    """Handles the messages of one inbox partition."""

    def __init__(
        self,
        number: int,
        memory: Memory,
        core: Core,
        limits: HandlingLimits,
        dead_letters: DeadLetters,
        topic_name: Callable[[str], str],
    ) -> None:
        self.number = number
        self._memory = memory
        self._core = core
        self._limits = limits
        self._dead_letters = dead_letters
        self._topic_name = topic_name
        self._inbox = topic_name(topics.INBOX.name)
        self._index = 0
        """Of the next emit of the message at hand."""

    def handle(self, messages: Sequence[Message]) -> Group:
        """Apply messages in order. Ends early only before a switch to another rulebook, see `Group.needs`."""
        memory = self._memory
        first = messages[0].offset if memory.position is None else memory.position
        due = memory.due.copy() if self._limits.clock is Clock.EVENT else None
        group = Group(first=first, next=first, now=memory.now, due=due)
        for message in messages:
            self._index = 0
            self._take(group, message)
            if group.needs is not None:
                break
            _passed(group, message)
        return group

    def switch(self, group: Group, rulebook: Any, message: Message) -> None:  # noqa: ANN401 - see Core
        """The content that the group needed is here: take `message`, which is the switch, as well."""
        group.needs = None
        group.rulebook = rulebook
        group.records[RULEBOOK_KEY] = ActiveRulebook(rulebook=str(rulebook.hash)).encode()
        _passed(group, message)

    def ticks(self, now: datetime) -> list[Send]:
        """Take out of the heap what is due by `now` and still wanted; they go to this very partition.

        None with `clock: event`: there no time passes between messages, and ticks are made while these are handled.
        """
        if self._limits.clock is Clock.EVENT:
            return []
        return [
            Send(
                topic=self._inbox,
                key=mailbox_key(*entry.subject),
                value=encode(stage_events.tick(self.number, entry)),
                partition=self.number,
            )
            for entry in self._memory.due.ready(now)
            if _is_wanted(entry, self._memory.cells_of(entry.subject))
            if entry.subject not in self._memory.halted
        ]

    # ------------------------------------------------------------------ one message

    def _take(self, group: Group, message: Message) -> None:
        append_time = datetime.fromtimestamp(message.timestamp, UTC)
        if self._limits.clock is Clock.BROKER:
            group.now = max(group.now, append_time)
        event = read(message.value)
        if isinstance(event, Unreadable):
            self._bury(group, message, event.reason, event.detail)
            return
        if subject_kind(event.subject) == PARTITION:
            self._take_stage_message(group, message, event)
            return
        if self._is_misplaced(message, event):
            self._forward(group, message, event)
            return
        if self._limits.clock is Clock.BROKER:
            self._deliver(group, message, event, append_time)
            return
        self._let_time_pass(group, message, event.time)
        self._deliver(group, message, event, event.time)

    def _deliver(self, group: Group, message: Message, event: Event, arrival: datetime) -> None:
        subject = (event.cluster, event.subject)
        if isinstance(event.data, ResumeOrder) and not self._is_news(group, event):
            return
        if self._is_halted(group, subject):
            self._deliver_to_halted(group, message, event)
            return
        if isinstance(event.data, Tick) and group.now < event.data.due:
            wait = max(event.data.due - group.now, self._limits.tick_min)
            group.early.append((Due(event.data.due, event.data.due, subject, event.data.cell), wait))
            group.counts["early"] += 1
            return
        self._advance(group, message, event, arrival)

    def _advance(self, group: Group, message: Message, event: Event, arrival: datetime) -> None:
        subject = (event.cluster, event.subject)
        delivery = Delivery(event=event, arrival=arrival, now=group.now)
        for attempt in range(1, self._limits.raises + 1):
            try:
                outcome = self._call_core(group, subject, delivery, message.offset)
            except Exception as error:  # noqa: BLE001 - the core is pure: whatever it raises is about this message
                if attempt == self._limits.raises:
                    self._halt(group, message, event, error)
            else:
                self._merge(group, subject, outcome)
                return

    def _call_core(self, group: Group, subject: SubjectKey, delivery: Delivery, offset: int) -> _Outcome:
        if subject in self._memory.unreadable and subject not in group.subjects:
            raise ValueError(self._memory.unreadable[subject])
        rulebook = self._memory.rulebook if group.rulebook is None else group.rulebook
        done = self._core.advance(self._cells(group, subject), delivery, rulebook)
        cells = [(name, cell, self._encode_cell(name, cell)) for name, cell in done.cells.items()]
        sends = [
            self._encode_emit(emit, offset, self._index + place) for place, emit in enumerate(done.emits)
        ]
        return _Outcome(cells, sends)

    def _encode_cell(self, name: str, cell: Cell | None) -> bytes | None:
        if cell is None:
            return None
        raw = self._core.encode_cell(cell)
        if len(raw) > self._limits.cell_bytes:
            raise CellTooLarge(
                f"cell {name!r} has {len(raw):,} bytes; the cap is {self._limits.cell_bytes:,}"
            )
        return raw

    def _encode_emit(self, emit: Emit, offset: int, index: int) -> Send:
        origin = Origin(STAGE, self.number, offset, index)
        raw = encode(emit.event.model_copy(update={"origin": str(origin)}))
        if len(raw) > MAX_EVENT_BYTES:
            raise EmitTooLarge(
                f"{emit.event.type} to {emit.topic} has {len(raw):,} bytes; the limit is {MAX_EVENT_BYTES:,}"
            )
        return Send(
            topic=self._topic_name(emit.topic), key=mailbox_key(emit.event.cluster, emit.key), value=raw
        )

    def _merge(self, group: Group, subject: SubjectKey, outcome: _Outcome) -> None:
        self._index += len(outcome.sends)
        group.sends += outcome.sends
        if not outcome.cells:
            return
        cells = group.subjects.get(subject)
        if cells is None:
            cells = group.subjects[subject] = dict(self._memory.cells_of(subject))
        for name, cell, raw in outcome.cells:
            before = cells.pop(name, None)
            group.records[cell_key(subject, name)] = raw
            if cell is None:
                continue
            cells[name] = cell
            if cell.due is not None and (before is None or before.due != cell.due):
                group.arm(Due(cell.due, cell.due, subject, name))

    # ------------------------------------------------------------------ time of replays

    def _let_time_pass(self, group: Group, message: Message, until: datetime) -> None:
        """With `clock: event` time is what the messages say: ticks due before this one are handled before it, in order."""
        until = max(group.now, until)
        for entry in group.due.ready(until) if group.due is not None else ():
            if not _is_wanted(entry, self._cells(group, entry.subject)) or self._is_halted(
                group, entry.subject
            ):
                continue
            group.now = max(group.now, entry.due)
            self._advance(group, message, stage_events.tick(self.number, entry), entry.due)
        group.now = until

    # ------------------------------------------------------------------ halted subjects

    def _halt(self, group: Group, message: Message, event: Event, error: Exception) -> None:
        subject = (event.cluster, event.subject)
        said = f"{type(error).__name__}: {error}"[:_ERROR_TEXT]
        halt = Halt(offset=message.offset, event=event.id, error=said)
        group.halted[subject] = halt
        group.records[halted_key(subject)] = halt.encode()
        group.counts["halts"] += 1
        digest = self._rulebook_hash(group)
        release = stage_events.halt_release(self.number, event, said, rulebook=digest, now=group.now)
        if release is not None:
            self._emit(group, message, topics.COMMANDS, release)
        decision = stage_events.halt_decision(self.number, event, said, rulebook=digest, now=group.now)
        self._emit(group, message, topics.DECISIONS, decision)
        self._bury(group, message, Reason.HALTED, said)

    def _deliver_to_halted(self, group: Group, message: Message, event: Event) -> None:
        if isinstance(event.data, ResumeOrder):
            self._resume(group, (event.cluster, event.subject))
            return
        if isinstance(event.data, Tick):  # our own, and worthless
            return
        self._bury(group, message, Reason.HALTED, "the subject is halted; `relight resume` takes it up again")

    def _resume(self, group: Group, subject: SubjectKey) -> None:
        """Forget everything: the subject is rebuilt by a resync of the facts, not by replay (finding Q27)."""
        for name in self._cells(group, subject):
            group.records[cell_key(subject, name)] = None
        group.subjects[subject] = {}
        group.halted[subject] = None
        group.records[halted_key(subject)] = None
        group.counts["resumed"] += 1

    def _is_news(self, group: Group, order: Event) -> bool:
        """Whether the order to resume has not come before; it is remembered, whatever it meets: told again it lifts no later halt."""
        seen = self._memory.resumes if group.resumes is None else group.resumes
        told = (order.cluster, order.subject, order.id)
        if told in seen:
            return False
        group.resumes = (*seen, told)[-RESUMES_KEPT:]
        group.records[RESUMES_KEY] = Resumes(seen=group.resumes).encode()
        return True

    def _is_halted(self, group: Group, subject: SubjectKey) -> bool:
        if subject in group.halted:
            return group.halted[subject] is not None
        return subject in self._memory.halted

    # ------------------------------------------------------------------ messages to the stage itself

    def _take_stage_message(self, group: Group, message: Message, event: Event) -> None:
        if subject_name(event.subject) != str(self.number):
            self._bury(group, message, Reason.MISPLACED, f"{event.subject} in partition {self.number}")
            return
        match event.data:
            case RulebookSwitch(rulebook=digest):
                if digest != self._rulebook_hash(group):
                    group.needs = digest
            case PartitionGap() as gap:
                digest = self._rulebook_hash(group)
                decision = stage_events.gap_decision(self.number, event, gap, rulebook=digest, now=group.now)
                self._emit(group, message, topics.DECISIONS, decision)
                notice = stage_events.gap_notice(self.number, event, gap, rulebook=digest, now=group.now)
                self._emit(group, message, topics.COMMANDS, notice)
                self._tell_subjects(group, message, event, gap)
            case _:
                self._bury(group, message, Reason.NOT_ACCEPTED, f"{event.type} is not for a partition")

    def _tell_subjects(self, group: Group, message: Message, event: Event, gap: PartitionGap) -> None:
        """Every subject revalidates what may rest on what is lost (design 5), in this very group: no message each.

        Subjects of all clusters, since all of them lost something, and a stage that serves any cluster has none to write into the event.
        """
        for subject in sorted({*self._memory.subjects(), *group.subjects}):
            if not self._is_halted(group, subject):
                told = stage_events.gap_of_subject(self.number, event, subject, gap)
                self._advance(group, message, told, group.now)

    def _rulebook_hash(self, group: Group) -> str:
        rulebook = self._memory.rulebook if group.rulebook is None else group.rulebook
        return str(rulebook.hash)

    # ------------------------------------------------------------------ small parts

    def _is_misplaced(self, message: Message, event: Event) -> bool:
        key = mailbox_key(event.cluster, event.subject)
        return murmur2(key, self._limits.partitions) != self.number and not (
            isinstance(event.data, Tick) and message.key == key  # sent to where its cell is, by the stage
        )

    def _forward(self, group: Group, message: Message, event: Event) -> None:
        """One key's state must live in one place: send it on to where its key belongs, once."""
        if _has_header(message, FORWARDED):
            self._bury(
                group, message, Reason.MISPLACED, f"came to partition {self.number} even after it was sent on"
            )
            return
        group.counts["forwarded"] += 1
        group.sends.append(
            Send(
                topic=self._inbox,
                key=mailbox_key(event.cluster, event.subject),
                value=message.value or b"",
                headers=((FORWARDED, b"1"),),
            )
        )

    def _emit(self, group: Group, message: Message, topic: topics.Topic, event: Event) -> None:
        group.sends.append(
            self._encode_emit(Emit(topic.name, event.subject, event), message.offset, self._index)
        )
        self._index += 1

    def _bury(self, group: Group, message: Message, reason: Reason, detail: str) -> None:
        group.sends.append(self._dead_letters.make(message, reason, detail))
        group.dead[reason.value] += 1

    def _cells(self, group: Group, subject: SubjectKey) -> Mapping[str, Cell]:
        changed = group.subjects.get(subject)
        return self._memory.cells_of(subject) if changed is None else changed


def _passed(group: Group, message: Message) -> None:
    group.next = message.offset + 1
    group.taken += 1


def _is_wanted(entry: Due, cells: Mapping[str, Cell]) -> bool:
    cell = cells.get(entry.cell)
    return cell is not None and cell.due == entry.due


def _has_header(message: Message, name: str) -> bool:
    headers = message.headers
    if not headers:
        return False
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return any(key == name for key, _ in pairs)
