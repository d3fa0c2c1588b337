"""Source: the kernel log of this boot, `/dev/kmsg`.

Guarantees: each record is read once, in order, and its fault has the id (cluster, node, boot id, sequence), so that reading it again counts for
nothing. The cursor is kept with the faults. What the kernel overwrote before it was read is told as a gap, never skipped in silence.

The device hands out one record a read; EPIPE says that records were overwritten, and the next read goes on with the oldest that is left
(Documentation/ABI/testing/dev-kmsg). A new boot id means a new log: nothing of the old one is left to read.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from producers.identity import Identity
from producers.kernel_clock import KernelClock
from producers.kernel_faults import KernelFaults
from producers.kernel_lines import KmsgRecord, read_record
from producers.observation import Batch, Observation, Pace, SignalClass, State
from schemas.signals import SignalGap
from schemas.wording import agreeing, counted

NAME: Final = "kernel-log"
RECORD_BYTES: Final = 16 * 1024
"""Buffer of one read; the kernel's largest record is 8 KiB, and a smaller buffer is an error (EINVAL)."""

RECORDS_A_BATCH: Final = 512
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class KernelLogReader:
    """Reads records and keeps the cursor; knows no files and no clock."""

    def __init__(
        self,
        identity: Identity,
        faults: KernelFaults,
        *,
        boot_id: str,
        boot: datetime,
        history: timedelta,
    ) -> None:
        """`history`: at the very first start on a node, faults older than this are old news and left alone."""
        self._identity = identity
        self._faults = faults
        self._boot_id = boot_id
        self._clock = KernelClock(boot)
        self._history = history
        self._last: int | None = None
        self._first_start = True
        self.counts: Counter[str] = Counter()

    def restore(self, state: State | None) -> None:
        """Go on behind the cursor, if it is of this boot."""
        self._last = None
        if state is None:
            return
        self._first_start = False
        self._faults.restore(state)
        if state.get("boot") == self._boot_id and state["sequence"] is not None:
            self._last = int(state["sequence"])
            self._clock = KernelClock(datetime.fromisoformat(state["began"]))

    def state(self) -> State:
        """The cursor, and what else must outlive a restart."""
        return {
            "boot": self._boot_id,
            "sequence": self._last,
            "began": self._clock.boot.isoformat(),
            **self._faults.state(),
        }

    def read(self, raw: bytes, now: datetime, *, awaited: bool) -> list[Observation]:
        """Observations of one record. `awaited`: we stood waiting for it, so that it is as old as it took to wake us."""
        record = read_record(raw)
        if record is None:
            self.counts["kernel_records_unreadable"] += 1
            return []
        if self._last is not None and record.sequence <= self._last:
            return []
        found = self._gap(record, now)
        self._last = record.sequence
        self.counts["kernel_records"] += 1
        if awaited and record.lines[0].since_boot is not None:
            self._clock.note_arrival(record.lines[0].since_boot, now)
        return found + self._faults_of(record, now)

    def caught_up(self) -> None:
        """Everything there was is read: from here on nothing is history."""
        self._first_start = False

    def _gap(self, record: KmsgRecord, now: datetime) -> list[Observation]:
        if self._last is None or record.sequence == self._last + 1:
            return []
        first, last = self._last + 1, record.sequence - 1
        number = last - first + 1
        gap = SignalGap(
            node=self._identity.node,
            lost_class="fault",
            reason=f"kernel log: {counted(number, 'record')} ({first} to {last}) {agreeing(number, 'was', 'were')} overwritten unread; "
            "any of them may have been a fault",
        )
        self.counts["kernel_log_gaps"] += 1
        return [Observation(gap, self._identity.derive("kernel-gap", self._boot_id, first, last), now)]

    def _faults_of(self, record: KmsgRecord, now: datetime) -> list[Observation]:
        found = []
        for index, line in enumerate(record.lines):
            at = self._clock.time_of(line.since_boot or timedelta(0), now)
            before = self._faults.unreadable
            fault = self._faults.read(line, at)
            self.counts["fault_lines_unreadable"] += self._faults.unreadable - before
            if fault is None:
                continue
            if self._first_start and now - at > self._history:
                self.counts["faults_before_first_start"] += 1
                continue
            place = (self._boot_id, record.sequence, *((index,) if index else ()))
            found.append(Observation(fault, self._identity.derive(*place), at))
        return found


class KernelLog:
    """The source: opens the device, waits for records, reads them in batches."""

    name = NAME

    def __init__(self, device: Path, reader: KernelLogReader, now: Callable[[], datetime]) -> None:
        self._device = device
        self._reader = reader
        self._now = now
        self._file: int | None = None
        self._pace = Pace()
        self.works = False

    def restore(self, state: State | None) -> None:
        """Go on behind the cursor; the device is opened afresh."""
        self.close()
        self._reader.restore(state)

    def counts(self) -> dict[str, int]:
        """Records and gaps since the last call."""
        counted = {name: number for name, number in self._reader.counts.items() if number}
        self._reader.counts.clear()
        return counted

    async def next(self) -> Batch:
        """Wait for records and read what is there, at most `RECORDS_A_BATCH`. Raises OSError when the device cannot be read."""
        file = self._open()
        awaited = False
        while True:
            read = self._read_some(file, awaited=awaited)
            found = tuple(observation for record in read for observation in record)
            failed = self._file is None
            if found or failed or (read and self._pace.is_due(self._now())):
                self._pace.kept(self._now())
                return Batch(SignalClass.FAULT, found, self._reader.state())
            awaited = len(read) < RECORDS_A_BATCH
            if awaited:
                self._reader.caught_up()
                await _readable(file)
            else:
                await asyncio.sleep(0)  # a long log must not keep the others waiting

    def close(self) -> None:
        """Let go of the device."""
        self.works = False
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is None:
            # A fresh descriptor stands at the oldest record; the cursor skips what was read.
            self._file = os.open(self._device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.works = True
        return self._file

    def _read_some(self, file: int, *, awaited: bool) -> list[list[Observation]]:
        found: list[list[Observation]] = []
        while len(found) < RECORDS_A_BATCH:
            try:
                raw = os.read(file, RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten while we were away; the jump of the sequence tells how many
                continue
            except OSError:
                self.close()
                if found:  # kept first; the next call fails if the device still does
                    break
                raise
            found.append(self._reader.read(raw, self._now(), awaited=awaited and not found))
        return found


async def _readable(file: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(file, wake)
    try:
        await ready
    finally:
        loop.remove_reader(file)
