"""Stand-ins for what surrounds the stage: messages, a log of state with a fence, a sender, bounds, rulebooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from runtime.errors import BrokerAway, BrokerError, Fenced
from schemas.envelope import Event, Origin, Payload, encode, make_event
from schemas.ids import mailbox_key
from streams.ports import Place, Send, StateRecord

START = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
CLUSTER = "c"
INBOX = "inbox.v1"


@dataclass(frozen=True)
class FakeMessage:
    """A message as an engine hands it over."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    topic: str = INBOX
    partition: int = 0
    timestamp: float = START.timestamp()
    headers: Any = None


def event(
    data: Payload,
    subject: str,
    *,
    id: str = "e",  # noqa: A002 - the attribute's own name
    origin: Origin | None = None,
    time: datetime = START,
    cluster: str = CLUSTER,
) -> Event:
    """An event of the test cluster."""
    return make_event(data, id=id, source="/t", subject=subject, time=time, cluster=cluster, origin=origin)


def message(
    offset: int, made: Event, *, seconds: float = 0.0, partition: int = 0, headers: object = None
) -> FakeMessage:
    """A message that was appended so many seconds after START."""
    return FakeMessage(
        offset=offset,
        value=encode(made),
        key=mailbox_key(made.cluster, made.subject),
        partition=partition,
        timestamp=(START + timedelta(seconds=seconds)).timestamp(),
        headers=headers,
    )


@dataclass
class Disk:
    """What survives: records of one partition, and whose turn it is to write."""

    records: list[StateRecord] = field(default_factory=list)
    epoch: int = 0
    writes: list[list[StateRecord]] = field(default_factory=list)


class FakeLog:
    """A log on a `Disk`; opening one fences those opened before."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.failures: list[BrokerError] = []
        """Raised by the next writes, first to last."""
        self.takes = 0.0
        """Seconds of each write."""
        self.on_write: Callable[[], object] = lambda: None
        """Called when one is made."""
        self.closed = False
        self._epoch = -1

    async def open(self) -> list[StateRecord]:
        """Fence and read."""
        self.disk.epoch += 1
        self._epoch = self.disk.epoch
        return list(self.disk.records)

    async def write(self, records: Sequence[StateRecord]) -> None:
        """All or nothing."""
        if self.takes:
            await asyncio.sleep(self.takes)
        if self._epoch != self.disk.epoch:
            raise Fenced("another owner")
        if self.failures:
            raise self.failures.pop(0)
        self.on_write()
        self.disk.writes.append(list(records))
        self.disk.records.extend(records)

    async def close(self) -> None:
        """Remember it."""
        self.closed = True


class FakeSender:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[Send] = []
        self.failures: list[BrokerError] = []

    async def send(self, sends: Sequence[Send]) -> None:
        """Keep, or fail as told."""
        if self.failures:
            raise self.failures.pop(0)
        self.sent += sends


class FakeBounds:
    """Says what it was told."""

    def __init__(self, first: int = 0, end: int = 0, committed: int | None = None) -> None:
        self.answer = (first, end)
        self.committed_answer = committed

    async def bounds(self, place: Place) -> tuple[int, int]:
        """Start and end."""
        del place
        return self.answer

    async def committed(self, place: Place) -> int | None:
        """Committed offset."""
        del place
        return self.committed_answer


class FakeRulebooks:
    """Content appears when it is put into `released`, and is seen at the next refresh."""

    def __init__(self) -> None:
        self.released: dict[str, Mapping[str, Any]] = {}
        self.refreshes = 0
        self._seen: dict[str, Mapping[str, Any]] = {}

    def known(self, digest: str) -> Mapping[str, Any] | None:
        """What was seen."""
        return self._seen.get(digest)

    async def refresh(self) -> None:
        """See what was released."""
        self.refreshes += 1
        self._seen.update(self.released)


def away(number: int = 1) -> list[BrokerError]:
    """So many failures that may be tried again."""
    return [BrokerAway("gone") for _ in range(number)]
