"""How something is told: the payload, an id, a time; and the book is written in the same breath.

Ids of what has an effect (an exit, an eviction, an end, a condition's edge) are derived from what happened, so a watcher that tells it again
after a restart tells the same event. States carry the time they were told at: a state that came back is another event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from producers.cluster.book import Book
from producers.told_ends import container_end_id
from schemas.envelope import Payload
from schemas.ids import derive_id


@dataclass(frozen=True, slots=True)
class Telling:
    """One event to be published."""

    payload: Payload
    id: str
    time: datetime


class Teller:
    """Collects what is told."""

    def __init__(self, cluster: str, book: Book, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self.book = book
        self.now = now
        self._told: list[Telling] = []

    def state(self, payload: Payload, *identity: str) -> None:
        """Tell how something stands now."""
        at = self.now()
        self._tell(payload, derive_id(self._cluster, payload.TYPE, *identity, at.isoformat()), at)

    def edge(self, payload: Payload, *identity: str | int, at: datetime | None) -> None:
        """Tell what happened, once by identity, however often; `at` None: the time is not known, now is the best guess."""
        self._tell(payload, derive_id(self._cluster, payload.TYPE, *identity), at or self.now())

    def container_end(self, payload: Payload, pod_uid: str, restarts: int, *, at: datetime | None) -> None:
        """Tell the end of a supervised container, under the id the node agent would use."""
        self._tell(payload, container_end_id(self._cluster, pod_uid, restarts), at or self.now())

    def drain(self) -> list[Telling]:
        """What was told since the last call, in order."""
        told, self._told = self._told, []
        return told

    def _tell(self, payload: Payload, id: str, at: datetime) -> None:  # noqa: A002 - the CloudEvents attribute's own name
        self.book.fold(payload)
        self._told.append(Telling(payload, id, at))
