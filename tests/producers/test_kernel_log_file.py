"""Files of kernel log lines: every layout's time, rotation followed, what was lost told, nothing twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from producers.chips import KnownChips
from producers.identity import Identity
from producers.kernel_faults import KernelFaults
from producers.kernel_lines import read_line
from producers.kernel_log_file import LINES_A_BATCH, KernelLogFile, LineReader
from producers.observation import Batch, Observation, State
from schemas.signals import ChipFault, NodeRef, SignalGap

NODE = NodeRef(uid="n-1", name="node-1")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
XID = "NVRM: Xid (PCI:0000:05:00): 48, pid=1"
FIRST_SECOND = datetime(2026, 3, 1, 11, 0, 1, tzinfo=UTC)


def line(pid: int = 1, minutes_ago: int = 1) -> str:
    """A line as rsyslog writes it."""
    return f"{(NOW - timedelta(minutes=minutes_ago)).isoformat()} node-1 kernel: {XID}{pid}\n"


class Tail:
    """A file and the source that follows it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kern.log"
        self.state: State | None = None
        self.source = self._new_source()
        self.source.restore(None)

    def restart(self) -> None:
        """A new process, behind what was kept."""
        self.source.close()
        self.source = self._new_source()
        self.source.restore(self.state)

    def _new_source(self) -> KernelLogFile:
        reader = LineReader(Identity("c", NODE), KernelFaults(NODE, KnownChips()))
        return KernelLogFile(
            self.path, reader, lambda: NOW, look_every=timedelta(0), history=timedelta(hours=1)
        )

    def write(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def look(self) -> list[Observation]:
        """All there is to see now, kept."""
        found: list[Observation] = []
        while True:
            try:
                batch = asyncio.run(_within_a_few_turns(self.source))
            except TimeoutError:
                return found
            found += batch.observations
            self.state = batch.state

    def codes(self) -> list[str]:
        """What is seen, in short."""
        return [
            (one.signal.detail or "").rpartition("pid=1")[2] if isinstance(one.signal, ChipFault) else "gap"
            for one in self.look()
        ]


async def _within_a_few_turns(source: KernelLogFile) -> Batch:
    """The next batch; TimeoutError where the source would wait, without waiting."""
    task = asyncio.ensure_future(source.next())
    for _ in range(6):
        await asyncio.sleep(0)
        if task.done():
            return task.result()
    task.cancel()
    raise TimeoutError


@pytest.fixture
def tail(tmp_path: Path) -> Iterator[Tail]:
    made = Tail(tmp_path)
    made.write("")
    yield made
    made.source.close()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (f"2026-03-01T11:00:01,250000+00:00 {XID}", FIRST_SECOND + timedelta(milliseconds=250)),
        (f"kern  :warn  : 2026-03-01T12:00:01,000000+01:00 {XID}", FIRST_SECOND),
        (f"2026-03-01T11:00:01.5Z node-1 kernel: {XID}", FIRST_SECOND + timedelta(milliseconds=500)),
        (f"2026-03-01T11:00:01Z nvidia-dgx-1 kernel: [  12.5] {XID}", FIRST_SECOND),
        (f"[2026-03-01T11:00:01+00:00] {XID}", FIRST_SECOND),
        (f"[Sun Mar  1 11:00:01 2026] {XID}", FIRST_SECOND),
        (f"<4>[Sun Mar  1 11:00:01 2026] {XID}", FIRST_SECOND),
        (f"Mar  1 11:00:01 node-1 kernel: [  123.456789] {XID}", FIRST_SECOND),
        (f"Mar  1 11:00:01 node-1 kernel: {XID}", FIRST_SECOND),
        (f"Dec 31 23:59:59 node-1 kernel: {XID}", datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (f"[  123.456789] {XID}", None),
        (f"[  123.456789][ T1234] {XID}", None),
        (f"4,77,123456789,-;{XID}", None),
        (XID, None),
    ],
)
def test_each_layout_gives_text_and_time(text: str, at: datetime | None) -> None:
    read = read_line(text, now=NOW)
    assert read.text == XID
    assert read.from_kernel
    assert read.at == at


def test_times_since_boot_count_from_the_boot() -> None:
    for text in (f"[  123.456789] {XID}", f"4,77,123456789,-;{XID}"):
        reader = LineReader(Identity("c", NODE), KernelFaults(NODE, KnownChips()), boot=FIRST_SECOND)
        one = reader.read(text.encode(), "1", NOW)
        assert one is not None
        assert (one.time, one.stamped) == (FIRST_SECOND + timedelta(seconds=123, microseconds=456789), True)


def test_a_line_without_time_happened_when_it_was_read() -> None:
    one = LineReader(Identity("c", NODE), KernelFaults(NODE, KnownChips())).read(XID.encode(), "1", NOW)
    assert one is not None
    assert (one.time, one.stamped) == (NOW, False)


def test_times_without_zone_are_of_the_zone_that_is_set() -> None:
    text = f"[Sun Mar  1 12:00:01 2026] {XID}"
    assert read_line(text, zone=timezone(timedelta(hours=1))).at == FIRST_SECOND


@pytest.mark.parametrize(
    "text",
    [
        f"2026-03-01T11:00:01Z node-1 python[77]: {XID}",
        f"Mar  1 11:00:01 node-1 python: {XID}",
        f"user  :warn  : 2026-03-01T11:00:01+00:00 {XID}",
        f"<12>[  1.5] {XID}",
        f"12,77,123456789,-;{XID}",
        f"2026-03-01T11:00:01Z node-1 python: kernel: {XID}",
    ],
)
def test_what_a_program_wrote_is_not_the_kernels_word(text: str) -> None:
    assert (
        LineReader(Identity("c", NODE), KernelFaults(NODE, KnownChips())).read(text.encode(), "1", NOW)
        is None
    )


