"""The kernel log of this boot: each record once, what was overwritten told, times right, nothing raises."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from producers.chips import KnownChips
from producers.identity import Identity
from producers.kernel_clock import KernelClock
from producers.kernel_faults import KernelFaults
from producers.kernel_lines import read_record
from producers.kernel_log import RECORDS_A_BATCH, KernelLog, KernelLogReader
from producers.observation import Batch, Observation, State
from schemas.ids import derive_id
from schemas.signals import ChipFault, NodeRef, SignalGap

NODE = NodeRef(uid="n-1", name="node-1")
BOOT = datetime(2026, 3, 1, tzinfo=UTC)
NOW = BOOT + timedelta(hours=1)
XID = "NVRM: Xid (PCI:0000:05:00): 48, pid=1, name=python"


def record(sequence: int, text: str = XID, *, seconds: float = 3000.0, priority: int = 4) -> bytes:
    """One record as the device hands it out."""
    return f"{priority},{sequence},{int(seconds * 1e6)},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:05:00.0\n".encode()


def new_reader(state: State | None = None, *, boot_id: str = "boot-1") -> KernelLogReader:
    """A reader an hour after boot."""
    faults = KernelFaults(NODE, KnownChips())
    reader = KernelLogReader(
        Identity("c", NODE), faults, boot_id=boot_id, boot=BOOT, history=timedelta(minutes=30)
    )
    reader.restore(state)
    return reader


def read_all(reader: KernelLogReader, *records: bytes) -> list[Observation]:
    """Observations of records that were there already."""
    return [one for raw in records for one in reader.read(raw, NOW, awaited=False)]


def test_a_record_is_one_fault_at_its_time_with_an_id_of_where_it_stands() -> None:
    (one,) = read_all(new_reader(), record(7, seconds=3000.25))
    assert isinstance(one.signal, ChipFault)
    assert (one.signal.code, one.signal.chip.bus) == ("48", "0000:05:00")
    assert one.time == BOOT + timedelta(seconds=3000.25)
    assert one.id == derive_id("c", "n-1", "boot-1", 7)


def test_reading_again_gives_nothing_and_a_lost_cursor_gives_the_same_ids() -> None:
    reader = new_reader()
    first = read_all(reader, record(1), record(2))
    assert read_all(reader, record(1), record(2)) == []
    assert read_all(new_reader(reader.state()), record(1), record(2)) == []
    assert [one.id for one in read_all(new_reader(), record(1), record(2))] == [one.id for one in first]
    assert first[0].id != first[1].id, "the same line logged twice is two faults"


def test_a_reader_that_starts_again_behind_nothing_reads_everything_again() -> None:
    reader = new_reader()
    first = read_all(reader, record(1))
    reader.restore(None)
    assert read_all(reader, record(1)) == first


def test_another_boot_is_another_log() -> None:
    reader = new_reader()
    (before,) = read_all(reader, record(5))
    (after,) = read_all(new_reader(reader.state(), boot_id="boot-2"), record(5))
    assert after.id != before.id


def test_overwritten_records_are_told_once_with_their_number() -> None:
    reader = new_reader()
    read_all(reader, record(10))
    gap, fault = read_all(reader, record(14))
    assert isinstance(gap.signal, SignalGap)
    assert "3 records (11 to 13)" in gap.signal.reason
    assert isinstance(fault.signal, ChipFault)
    assert read_all(reader, record(15, "quiet")) == []


def test_what_was_overwritten_before_the_first_start_is_no_gap() -> None:
    assert read_all(new_reader(), record(5000, "quiet")) == []


def test_old_faults_are_left_alone_at_the_very_first_start_only() -> None:
    old = record(1, seconds=60)
    assert read_all(new_reader(), old) == []
    reader = new_reader()
    state = reader.state()
    (one,) = read_all(new_reader(state), old)
    assert one.time == BOOT + timedelta(seconds=60)


def test_what_a_program_wrote_to_the_device_is_no_fault() -> None:
    user_warning = (1 << 3) | 4
    assert read_all(new_reader(), record(1, priority=user_warning)) == []


def test_properties_are_no_text_and_escaped_line_breaks_are_lines() -> None:
    reader = new_reader()
    quoted = b"4,1,3000000000,-;quiet\n NOTE=NVRM: Xid (PCI:0000:05:00): 48, pid=1\n"
    assert read_all(reader, quoted) == []
    read = read_record(quoted)
    assert read is not None
    assert [line.text for line in read.lines] == ["quiet"]
    found = read_all(reader, record(2, f"{XID}\\x0a{XID}\\x0aquiet"))
    assert [one.id for one in found] == [
        derive_id("c", "n-1", "boot-1", 2),
        derive_id("c", "n-1", "boot-1", 2, 1),
    ]


def test_a_broken_record_is_counted() -> None:
    reader = new_reader()
    assert read_all(reader, b"", b"nonsense", b"4,x,1,-;text\n") == []
    assert reader.counts["kernel_records_unreadable"] == 3


def test_what_escapes_hide_cannot_drive_a_terminal() -> None:
    (one,) = read_all(new_reader(), record(1, XID + "\\x1b[2J"))
    assert isinstance(one.signal, ChipFault)
    assert "\x1b" not in (one.signal.detail or "")


def test_the_clock_is_set_by_a_record_that_was_awaited() -> None:
    clock = KernelClock(BOOT)
    late = timedelta(minutes=4)
    clock.note_arrival(timedelta(days=100), BOOT + timedelta(days=100) + late)
    assert clock.boot == BOOT + late
    clock.note_arrival(timedelta(days=100, seconds=1), BOOT + timedelta(days=100, seconds=1) + late * 2)
    assert clock.boot == BOOT + late, "a later wake-up of the same while only adds delay"
    assert clock.time_of(timedelta(days=101), BOOT) == BOOT, "never in the future"


@given(st.binary(max_size=200) | st.builds(record, st.integers(0, 2**63), st.text(max_size=80)))
@example(b"4,1,99999999999999999999,-;x")
@example(b"4,99999999999999999999,1,-;" + XID.encode())
def test_any_bytes_are_read_without_raising(raw: bytes) -> None:
    read_record(raw)
    reader = new_reader()
    reader.read(raw, NOW, awaited=True)
    assert new_reader(reader.state()).state()["sequence"] == reader.state()["sequence"]


# ---------------------------------------------------------------- the device


@contextmanager
def device() -> Iterator[tuple[Path, int]]:
    """A pipe that keeps packets apart as the device keeps records; its path, and where to write."""
    read_end, write_end = os.pipe2(os.O_DIRECT | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{read_end}"), write_end
    finally:
        os.close(read_end)
        os.close(write_end)


def next_batch(source: KernelLog) -> Batch:
    """What the source hands out next; fails where it would wait."""
    return asyncio.run(asyncio.wait_for(source.next(), 5))


def test_records_come_in_batches_with_the_cursor_behind_them() -> None:
    with device() as (path, pipe):
        source = KernelLog(path, new_reader(), lambda: NOW)
        for sequence in (1, 2):
            os.write(pipe, record(sequence))
        batch = next_batch(source)
        assert len(batch.observations) == 2
        assert batch.state is not None
        assert batch.state["sequence"] == 2
        assert source.works
        source.close()
        assert not source.works


def test_a_source_waits_until_there_is_a_record() -> None:
    async def later(source: KernelLog, pipe: int) -> Batch:
        waiting = asyncio.create_task(source.next())
        await asyncio.sleep(0)
        assert not waiting.done()
        os.write(pipe, record(1))
        return await asyncio.wait_for(waiting, 5)

    with device() as (path, pipe):
        source = KernelLog(path, new_reader(), lambda: NOW)
        assert len(asyncio.run(later(source, pipe)).observations) == 1
        source.close()


def quiet_record(sequence: int) -> bytes:
    return b"6,%d,%d,-;eth0: link becomes ready\n" % (sequence, sequence * 1_000_000)


def test_a_chatty_log_without_faults_moves_the_cursor_on_disk_only_now_and_then() -> None:
    time = [NOW]

    async def waits(source: KernelLog) -> bool:
        waiting = asyncio.create_task(source.next())
        for _ in range(10):
            await asyncio.sleep(0)
        waiting.cancel()
        return not waiting.done()

    with device() as (path, pipe):
        source = KernelLog(path, new_reader(), lambda: time[0])
        os.write(pipe, quiet_record(1))
        assert not next_batch(source).observations, "where it begins is kept at once"
        os.write(pipe, quiet_record(2))
        assert asyncio.run(waits(source))
        time[0] += timedelta(seconds=10)
        os.write(pipe, quiet_record(3))
        batch = next_batch(source)
        assert batch.state is not None
        assert batch.state["sequence"] == 3
        source.close()


def test_a_fault_in_a_chatty_log_is_handed_out_at_once() -> None:
    with device() as (path, pipe):
        source = KernelLog(path, new_reader(), lambda: NOW)
        os.write(pipe, quiet_record(1))
        next_batch(source)
        os.write(pipe, quiet_record(2))
        os.write(pipe, record(3))
        assert len(next_batch(source).observations) == 1
        source.close()


class Script:
    """Stands for the device: records, and errors in between."""

    def __init__(self, *steps: bytes | OSError) -> None:
        self.steps = list(steps)

    def read(self, _file: int, _size: int) -> bytes:
        step = self.steps.pop(0) if self.steps else BlockingIOError()
        if isinstance(step, OSError):
            raise step
        return step


def test_overwritten_while_away_goes_on_with_what_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device_file = tmp_path / "kmsg"
    device_file.touch()
    source = KernelLog(device_file, new_reader(), lambda: NOW)
    script = Script(record(1), BrokenPipeError(errno.EPIPE, "overwritten"), record(9))
    monkeypatch.setattr("producers.kernel_log.os.read", script.read)
    kinds = [type(one.signal) for one in next_batch(source).observations]
    assert kinds == [ChipFault, SignalGap, ChipFault]
    source.close()


def test_records_read_before_the_device_failed_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device_file = tmp_path / "kmsg"
    device_file.touch()
    source = KernelLog(device_file, new_reader(), lambda: NOW)
    script = Script(record(1), OSError(errno.EIO, "gone"), OSError(errno.EIO, "gone"))
    monkeypatch.setattr("producers.kernel_log.os.read", script.read)
    assert len(next_batch(source).observations) == 1
    with pytest.raises(OSError, match="gone"):
        next_batch(source)
    assert not source.works


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device_file = tmp_path / "kmsg"
    device_file.touch()
    source = KernelLog(device_file, new_reader(), lambda: NOW)
    script = Script(*(record(number) for number in range(RECORDS_A_BATCH + 1)))
    monkeypatch.setattr("producers.kernel_log.os.read", script.read)
    assert [len(next_batch(source).observations) for _ in range(2)] == [RECORDS_A_BATCH, 1]
    source.close()
