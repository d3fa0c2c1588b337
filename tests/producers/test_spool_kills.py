"""Laws of the spool under kill -9 within an operation: at any write, sync, rename, removal or shortening, a write cut in the middle included.

`test_spool` kills between operations. Here each call that changes the disk may be the process's last. What follows must be as if the operation
had not begun, or had ended: a log that can be read again goes on from the kept state, and a mailbox that drops what is not above the highest
number it has seen accepts every line once, in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.errors import SpoolFull
from producers.observation import SignalClass
from producers.settings import SpoolSettings
from producers.spool import Entry, Gap, Spool
from schemas.envelope import Event, decode, make_event
from schemas.signals import ChipFault, ChipRef, FaultState, Heartbeat, NodeRef, SignalGap

pytestmark = pytest.mark.slow

REAL_PWRITE = os.pwrite
NOW = datetime(2026, 3, 1, tzinfo=UTC)
NODE = NodeRef(uid="node-uid", name="node")


class Killed(BaseException):
    """The process ended here."""


class MortalDisk:
    """Counts calls that change the disk and ends the process at one of them; a write loses its rest."""

    def __init__(self) -> None:
        self.lives: int | None = None
        self.part = 0.5
        self.calls = 0

    def live(self) -> None:
        self.calls += 1
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0:
                raise Killed

    def write(self, file: int, data: bytes) -> int:
        with self._cut_short(lambda part: os.write(file, data[: int(len(data) * part)])):
            self.live()
        return os.write(file, data)

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        with self._cut_short(lambda part: REAL_PWRITE(file, data[: int(len(data) * part)], offset)):
            self.live()
        return REAL_PWRITE(file, data, offset)

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, unless the process ends before it."""

        def guarded(*arguments: Any, **named: Any) -> Any:
            self.live()
            return call(*arguments, **named)

        return guarded

    @contextmanager
    def _cut_short(self, half: Callable[[float], object]) -> Iterator[None]:
        try:
            yield
        except Killed:
            half(self.part)
            raise

    @contextmanager
    def under(self) -> Iterator[None]:
        """Put it under the spool's modules."""
        # The module `os` itself, so that all of the spool's modules see it.
        with (
            mock.patch.object(os, "pwrite", self.pwrite),
            mock.patch.object(os, "ftruncate", self.before(os.ftruncate)),
            mock.patch.object(os, "fsync", self.before(os.fsync)),
            mock.patch.object(Path, "open", _open_then_live(self, Path.open)),
            mock.patch.object(Path, "replace", _method(self, Path.replace)),
            mock.patch.object(Path, "unlink", _method(self, Path.unlink)),
        ):
            yield