def test_lines_are_seen_once_and_over_restarts(tail: Tail) -> None:
    tail.write(line(1) + "noise\n" + line(2))
    assert tail.codes() == ["1", "2"]
    assert tail.codes() == []
    tail.restart()
    tail.write(line(3))
    assert tail.codes() == ["3"]


def test_what_was_not_kept_is_seen_again_with_the_same_ids(tail: Tail) -> None:
    tail.write(line(1) + line(2))
    first = [one.id for one in tail.look()]
    tail.state = None
    tail.restart()
    assert [one.id for one in tail.look()] == first
    assert len(set(first)) == 2


def test_the_same_line_twice_is_two_faults(tail: Tail) -> None:
    tail.write(line(1) + line(1))
    assert len({one.id for one in tail.look()}) == 2


def test_half_a_line_waits_for_its_end(tail: Tail) -> None:
    text = line(7)
    tail.write(text[:60])
    assert tail.codes() == []
    tail.write(text[60:])
    assert tail.codes() == ["7"]


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(tail: Tail) -> None:
    tail.write(line(1))
    assert tail.codes() == ["1"]
    tail.write(line(2))
    tail.path.rename(tail.path.with_suffix(".log.1"))
    tail.write(line(3))
    assert tail.codes() == ["2", "3"]


def test_the_last_line_of_a_renamed_file_needs_no_end(tail: Tail) -> None:
    tail.write(line(1) + line(2).rstrip("\n"))
    assert tail.codes() == ["1"]
    tail.path.rename(tail.path.with_suffix(".log.1"))
    tail.write(line(3))
    assert tail.codes() == ["2", "3"]


def test_a_file_renamed_while_away_is_read_to_its_end_first(tail: Tail) -> None:
    tail.write(line(1))
    assert tail.codes() == ["1"]
    tail.write(line(2))
    tail.path.rename(tail.path.with_suffix(".log.1"))
    tail.write(line(3))
    tail.restart()
    assert tail.codes() == ["2", "3"]


def test_a_file_rotated_away_unread_is_a_gap(tail: Tail) -> None:
    tail.write(line(1))
    assert tail.codes() == ["1"]
    keep_inode_taken = tail.path.open("rb")
    tail.path.unlink()
    tail.write(line(2))
    tail.restart()
    assert tail.codes() == ["gap", "2"]
    keep_inode_taken.close()


def test_a_gap_is_still_told_when_the_new_file_is_late(tail: Tail) -> None:
    tail.write(line(1))
    assert tail.codes() == ["1"]
    tail.path.unlink()
    tail.restart()
    with pytest.raises(FileNotFoundError):
        tail.look()
    tail.write(line(2))
    assert tail.codes() == ["gap", "2"]


def test_a_file_cut_off_is_a_gap_and_read_from_its_begin(tail: Tail) -> None:
    tail.write(line(1) + line(2))
    assert tail.codes() == ["1", "2"]
    os.truncate(tail.path, 0)
    tail.write(line(3))
    assert tail.codes() == ["gap", "3"]


def test_a_missing_file_makes_the_source_blind_not_well(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"kern\.log"):
        tail.look()
    assert not tail.source.works


def test_history_is_left_alone_at_the_first_start_only(tail: Tail) -> None:
    tail.write(line(1, minutes_ago=300) + line(2))
    assert tail.codes() == ["2"]
    tail.write(line(3, minutes_ago=300))
    assert tail.codes() == ["3"]


def test_a_gap_names_the_file(tail: Tail) -> None:
    tail.write(line(1))
    tail.look()
    os.truncate(tail.path, 0)
    (gap,) = tail.look()
    assert isinstance(gap.signal, SignalGap)
    assert "kern.log" in gap.signal.reason


def test_a_line_without_end_is_read_in_pieces(tail: Tail) -> None:
    tail.write("x" * 100_000 + "\n" + line(1))
    assert tail.codes() == ["1"]


def test_more_lines_than_a_batch_are_all_read(tail: Tail) -> None:
    tail.write("noise\n" * (LINES_A_BATCH + 5) + line(1))
    assert tail.codes() == ["1"]


STAMPS = st.sampled_from(
    [
        *("[  123.456] ", "[999999999.999999] ", "2026-03-01T11:00:01+00:00 ", "0001-01-01T00:00:00+14:00 "),
        *(
            "9999-12-31T23:59:59-14:00 ",
            "[Mon Jan  1 00:00:00 0001] ",
            "Feb 29 00:00:00 h kernel: ",
            "<4>",
            "kern  :warn  : ",
        ),
        "4,1,99999999999999999999,-;",
    ]
)


@given(
    st.binary(max_size=300)
    | st.tuples(STAMPS, st.text(max_size=40)).map(lambda two: f"{two[0]}{two[1]}{XID}".encode())
)
@example(f"0001-01-01T00:00:00+14:00 {XID}".encode())
@example(f"9999-12-31T23:59:59-14:00 {XID}".encode())
@example(f"[Mon Jan  1 00:00:00 0001] {XID}".encode())
def test_any_line_is_read_without_raising(raw: bytes) -> None:
    for zone in (UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))):
        LineReader(Identity("c", NODE), KernelFaults(NODE, KnownChips()), zone=zone, boot=NOW).read(
            raw, "1", NOW
        )
