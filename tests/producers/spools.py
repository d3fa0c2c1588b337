"""What tests of the spool share: a disk that ends the process, signals with a number, and a mailbox that drops repeats."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from producers.disk import Disk
from producers.observation import SignalClass, State
from producers.spool import Record, Spool
from schemas.envelope import Event, decode, make_event
from schemas.ids import node_subject
from schemas.signals import ChipFault, ChipRef, FaultState, Heartbeat, NodeRef

NODE = NodeRef(uid="uid-1", name="node-1")
T0 = datetime(2026, 3, 1, tzinfo=UTC)
KEY = b"test/node/uid-1"
BOOT = "boot-1"


class Killed(BaseException):
    """The process ended here."""


class MortalDisk(Disk):
    """Ends the process at the n-th operation; a write that is cut short leaves a part of its bytes."""

    def __init__(self, lives: int | None = None, part: float = 0.5) -> None:
        self.lives = lives
        self.part = part
        self.operations = 0

    def _live(self) -> None:
        self.operations += 1
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0:
                raise Killed

    def write(self, file: int, data: bytes) -> None:
        try:
            self._live()
        except Killed:
            os.write(file, data[: int(len(data) * self.part)])
            raise
        super().write(file, data)

    def sync(self, file: int) -> None:
        self._live()
        super().sync(file)

    def create(self, path: Path) -> int:
        self._live()
        return super().create(path)

    def rename(self, old: Path, new: Path) -> None:
        self._live()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._live()
        super().remove(path)

    def cut(self, path: Path, size: int) -> None:
        self._live()
        super().cut(path, size)


def open_spool(
    folder: Path,
    *,
    disk: Disk | None = None,
    boot: str = BOOT,
    max_bytes: int = 1 << 20,
    new_ids: list[str] | None = None,
) -> Spool:
    ids = iter(new_ids) if new_ids is not None else None
    if ids is None:
        return Spool(folder, node_uid=NODE.uid, boot_id=boot, max_bytes=max_bytes, disk=disk)
    return Spool(
        folder, node_uid=NODE.uid, boot_id=boot, max_bytes=max_bytes, disk=disk, new_id=lambda: next(ids)
    )


def fault(number: int) -> tuple[bytes, Event]:
    data = ChipFault(
        node=NODE, chip=ChipRef(id="GPU-1"), namespace="xid", code=str(number), state=FaultState.ONCE
    )
    return KEY, _event(data, f"fault-{number}")


def beat(number: int) -> tuple[bytes, Event]:
    return KEY, _event(Heartbeat(node=NODE, boot_id=BOOT, started_at=T0), f"beat-{number}")


def _event(data: ChipFault | Heartbeat, name: str) -> Event:
    return make_event(
        data, id=name, source="/clusters/test/node-agent/node-1", subject=node_subject(NODE.uid), time=T0, cluster="test"
    )  # fmt: skip


def put_faults(spool: Spool, *numbers: int, state: State | None = None) -> int | None:
    return spool.append(SignalClass.FAULT, "log", state, [fault(number) for number in numbers])


def put_beat(spool: Spool, number: int) -> int | None:
    return spool.append(SignalClass.METRIC, "beat", None, [beat(number)])


def ids(records: list[Record]) -> list[str]:
    return [decode(record.value).id for record in records]


@dataclass
class Mailbox:
    """Keeps the highest origin of each stage and drops what is not above it, as recovery does."""

    highest: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)
    came: dict[str, set[str]] = field(default_factory=dict)
    """Origins each event id came with, dropped or not."""

    def take(self, record: Record) -> None:
        event = decode(record.value)
        origin = event.origin_parts
        assert origin is not None
        assert origin.offset == record.sequence
        self.came.setdefault(event.id, set()).add(str(origin))
        place = (origin.stage, origin.partition)
        if (origin.offset, origin.index) <= self.highest.get(place, (-1, -1)):
            return
        self.highest[place] = (origin.offset, origin.index)
        self.accepted.append(event.id)
