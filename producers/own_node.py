"""The node of this agent as the API has it, from a list and a watch: what it has to give, and what is asked of its agent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from runtime import paths
from runtime.informer import Difference, Informer, Source
from runtime.kubernetes import Object


class Reader(Protocol):
    """What is needed to know who we are."""

    def get(self, path: str) -> Object:
        """One object."""
        ...


def uid_of(reader: Reader, name: str) -> str:
    """UID of the node that has this name now: no pod can be told its node's UID by Kubernetes. Raises ApiError."""
    return str(reader.get(paths.nodes(name))["metadata"]["uid"])


class OwnNode:
    """Keeps the newest object; another node under our name (another UID) is not ours and counts as none."""

    def __init__(self, source: Source, name: str, uid: str) -> None:
        self._uid = uid
        self._heard: list[Callable[[Object], None]] = []
        self._lock = threading.Lock()
        self._object: Object | None = None
        self.informer = Informer(source, paths.nodes(), self.tell, fields=f"metadata.name={name}")

    def hear(self, heard: Callable[[Object], None]) -> None:
        """Whom to tell of each change, in the informer's thread; before the informer runs."""
        self._heard.append(heard)

    @property
    def object(self) -> Object | None:
        """The node; None before it was seen, when it is gone, or when its name belongs to another one."""
        with self._lock:
            return self._object

    def tell(self, difference: Difference) -> None:
        """Take one difference of the informer."""
        new = difference.new
        ours = new if new is not None and new["metadata"]["uid"] == self._uid else None
        with self._lock:
            if difference.new is None and difference.object["metadata"]["uid"] != self._uid:
                return
            self._object = ours
        if ours is not None:
            for heard in self._heard:
                heard(ours)

    def resources(self) -> dict[str, int]:
        """Extended resources the node has to give."""
        found = self.object
        given: dict[str, Any] = {} if found is None else (found.get("status") or {}).get("allocatable") or {}
        return {name: int(amount) for name, amount in given.items() if "/" in name and str(amount).isdigit()}