def _method(disk: MortalDisk, call: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(path: Path, *arguments: Any, **named: Any) -> Any:
        disk.live()
        return call(path, *arguments, **named)

    return guarded


def _open_then_live(disk: MortalDisk, call: Callable[..., Any]) -> Callable[..., Any]:
    """A file opened for writing is empty before the first byte is written: the process may end there."""

    def guarded(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        file = call(path, mode, *arguments, **named)
        if "w" in mode:
            try:
                disk.live()
            except Killed:
                file.close()
                raise
        return file

    return guarded


def event(data: ChipFault | Heartbeat | SignalGap, name: str) -> Event:
    return make_event(data, id=name, source="/agent", subject="node/node-uid", time=NOW, cluster="c")


def line(number: int) -> Event:
    chip = ChipRef(id="gpu")
    return event(
        ChipFault(node=NODE, chip=chip, namespace="xid", code=str(number), state=FaultState.ONCE),
        f"line-{number}",
    )


def beat(number: int) -> Event:
    return event(Heartbeat(node=NODE, boot_id="b" * 200, started_at=NOW), f"beat-{number}")


def describe(gap: Gap) -> Event:
    told = SignalGap(node=NODE, lost_class=gap.lost_class, lost=gap.lost, reason=gap.reason)
    return event(told, f"gap-{gap.place}")


def open_spool(folder: Path, write: Callable[[int, bytes], int]) -> Spool:
    return Spool(
        SpoolSettings(folder=folder, max_bytes=64 * 1024, segment_bytes=4096),
        lambda spool: f"agent:node-uid:{spool}",
        describe,
        NOW.timestamp,
        lambda _: b"c/node/node-uid",
        boot_id="boot",
        write=write,
    )


def let_go(spool: Spool) -> None:
    """What the kernel does for a process that was killed."""
    for lane in spool._lanes.values():
        for segment in lane:
            with suppress(OSError):
                segment.close()
    with suppress(OSError):
        spool._mark.close()
    spool._lock.close()


@dataclass
class Mailbox:
    """Drops what is not above the highest number of its stage, as recovery does."""

    highest: dict[str, int] = field(default_factory=dict)
    accepted: list[Event] = field(default_factory=list)
    origins: dict[str, set[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        came = decode(entry.value)
        origin = came.origin_parts
        assert origin is not None
        assert self.names.setdefault(str(origin), came.id) == came.id, "a number was given twice"
        self.origins.setdefault(came.id, set()).add(str(origin))
        if origin.offset > self.highest.get(origin.stage, -1):
            self.highest[origin.stage] = origin.offset
            self.accepted.append(came)


@dataclass
class World:
    """A log that can be read again, beats that cannot, a spool, a mailbox, and an agent that is killed."""

    folder: Path
    kills: list[tuple[int, float]]
    disk: MortalDisk = field(default_factory=MortalDisk)
    mailbox: Mailbox = field(default_factory=Mailbox)
    read: int = 0
    beats: int = 0
    kept_beats: int = 0
    unsure_beats: int = 0
    deaths: int = 0

    def __post_init__(self) -> None:
        self.spool = self._open()

    def _open(self) -> Spool:
        while True:
            self.disk.lives, self.disk.part = self.kills.pop() if self.kills else (None, 0.0)
            try:
                spool = open_spool(self.folder, self.disk.write)
            except Killed as killed:
                self.deaths += 1
                _let_go_of_half_open(killed)
                continue
            self.read = int((spool.state_of("log") or {"next": 0})["next"])
            return spool

    def do(self, step: str, count: int) -> None:
        try:
            getattr(self, step)(count)
        except Killed:
            self.deaths += 1
            let_go(self.spool)
            self.spool = self._open()

    def lines(self, count: int) -> None:
        lines = range(self.read, self.read + count)
        with suppress(SpoolFull):
            self.spool.append(
                SignalClass.FAULT, [line(n) for n in lines], source="log", state={"next": lines.stop}
            )
            self.read = lines.stop

    def beat(self, count: int) -> None:
        for _ in range(count):
            self.beats += 1
            self.unsure_beats += 1
            self.spool.append(SignalClass.METRIC, [beat(self.beats)])
            self.unsure_beats -= 1
            self.kept_beats += 1

    def send(self, count: int) -> None:
        taken = self.spool.take(count)
        for entry in taken:
            self.mailbox.take(entry)
        if taken:
            self.spool.acknowledge(taken[len(taken) // 2].sequence + 1)

    def rewind(self, _: int) -> None:
        self.spool.rewind()

    def restart(self, _: int) -> None:
        self.spool.close()
        self.spool = self._open()

    def drain(self) -> None:
        self.kills.clear()
        self.disk.lives = None
        let_go(self.spool)
        self.spool = self._open()
        while taken := self.spool.take(50):
            for entry in taken:
                self.mailbox.take(entry)
            self.spool.acknowledge(taken[-1].sequence + 1)
        self.spool.close()


def _let_go_of_half_open(killed: Killed) -> None:
    """Close what a spool that was killed while opening held: the lock above all."""
    trace = killed.__traceback__
    while trace is not None:
        spool = trace.tb_frame.f_locals.get("self")
        if isinstance(spool, Spool) and hasattr(spool, "_readers"):
            let_go(spool)
            return
        if isinstance(spool, Spool) and hasattr(spool, "_lock"):
            spool._lock.close()
            return
        trace = trace.tb_next


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("lines"), st.integers(1, 6)),
        st.tuples(st.just("beat"), st.integers(1, 40)),
        st.tuples(st.just("send"), st.integers(1, 30)),
        st.tuples(st.sampled_from(["rewind", "restart"]), st.just(0)),
    ),
    max_size=40,
)
KILLS = st.lists(st.tuples(st.integers(0, 80), st.floats(0, 1)), max_size=6)


@settings(max_examples=60)
@given(steps=STEPS, kills=KILLS)
def test_every_line_arrives_once_in_order_and_every_metric_arrives_or_is_told(
    steps: list[tuple[str, int]], kills: list[tuple[int, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    disk = MortalDisk()
    with disk.under():
        world = World(tmp_path_factory.mktemp("spool"), kills, disk)
        for step, count in steps:
            world.do(step, count)
        world.drain()

    accepted = world.mailbox.accepted
    lines = [one.id for one in accepted if one.id.startswith("line")]
    assert lines == [f"line-{number}" for number in range(world.read)]
    assert all(len(world.mailbox.origins[name]) == 1 for name in lines)
    arrived = sum(1 for one in accepted if one.id.startswith("beat"))
    told = sum(
        one.data.lost or 0
        for one in accepted
        if isinstance(one.data, SignalGap) and one.data.lost_class == "metric"
    )
    assert world.kept_beats <= arrived + told


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_each_operation_of_a_drop_may_be_the_last(tmp_path: Path, part: float) -> None:
    lives = 0
    while True:
        folder = tmp_path / str(lives)
        disk = MortalDisk()
        with disk.under():
            world = World(folder, [], disk)
            world.lines(3)
            while not world.spool.dropped[SignalClass.METRIC]:
                world.beat(1)
            disk.part, disk.lives = part, lives
            deaths = world.deaths
            for _ in range(8):
                world.do("beat", 1)
                world.do("lines", 2)
            ended = world.deaths == deaths
            world.drain()
        accepted = world.mailbox.accepted
        arrived = sum(1 for one in accepted if one.id.startswith("beat"))
        told = sum(
            one.data.lost or 0
            for one in accepted
            if isinstance(one.data, SignalGap) and one.data.lost_class == "metric"
        )
        assert [one.id for one in accepted if one.id.startswith("line")] == [
            f"line-{n}" for n in range(world.read)
        ]
        assert world.kept_beats <= arrived + told, f"killed at operation {lives}"
        if ended:
            break
        lives += 1
    assert lives > 10


def test_the_place_in_the_log_outlives_its_signals_whatever_removed_them(tmp_path: Path) -> None:
    """All lines are confirmed and metrics need the room: even the file being written goes. Each operation of that may be the last."""
    lives = 0
    while True:
        folder = tmp_path / str(lives)
        disk = MortalDisk()
        with disk.under():
            world = World(folder, [], disk)
            world.lines(6)
            while taken := world.spool.take(50):
                world.spool.acknowledge(taken[-1].sequence + 1)
            while world.spool.size < 63 * 1024:
                world.beat(1)
            disk.lives = lives
            with suppress(Killed):
                while not world.spool.dropped[SignalClass.METRIC]:
                    world.beat(1)
            ended = disk.lives >= 0
            let_go(world.spool)

        spool = open_spool(folder, os.write)
        assert spool.state_of("log") == {"next": 6}, f"killed at operation {lives}"
        let_go(spool)
        if ended:
            break
        lives += 1
    assert not [path for path in folder.glob("kept*") if b"line-5" in path.read_bytes()]


def test_a_torn_end_is_told_once_however_often_the_agent_starts(tmp_path: Path) -> None:
    world = World(tmp_path, [])
    world.lines(2)
    let_go(world.spool)
    (file,) = tmp_path.glob("kept*")
    file.write_bytes(file.read_bytes()[:-5])

    for _ in range(3):
        spool = open_spool(tmp_path, os.write)
        told = [
            one for one in map(decode, (entry.value for entry in spool.take(50))) if one.id.startswith("gap")
        ]
        assert len(told) == 1
        let_go(spool)
