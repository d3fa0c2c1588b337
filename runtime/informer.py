"""A copy of a set of objects that keeps itself right: list, watch, and list again when the watch cannot go on.

Guarantees: every difference between what was told and what is, is told once, in order, also what a cut watch hid - an object that went
meanwhile is told as deleted with its last known state, one that was made anew under its name (another UID) as deleted and added. The
callback runs in one thread. An error of the callback is the process's end: half an edge told is worse than a restart from a list.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from runtime import logs
from runtime.errors import ApiAway, ApiError, ApiGone, ApiTooMany
from runtime.kubernetes import Change, ChangeKind, Listing, Object

_log = logs.get(__name__)


class OpenWatch(Protocol):
    """What an informer needs of a watch."""

    def close(self) -> None:
        """End it, from any thread."""
        ...

    def __iter__(self) -> Iterator[Change]:
        """Changes until it ends."""
        ...


class Source(Protocol):
    """What an informer needs of the API."""

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        """All objects."""
        ...

    def watch(self, path: str, *, since: str, labels: str = "", fields: str = "") -> OpenWatch:
        """Changes from a version on."""
        ...


@dataclass(frozen=True, slots=True)
class Difference:
    """One edge: `old` is None for an object that is new, `new` for one that is gone."""

    old: Object | None
    new: Object | None

    @property
    def object(self) -> Object:
        """The object, as last known."""
        found = self.new if self.new is not None else self.old
        if found is None:
            raise ValueError("a difference of nothing")
        return found


def uid_of(item: Object) -> str:
    """UID of an object: its identity."""
    return str(item["metadata"]["uid"])


class Informer:
    """Keeps the objects under one path; `tell` hears every difference, `listed` every whole list after its differences."""

    def __init__(
        self,
        source: Source,
        path: str,
        tell: Callable[[Difference], None],
        *,
        labels: str = "",
        fields: str = "",
        listed: Callable[[], None] = lambda: None,
        again: timedelta = timedelta(seconds=1),
        slowest: timedelta = timedelta(seconds=30),
        relist: timedelta = timedelta(minutes=10),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`again` and `slowest` bound the wait after a failure; a whole list is made every `relist` even if the watch seems fine."""
        self._source = source
        self._path = path
        self._tell = tell
        self._labels = labels
        self._fields = fields
        self._listed = listed
        self._again = again.total_seconds()
        self._slowest = slowest.total_seconds()
        self._relist = relist.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Object] = {}
        self._stop = threading.Event()
        self._watch: OpenWatch | None = None
        self._version = ""
        self._wait = self._again
        self.synced = threading.Event()
        """Set once the first list was told."""
        self.failing_since: float | None = None
        """When the API stopped answering; None while it does. For health."""

    def snapshot(self) -> list[Object]:
        """All objects as known now, in no order. From any thread."""
        with self._lock:
            return list(self._known.values())

    def find(self, namespace: str, name: str) -> Object | None:
        """One object by name. From any thread."""
        with self._lock:
            return self._known.get((namespace, name))

    def stop(self) -> None:
        """End `run` soon, from any thread."""
        self._stop.set()
        watch = self._watch
        if watch is not None:
            watch.close()

    def run(self) -> None:
        """List and watch until `stop`."""
        listed_at = 0.0
        while not self._stop.is_set():
            try:
                if not self._version or self._clock() - listed_at >= self._relist:
                    self._version, listed_at = self._list(), self._clock()
                if not self._follow():
                    self._pause(
                        self._again
                    )  # a server that ends every watch at once is not asked in a circle
            except ApiGone as error:
                _log.info("watch is too old, listing again", path=self._path, error=str(error))
                self._version = ""
                self._pause(self._again)
            except ApiError as error:
                self._failed(error)
                asked = error.retry_after if isinstance(error, ApiTooMany) else 0.0
                self._pause(max(self._wait, min(asked, self._slowest)))
                self._wait = min(self._wait * 2, self._slowest)
                if not isinstance(error, ApiAway):
                    self._version = ""
            else:
                self._wait = self._again

    def _failed(self, error: ApiError) -> None:
        if self.failing_since is None:
            self.failing_since = self._clock()
            _log.warning("the API does not answer", path=self._path, error=str(error))

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _list(self) -> str:
        listing = self._source.list(self._path, labels=self._labels, fields=self._fields)
        self.failing_since = None
        found = {_key(item): item for item in listing.items}
        with self._lock:
            gone = [key for key in self._known if key not in found]
        for key in gone:
            self._take(key, None)
        for key, item in found.items():
            self._take(key, item)
        self._listed()
        self.synced.set()
        return listing.resource_version

    def _follow(self) -> bool:
        """Watch until the server ends it; whether it told anything."""
        watch = self._source.watch(self._path, since=self._version, labels=self._labels, fields=self._fields)
        self._watch = watch
        self.failing_since = None
        if self._stop.is_set():
            watch.close()
        try:
            return self._read(watch)
        finally:
            self._watch = None
            watch.close()

    def _read(self, changes: Iterable[Change]) -> bool:
        told = False
        for change in changes:
            told = True
            self._wait = self._again  # it went well: the next failure is another one
            if change.kind is not ChangeKind.BOOKMARK:
                gone = change.kind is ChangeKind.DELETED
                self._take(_key(change.object), None if gone else change.object, last=change.object)
            # From here a broken watch goes on: told before it is noted, so nothing is passed over.
            self._version = str(change.object["metadata"]["resourceVersion"])
            if self._stop.is_set():
                break
        return told

    def _take(self, key: tuple[str, str], new: Object | None, *, last: Object | None = None) -> None:
        with self._lock:
            old = self._known.get(key)
            if new is None:
                self._known.pop(key, None)
            else:
                self._known[key] = new
        if new is None:
            if old is not None:
                self._tell(Difference(last or old, None))
        elif old is None:
            self._tell(Difference(None, new))
        elif uid_of(old) != uid_of(new):
            self._tell(Difference(old, None))
            self._tell(Difference(None, new))
        elif old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"]:
            self._tell(Difference(old, new))


def _key(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])
