"""The controllers' copy of the cluster: kept by informers, and by what the controllers themselves have written.

A controller that decides on a copy from before its own last write does it twice: a pod of the same index again, a deletion again. Kubernetes'
own keep books of what they still expect to see; here what the server answered to a write is taken into the copy at once, and the newer version
of an object wins, whoever told it. That compares resource versions as numbers, which etcd's are, and which the API promises since 1.35.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from runtime.informer import Difference, Informer, Source, uid_of
from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers.writes import Kind

UNSEEN_SECONDS: Final = 2.0
"""A list may have been made before a write of ours: so long, what we wrote stays though the list has it not."""

Key = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    version: int
    item: Object | None
    written: float


class Copies:
    """Objects by kind. Told from many threads, read from one."""

    def __init__(
        self, changed: Callable[[Kind], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`changed` hears of every change that came from outside, in an informer's thread."""
        self._changed = changed
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[Kind, dict[Key, _Entry]] = {kind: {} for kind in Kind}

    def all(self, kind: Kind) -> list[Object]:
        """All objects of a kind, by namespace and name."""
        with self._lock:
            entries = sorted(self._entries[kind].items())
        return [entry.item for _, entry in entries if entry.item is not None]

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """One object."""
        with self._lock:
            entry = self._entries[kind].get((namespace, name))
        return None if entry is None else entry.item

    def wrote(self, kind: Kind, item: Object) -> None:
        """The server answered so to a write."""
        self._take(kind, _key(item), _version(item), item, written=self._clock())

    def gone(self, kind: Kind, item: Object) -> None:
        """The server answered that it is gone; `item` as it was known last."""
        self._take(kind, _key(item), _version(item), None, written=self._clock())

    def told(self, kind: Kind, difference: Difference) -> None:
        """An informer told it."""
        old, new = difference.old, difference.new
        item = difference.object
        if new is None:
            self._take(kind, _key(item), _version(item), None)
        elif old is None or uid_of(old) == uid_of(new):
            self._take(kind, _key(item), _version(item), new)
        self._changed(kind)

    def listed(self, kind: Kind, whole: list[Object]) -> None:
        """A whole list was made: what is not in it is gone, however new the copy of it is."""
        there = {_key(item) for item in whole}
        settled = self._clock() - UNSEEN_SECONDS
        with self._lock:
            entries = self._entries[kind]
            for key in [
                key for key, entry in entries.items() if key not in there and entry.written < settled
            ]:
                del entries[key]

    def _take(self, kind: Kind, key: Key, version: int, item: Object | None, *, written: float = 0.0) -> None:
        with self._lock:
            entries = self._entries[kind]
            known = entries.get(key)
            ours = written > 0 or item is None  # of the same version, what was told is no news
            if known is not None and (version < known.version or (version == known.version and not ours)):
                return
            entries[key] = _Entry(version, item, written)


def informer_of(copies: Copies, kind: Kind, source: Source) -> Informer:
    """An informer that keeps the copies of one kind."""
    made: list[Informer] = []
    informer = Informer(
        source,
        kind.path(),
        partial(copies.told, kind),
        listed=lambda: copies.listed(kind, made[0].snapshot()),
    )
    made.append(informer)
    return informer


def _key(item: Object) -> Key:
    metadata = item["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])


def _version(item: Object) -> int:
    return int(item["metadata"]["resourceVersion"])
