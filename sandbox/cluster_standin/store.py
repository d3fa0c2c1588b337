"""What is stored: objects, one count of versions over all of them, what happened lately, and who watches.

Guarantees: one thread; objects are never changed once stored; versions only rise, also over restarts of the process, so that what was
read from an earlier one is too old and never wrong. What happened is kept for a bounded number of changes: a watch from before is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.refusals import bad_request, expired
from sandbox.cluster_standin.resources import ALL, Resource

Key = tuple[str, str]
"""Namespace (empty: none) and name."""
KEPT_CHANGES: Final = 10_000
KEPT_PAGES: Final = 100
_TOKEN: Final = re.compile(r"^\d+-[0-9a-f]+$")
MOST_BEHIND: Final = 10_000
"""Changes a watch may be behind before it is cut: somebody does not read."""


@dataclass(frozen=True, slots=True)
class Change:
    """One write: what was before, and what is now."""

    version: int
    resource: Resource
    old: Object | None
    new: Object | None
    last: Object
    """The object as it is now, or was when it went: with the version of this change."""

    @property
    def namespace(self) -> str:
        """Of the object."""
        return str(self.last["metadata"].get("namespace", ""))


@dataclass(eq=False)
class Watcher:
    """A watch: changes of one resource, in one namespace or all, as they come."""

    resource: Resource
    namespace: str
    changes: deque[Change] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False

    def takes(self, change: Change) -> bool:
        """Whether it is about what this watches."""
        return change.resource is self.resource and self.namespace in ("", change.namespace)

    def tell(self, change: Change) -> None:
        """There is one more; or it is cut off."""
        if len(self.changes) >= MOST_BEHIND:
            self.is_lost = True
        else:
            self.changes.append(change)
        self.news.set()


class Store:
    """Objects by resource and key."""

    def __init__(self, *, kept: int = KEPT_CHANGES, now: Callable[[], float] = time.time) -> None:
        """`kept`: changes that can be watched from; `now`: seconds, from which versions start."""
        self.version = int(now() * 1000)
        self._from = self.version
        """A watch can begin at this version or later."""
        self._objects: dict[Resource, dict[Key, Object]] = {each: {} for each in ALL}
        self._texts: dict[tuple[Resource, Key], bytes] = {}
        self._history: deque[Change] = deque()
        self._kept = kept
        self._watchers: set[Watcher] = set()
        self._pages: OrderedDict[str, tuple[list[Object], int]] = OrderedDict()
        self.listeners: list[Callable[[Change], None]] = []
        """Hear of every change, at once."""

    # ------------------------------------------------------------ objects

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """One object; never to be changed."""
        return self._objects[resource].get((namespace, name))

    def items(self, resource: Resource, namespace: str = "") -> list[Object]:
        """All objects of a resource, in one namespace or all, in the order of their keys."""
        return [item for key, item in sorted(self._objects[resource].items()) if namespace in ("", key[0])]

    def everything(self) -> Iterator[tuple[Resource, Object]]:
        """All objects there are."""
        for resource, objects in self._objects.items():
            for item in list(objects.values()):
                yield resource, item

    def put(self, resource: Resource, item: Object) -> Object:
        """Store an object; it gets its version here. Whoever gave it does not change it any more."""
        key = _key(item)
        old = self._objects[resource].get(key)
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self._objects[resource][key] = item
        self._texts.pop((resource, key), None)
        self._tell(Change(self.version, resource, old, item, item))
        return item

    def remove(self, resource: Resource, item: Object) -> Object:
        """Take an object away; returns it as it was last, with the version of its end."""
        key = _key(item)
        old = self._objects[resource].pop(key)
        self._texts.pop((resource, key), None)
        self.version += 1
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self._tell(Change(self.version, resource, old, None, last))
        return last

    def text(self, resource: Resource, item: Object) -> bytes:
        """An object as JSON, with its kind; of what is stored it is made once."""
        key = (resource, _key(item))
        if self._objects[resource].get(key[1]) is not item:
            return as_text(resource, item)
        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = as_text(resource, item)
        return found

    # ------------------------------------------------------------ pages

    def keep_rest(self, rest: list[Object], version: int) -> str:
        """The rest of a list as it is now, under a token."""
        token = f"{version}-{time.monotonic_ns():x}"
        self._pages[token] = (rest, version)
        while len(self._pages) > KEPT_PAGES:
            self._pages.popitem(last=False)
        return token

    def take_rest(self, token: str) -> tuple[list[Object], int]:
        """What was kept, and of which version it is. Raises 410 when that was too long ago, 400 for what is no token."""
        if not _TOKEN.match(token):
            raise bad_request("continue key is not valid")
        try:
            return self._pages[token]
        except KeyError:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result."
            ) from None

    # ------------------------------------------------------------ watches

    def watch(self, resource: Resource, namespace: str, since: int) -> Watcher:
        """Begin with what happened after `since`. Raises 410 when that is too long ago, or was never."""
        if not self._from <= since <= self.version:
            raise expired(f"too old resource version: {since} ({self._from})")
        watcher = Watcher(resource, namespace)
        for change in self._history:
            if change.version > since and watcher.takes(change):
                watcher.tell(change)
        self._watchers.add(watcher)
        return watcher

    def end(self, watcher: Watcher) -> None:
        """Nobody reads it any more."""
        self._watchers.discard(watcher)

    def _tell(self, change: Change) -> None:
        self._history.append(change)
        while len(self._history) > self._kept:
            self._from = self._history.popleft().version
        for watcher in self._watchers:
            if watcher.takes(change):
                watcher.tell(change)
        for listener in self.listeners:
            listener(change)


def as_text(resource: Resource, item: Object) -> bytes:
    """An object as JSON, with its kind."""
    told = {"kind": resource.kind, "apiVersion": resource.api_version, **item}
    return json.dumps(told, separators=(",", ":")).encode()


def _key(item: Object) -> Key:
    metadata = item["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])
