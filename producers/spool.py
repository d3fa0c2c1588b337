"""The spool: every signal goes to disk before it goes to Kafka, whether the broker is there or not.

Guarantees:
- What `append` took survives kill -9 (and a loss of power, see `settings.Sync`). A batch and its source's state are one record: whole or not.
- One sequence over all classes; what is taken out comes in that order. An event's origin (stage of this spool, 0, sequence, 0) is fixed when
  it is appended, so that sending it again after a crash is a repeat and no second event.
- Bounded. When room runs out the oldest metrics go first, a segment at a time, and a gap says how many. Faults and exits are never dropped:
  without room `append` raises SpoolFull and has taken nothing; the source waits with its cursor where it was.
- Damage is skipped and told as a gap, a damaged tail is cut off. Then, and when the watermark is ahead of what is found (a disk that forgot),
  the spool takes a new id: numbers that were used once may be given to other events, so they must not look like the same origins. It takes one
  after each boot as well: a loss of power forgets what was not synced, metrics and the watermark, though the broker may have had them.

Two lanes of segments, kept and metrics, so that dropping is removing a file. Read by one publisher, appended to by sources; a lock serves both.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from producers.errors import SpoolFull
from producers.observation import SignalClass, State
from producers.segments import (
    HEADER_BYTES,
    LARGEST_RECORD,
    Damage,
    Head,
    Lane,
    Record,
    Segment,
    Write,
    blot_out,
    found_segments,
    lane_of,
    new_segment,
    open_segment,
    pack,
    read_at,
    unpack,
)
from producers.settings import SpoolSettings, Sync
from producers.watermark import (
    FolderLock,
    StatesAfter,
    Watermark,
    new_spool_id,
    read_spool_id,
    read_states,
    sync_folder,
    write_states,
)
from schemas.envelope import Event, Origin, decode, encode

GAP_ROOM: Final = 64 * 1024
"""Bytes above the bound that only gaps may take: that something was dropped can always be said."""

LostClass = Literal["fault", "exit", "metric", "unknown"]


@dataclass(frozen=True, slots=True)
class Gap:
    """Something is missing. `place` is unique for each gap of a spool."""

    lost_class: LostClass
    lost: int | None
    reason: str
    place: str


DescribeGap = Callable[[Gap], Event]


@dataclass(frozen=True, slots=True)
class Entry:
    """One event taken out, ready to be sent. `at`: when it was spooled, Unix seconds."""

    sequence: int
    kind: SignalClass
    key: bytes
    value: bytes
    at: float


@dataclass(slots=True)
class _Reader:
    """Where reading stands in one lane."""

    first: int = -1
    offset: int = 0


class Spool:
    """One folder, one process. Safe to use from several threads."""

    def __init__(
        self,
        settings: SpoolSettings,
        stage: Callable[[str], str],
        describe_gap: DescribeGap,
        clock: Callable[[], float],
        key: Callable[[Event], bytes],
        *,
        boot_id: str,
        write: Write = os.write,
    ) -> None:
        """Open or make the folder, and look through all that stands in it.

        Args:
            settings: folder, bounds, when to wait for the disk.
            stage: name of the stage in origins, from the spool's id.
            describe_gap: makes the event that tells a gap.
            clock: Unix seconds, for the age of what waits.
            key: Kafka key of an event.
            boot_id: id of this boot of the machine; a spool taken up in another one gets a new id.
            write: how bytes reach a file (tests make a disk full).

        Raises:
            SpoolInUse: another process works on the folder.
        """
        self._settings = settings
        self._folder = settings.folder
        self._stage = stage
        self._describe_gap = describe_gap
        self._clock = clock
        self._key = key
        self._boot_id = boot_id
        self._write = write
        self._mutex = threading.RLock()
        self._lanes: dict[Lane, list[Segment]] = {lane: [] for lane in Lane}
        self._states: StatesAfter = {}
        self._states_unsaved = False
        self._untold_gaps: list[Gap] = []
        self._next = 0
        self.dropped = dict.fromkeys(SignalClass, 0)
        """Events that will never be sent, since the start, by class."""
        self.refused = 0
        """Events the broker will never take, since the start."""
        self.appended = 0
        """Events kept since the start."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FolderLock(self._folder / "lock")
        self._mark = Watermark(self._folder / "watermark")
        self._readers = {lane: _Reader() for lane in Lane}
        self._open()

    @property
    def id(self) -> str:
        """Random, made with the folder; a new one after damage."""
        return self._id

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        with self._mutex:
            return sum(segment.size for lane in self._lanes.values() for segment in lane)

    @property
    def kept_size(self) -> int:
        """Bytes of what is never dropped: faults and exits."""
        with self._mutex:
            return sum(segment.size for segment in self._lanes[Lane.KEPT])

    @property
    def acked(self) -> int:
        """All events numbered below are confirmed or dropped."""
        return self._mark.acked

    @property
    def next_sequence(self) -> int:
        """Number the next event will get."""
        return self._next

    def fits(self, events: Sequence[Event]) -> bool:
        """Whether a batch can be kept as one record at all, were the spool empty."""
        size = sum(len(encode(event)) for event in events)
        return size * 2 <= min(self._settings.max_bytes, LARGEST_RECORD)

    def state_of(self, source: str) -> State | None:
        """State a source had with its last kept batch; None when it never had one."""
        with self._mutex:
            return self._states.get(source, (0, None))[1]

    def append(
        self, kind: SignalClass, events: Sequence[Event], *, source: str = "", state: State | None = None
    ) -> int:
        """Keep a batch with its source's state; returns how many events were kept (a metric may be dropped at once).

        Raises SpoolFull for faults and exits when there is no room: nothing was taken.
        """
        with self._mutex:
            kept = len(events)
            if events and not self._keep(kind, events, source, state):
                if kind is not SignalClass.METRIC:
                    raise SpoolFull(
                        f"{self._folder}: no room for {len(events)} of class {kind.value} within "
                        f"{self._settings.max_bytes:,} bytes, and no metrics left to drop"
                    )
                self._refuse(len(events))
                kept = 0
            if state is not None:
                self._states[source] = (self._next, state)
                self._states_unsaved = True
            if not kept and state is not None:
                self._save_states()
            self.appended += kept
            return kept

    def take(self, most: int) -> list[Entry]:
        """The next events in order, about `most` of them (a batch is not split); empty when all were taken."""
        taken: list[Entry] = []
        with self._mutex:
            while len(taken) < most:
                record = self._next_record()
                if record is None:
                    break
                taken += self._entries(record)
        return taken

    def rewind(self) -> None:
        """Take everything that is not confirmed again."""
        with self._mutex:
            self._readers = {lane: _Reader() for lane in Lane}

    def acknowledge(self, below: int) -> None:
        """Everything taken below this number is confirmed; never goes back."""
        with self._mutex:
            if below <= self._mark.acked:
                return
            self._mark.acked = below
            self._mark.write()
            self._remove_confirmed()
            self._tell_refused()

    def renumber(self, entry: Entry) -> None:
        """Give an event a new number, and so a new origin: a later one overtook it. The caller acknowledges the old number."""
        with self._mutex:
            if not self._keep(entry.kind, [decode(entry.value)], "", None, GAP_ROOM):
                self.refused += 1
                self._tell(Gap("unknown", 1, "no room to send it again", f"overtaken/{entry.sequence}"))

    def give_up(self, entry: Entry, reason: str) -> None:
        """The broker will never take this event: say so. The caller acknowledges it like a confirmed one."""
        with self._mutex:
            self.refused += 1
            self._tell(Gap("unknown", 1, reason, f"refused/{entry.sequence}"))

    def close(self) -> None:
        """Keep the states, let go of the folder."""
        with self._mutex:
            self._save_states()
            for lane in self._lanes.values():
                for segment in lane:
                    segment.close()
                lane.clear()
            self._mark.close()
            self._lock.close()

    # ------------------------------------------------------------ opening

    def _open(self) -> None:
        found_id = read_spool_id(self._folder / "id", self._boot_id)
        states = read_states(self._folder / "states")
        gaps: list[Gap] = []
        if states is None:
            gaps.append(Gap("unknown", None, "states of the sources were damaged", f"states/{self._clock()}"))
        self._states = states or {}
        paths = found_segments(self._folder)
        for path in paths:
            segment = open_segment(path)
            self._lanes[segment.lane].append(segment)
        for lane in self._lanes.values():
            for segment in lane:
                gaps += self._look_through(segment, is_last=segment is lane[-1])
        highest = max((segment.last for lane in self._lanes.values() for segment in lane), default=-1)
        named = max(
            (segment.first + (segment.size > 0) for lane in self._lanes.values() for segment in lane),
            default=0,
        )
        forgot = self._mark.acked > max(highest + 1, named, self._mark.removed)
        self._next = max(highest + 1, named, self._mark.acked, self._mark.removed)
        if found_id is None or gaps or forgot:
            self._id = new_spool_id(self._folder / "id", self._boot_id)
        else:
            self._id = found_id
        for gap in gaps:
            self._tell(gap)
        self._remove_confirmed()
        self._tell_refused()

    def _look_through(self, segment: Segment, *, is_last: bool) -> list[Gap]:
        """Count what stands in a segment, learn states from it, mend damage."""
        gaps: list[Gap] = []
        offset = 0
        while (found := read_at(segment.file, offset, segment.size)) is not None:
            offset = found.offset + found.size
            if isinstance(found, Record):
                segment.note(found)
                self._learn_state(found)
                continue
            gaps.append(_gap_of(segment, found))
            if found.tail and is_last:
                os.ftruncate(segment.file, found.offset)
                segment.size = found.offset
            else:
                blot_out(segment.file, found)
        return gaps

    def _learn_state(self, record: Record) -> None:
        if record.kind is None:
            return
        head, _ = unpack(record.payload)
        after, _known = self._states.get(head.source, (-1, None))
        if head.state is not None and record.last >= after:
            self._states[head.source] = (record.last + 1, head.state)
            self._states_unsaved = True

    # ------------------------------------------------------------ writing

    def _keep(
        self,
        kind: SignalClass,
        events: Sequence[Event],
        source: str,
        state: Mapping[str, Any] | None,
        room: int = 0,
    ) -> bool:
        """Write one record; False when there is no room for it."""
        size = len(self._payload(events, source, state)) + HEADER_BYTES
        if size > LARGEST_RECORD or not self._make_room(size, room):
            return False
        while True:
            payload = self._payload(
                events, source, state
            )  # making room may have told a gap, which took a number
            segment = self._segment_for(lane_of(kind), size)
            try:
                if segment is None:
                    raise OSError  # noqa: TRY301 - no room for a new file is no room
                segment.append(kind, self._next, len(events), payload, self._write)
            except OSError:
                if not self._remove_confirmed(active_too=True) and not self._drop_oldest_metrics():
                    return False
                continue
            self._next += len(events)
            if self._settings.sync is Sync.ALWAYS or (
                self._settings.sync is Sync.FAULTS and lane_of(kind) is Lane.KEPT
            ):
                os.fsync(segment.file)
            return True

    def _payload(self, events: Sequence[Event], source: str, state: Mapping[str, Any] | None) -> bytes:
        stage = self._stage(self._id)
        values = [
            encode(event.model_copy(update={"origin": str(Origin(stage, 0, self._next + place, 0))}))
            for place, event in enumerate(events)
        ]
        keys = tuple(self._key(event).decode() for event in events)
        return pack(Head(source, None if state is None else dict(state), keys, self._clock()), values)

    def _segment_for(self, lane: Lane, size: int) -> Segment | None:
        segments = self._lanes[lane]
        if segments and (segments[-1].size == 0 or segments[-1].size + size <= self._settings.segment_bytes):
            return segments[-1]
        try:
            segments.append(new_segment(self._folder, lane, self._next))
            if self._settings.sync is not Sync.NEVER:
                sync_folder(self._folder)
        except OSError:
            return None
        return segments[-1]

    def _make_room(self, size: int, extra: int) -> bool:
        limit = self._settings.max_bytes + extra
        while self.size + size > limit:
            if not self._remove_confirmed(active_too=True) and not self._drop_oldest_metrics():
                return False
        return True

    def _drop_oldest_metrics(self) -> bool:
        """Remove the oldest segment of metrics, and say before how many it held; False when there is none."""
        segments = self._lanes[Lane.METRIC]
        if not segments or segments[0].size == 0:
            return False
        segment = segments.pop(0)
        lost = self._unconfirmed(segment)
        self._mark.removed = max(self._mark.removed, segment.last + 1)
        self.dropped[SignalClass.METRIC] += lost
        self._mark.untold += lost
        self._mark.write()
        self._mark.sync()
        self._delete(segment)
        self._tell_refused()
        return True

    def _unconfirmed(self, segment: Segment) -> int:
        """Events of a segment above the watermark; some of them may have been sent all the same."""
        count, offset = 0, 0
        while (found := read_at(segment.file, offset, segment.size)) is not None:
            offset = found.offset + found.size
            if isinstance(found, Record) and found.kind is not None:
                count += found.last + 1 - min(max(found.first, self._mark.acked), found.last + 1)
        return count

    def _refuse(self, count: int) -> None:
        self.dropped[SignalClass.METRIC] += count
        self._mark.untold += count
        self._mark.write()

    def _tell_refused(self) -> None:
        """Say how many metrics were dropped, once there is room to say it."""
        waiting, self._untold_gaps = self._untold_gaps, []
        for gap in waiting:
            self._tell(gap)
        lost = self._mark.untold
        if lost == 0:
            return
        self._mark.untold = 0  # while it is told nobody may tell it again
        gap = Gap("metric", lost, "the spool had no room; at most so many are lost", f"dropped/{self._next}")
        if not self._keep_gap(gap):
            self._mark.untold += lost
        self._mark.write()

    def _tell(self, gap: Gap) -> None:
        if not self._keep_gap(gap):
            self._untold_gaps.append(gap)

    def _keep_gap(self, gap: Gap) -> bool:
        return self._keep(SignalClass.FAULT, [self._describe_gap(gap)], "", None, GAP_ROOM)

    # ------------------------------------------------------------ reading

    def _next_record(self) -> Record | None:
        """The record with the lowest number among the lanes; the reader of its lane moves behind it."""
        best: tuple[Record, _Reader] | None = None
        for lane in Lane:
            record = self._peek(lane)
            if record is not None and (best is None or record.first < best[0].first):
                best = record, self._readers[lane]
        if best is None:
            return None
        best[1].offset = best[0].offset + best[0].size
        return best[0]

    def _peek(self, lane: Lane) -> Record | None:
        reader = self._readers[lane]
        for segment in self._lanes[lane]:
            if segment.first < reader.first:
                continue
            if segment.first > reader.first:
                reader.first, reader.offset = segment.first, 0
            while (found := read_at(segment.file, reader.offset, segment.size)) is not None:
                if isinstance(found, Record) and found.kind is not None and found.last >= self._mark.acked:
                    return found
                reader.offset = found.offset + found.size
                if isinstance(found, Damage):
                    blot_out(segment.file, found)
                    self._id = new_spool_id(self._folder / "id", self._boot_id)
                    self._tell(_gap_of(segment, found))
        return None

    def _entries(self, record: Record) -> list[Entry]:
        head, values = unpack(record.payload)
        kind = record.kind or SignalClass.FAULT
        return [
            Entry(record.first + place, kind, key.encode(), value, head.at)
            for place, (key, value) in enumerate(zip(head.keys, values, strict=True))
            if record.first + place >= self._mark.acked
        ]

    # ------------------------------------------------------------ removing

    def _remove_confirmed(self, *, active_too: bool = False) -> bool:
        """Remove segments without anything unconfirmed; the one being written only when room is needed."""
        going = [
            (lane, segment)
            for lane, segments in self._lanes.items()
            for segment in segments
            if segment.last < self._mark.acked
            and segment.size > 0
            and (active_too or segment is not segments[-1])
        ]
        if not going or not self._save_states():
            return False
        self._mark.removed = max(self._mark.removed, *(segment.last + 1 for _, segment in going))
        self._mark.write()
        self._mark.sync()  # numbers of files that are gone must stay used up, even after a loss of power
        for lane, segment in going:
            self._lanes[lane].remove(segment)
            self._delete(segment)
        return True

    def _delete(self, segment: Segment) -> None:
        segment.path.unlink(missing_ok=True)
        segment.close()

    def _save_states(self) -> bool:
        """States stand in records too, so they are written only when those go, or when there is no record; False: disk full."""
        if not self._states_unsaved:
            return True
        try:
            write_states(self._folder / "states", self._states, sync=self._settings.sync is not Sync.NEVER)
        except OSError:
            return False
        self._states_unsaved = False
        return True


def _gap_of(segment: Segment, damage: Damage) -> Gap:
    lost: LostClass = "metric" if segment.lane is Lane.METRIC else "unknown"
    what = "tail cut off" if damage.tail else "skipped"
    return Gap(
        lost,
        None,
        f"the spool was damaged: {damage.size} bytes {what}",
        f"{segment.path.stem}/{damage.offset}/{damage.size}",
    )
