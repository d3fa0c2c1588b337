"""What the parts of this room see of each other and of the world: messages in, sends out, a log of state, a stage.

Another engine than Faust, or a fake in a test, is whatever has these shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Headers = tuple[tuple[str, bytes], ...]
StateRecord = tuple[bytes, bytes | None]
"""Key and value; None deletes."""


class Place(NamedTuple):
    """One partition of one topic, by its name in the broker."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """For logs and health."""
        return f"{self.topic}/{self.partition}"


class Message(Protocol):
    """One message as an engine hands it over; read, never written."""

    @property
    def topic(self) -> str:
        """Name in the broker."""
        ...

    @property
    def partition(self) -> int:
        """Partition it was read from."""
        ...

    @property
    def offset(self) -> int:
        """Place in the partition; dense, since nobody writes transactionally to what we read."""
        ...

    @property
    def timestamp(self) -> float:
        """Append time, seconds since the epoch."""
        ...

    @property
    def key(self) -> bytes | None:
        """Kafka key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Raw bytes."""
        ...

    @property
    def headers(self) -> Any:  # noqa: ANN401 - a mapping or a list of pairs, by engine
        """Kafka headers."""
        ...


@dataclass(frozen=True, slots=True)
class Send:
    """One message to send; `partition` None leaves it to the key."""

    topic: str
    key: bytes | None
    value: bytes
    partition: int | None = None
    headers: Headers = ()


class Sender(Protocol):
    """Sends messages outside any transaction."""

    async def send(self, sends: Sequence[Send]) -> None:
        """Return when the broker confirmed all of them, in order for each partition; waits as long as that takes.

        Raises BrokerRefused when one can never be confirmed.
        """
        ...


class StateLog(Protocol):
    """State of one partition. One writer at a time: `open` shuts out whoever wrote before."""

    async def open(self) -> Iterable[StateRecord]:
        """Shut out older writers, then read what they left, oldest first.

        Raises BrokerAway: nothing is known, try again. Fenced: somebody younger took over already.
        """
        ...

    async def write(self, records: Sequence[StateRecord]) -> None:
        """Write all records or none.

        Raises Fenced; BrokerAway when nothing was written and the same may be tried again; OutcomeUnknown when the log has to be opened anew.
        """
        ...

    async def close(self) -> None:
        """Let go without writing anything."""
        ...


class LogBounds(Protocol):
    """Looks at a source partition from outside the group."""

    async def bounds(self, place: Place) -> tuple[int, int]:
        """First offset kept, and the offset the next message will get."""
        ...

    async def committed(self, place: Place) -> int | None:
        """What the stage's group has committed; None when nothing."""
        ...


class Rulebooks(Protocol):
    """Content of released rulebooks by hash."""

    def known(self, digest: str) -> Mapping[str, Any] | None:
        """Content, or None when it was not seen yet."""
        ...

    async def refresh(self) -> None:
        """Read what was released since."""
        ...


class PartitionWorker(Protocol):
    """Handles the messages of one source partition, in order."""

    @property
    def position(self) -> int:
        """Offset below which everything is confirmed; once settled, that of the next message to handle."""
        ...

    async def handle(self, messages: Sequence[Message]) -> None:
        """Return when the next may be handled. Raises Fenced when another worker took over, perhaps at a later call only."""
        ...

    async def idle(self) -> None:
        """Nothing came for a while: write what is left to write. Raises as `handle` does."""
        ...

    async def settle(self) -> None:
        """Return when everything that follows from what was handled is confirmed. Raises as `handle` does."""
        ...

    async def close(self) -> None:
        """Let go; the partition belongs to another worker, or what is remembered is worthless."""
        ...


class Stage(Protocol):
    """Makes workers for partitions."""

    async def open(self, place: Place) -> PartitionWorker:
        """Take a partition up; the worker's position says where to read on."""
        ...
