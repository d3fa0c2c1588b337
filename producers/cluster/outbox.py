"""What waits for the broker, in memory, numbered so that a successor's facts win.

No disk: the book is in the topic and the cluster is the source, so what dies unsent with a watcher is told by the next one from a list. Only an
edge that left no trace in the cluster is lost with it, as it is when a watch is cut.

An origin is (`watcher`, 0, number, 0), the same stage for every watcher that ever ran. Numbers begin at the microseconds of the start, or above
the highest found in the topic, so those of a successor are above those of whoever ran before: a mailbox that heard the successor drops what
a predecessor, cut off and unaware, still sends. This is the fence; the Lease only keeps two from working at once. One Kafka key for all
keeps one order: a pod's edge goes to its run and its node, and by keys of their own one run's edges could overtake another's on the way to
a node, whose mailbox would drop those that come late.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from producers.cluster.telling import Telling
from producers.observation import SignalClass
from producers.spool import Entry
from runtime import logs
from schemas.envelope import Event, Origin, decode, encode, make_event
from schemas.ids import Subject, mailbox_key, node_subject, run_subject

STAGE: Final = "watcher"
_log = logs.get(__name__)


def watcher_key(cluster: str) -> bytes:
    """Kafka key of everything a cluster's watcher tells."""
    return mailbox_key(cluster, STAGE)


def first_number(start: datetime, highest: int | None) -> int:
    """Number to begin with: above every one that was used before."""
    return max(int(start.timestamp() * 1_000_000), 0 if highest is None else highest + 1)


def subject_of(telling: Telling) -> Subject:
    """Mailbox an event is about: its run, else its node; the router sends it to all it is meant for."""
    payload = telling.payload
    placement = getattr(payload, "placement", None)
    run = placement.run if placement is not None else getattr(payload, "run", None)
    return run_subject(run) if run is not None else node_subject(payload.node.uid)  # type: ignore[attr-defined] # facts and signals name one


class Outbox:
    """Filled by the watcher, emptied by the publisher; safe to use from both."""

    def __init__(self, cluster: str, source: str, first: int, clock: Callable[[], float]) -> None:
        """`source` is the CloudEvents source; `clock` Unix seconds."""
        self._cluster = cluster
        self._source = source
        self._clock = clock
        self._key = watcher_key(cluster)
        self._next = first
        self._acked = first
        self._waiting: deque[Entry] = deque()
        self._taken = 0
        self._mutex = threading.Lock()
        self.refused = 0
        """Events the broker will never take."""

    def __len__(self) -> int:
        """Events not confirmed."""
        return len(self._waiting)

    @property
    def acked(self) -> int:
        """All numbered below are confirmed."""
        return self._acked

    @property
    def next_sequence(self) -> int:
        """Number the next event will get."""
        return self._next

    def append(self, tellings: Sequence[Telling]) -> None:
        """Let these be sent, in order."""
        with self._mutex:
            for telling in tellings:
                event = make_event(
                    telling.payload,
                    id=telling.id,
                    source=self._source,
                    subject=subject_of(telling),
                    time=telling.time,
                    cluster=self._cluster,
                )
                self._add(event)

    def take(self, most: int) -> list[Entry]:
        """The next events in order; empty when all were taken."""
        with self._mutex:
            taken = [self._waiting[place] for place in range(self._taken, min(self._taken + most, len(self)))]
            self._taken += len(taken)
            return taken

    def rewind(self) -> None:
        """Take everything that is not confirmed again."""
        with self._mutex:
            self._taken = 0

    def acknowledge(self, below: int) -> None:
        """Everything taken below this number is confirmed."""
        with self._mutex:
            self._acked = max(self._acked, below)
            while self._waiting and self._waiting[0].sequence < below:
                self._waiting.popleft()
                self._taken = max(0, self._taken - 1)

    def renumber(self, entry: Entry) -> None:
        """A later one overtook it: give it a number above, and so a new origin."""
        with self._mutex:
            self._add(decode(entry.value))

    def give_up(self, entry: Entry, reason: str) -> None:
        """The broker will never take it: its subject is told again by the next repetition, smaller or not at all."""
        self.refused += 1
        _log.error("a fact was given up", sequence=entry.sequence, reason=reason)

    def _add(self, event: Event) -> None:
        origin = str(Origin(STAGE, 0, self._next, 0))
        value = encode(event.model_copy(update={"origin": origin}))
        self._waiting.append(Entry(self._next, SignalClass.FAULT, self._key, value, self._clock()))
        self._next += 1
