"""Kubernetes Events in plain words, beside the work and never in its way.

One thread writes them. The name of an Event is derived from what it says it for, so that a command that comes twice says it once. What
does not fit in the queue, or cannot be written, is counted and forgotten: a person misses a sentence, no step fails.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from actuators.world import Api, Words
from runtime import logs, paths
from runtime.errors import ApiConflict, ApiError
from runtime.kubernetes import Object
from schemas.cluster import FIELD_MANAGER
from schemas.ids import derive_id

LONGEST_NOTE: Final = 1000
LONGEST_NAME: Final = 200
NODE_EVENTS: Final = "default"
"""Events about objects without a namespace stand here."""

_log = logs.get(__name__)


def event_of(words: Words, at: datetime) -> Object:
    """The Event, named by its key."""
    metadata = words.about["metadata"]
    namespace = metadata.get("namespace") or NODE_EVENTS
    stamp = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = f"{metadata['name'][:LONGEST_NAME]}.{derive_id(metadata['uid'], words.reason, words.key)[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": words.about.get("apiVersion", ""),
            "kind": words.about.get("kind", ""),
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "reason": words.reason,
        "message": words.text[:LONGEST_NOTE],
        "type": "Warning" if words.warning else "Normal",
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


class Announcer:
    """The voice of a process."""

    def __init__(self, api: Api, now: Callable[[], datetime], *, room: int = 1000) -> None:
        self._api = api
        self._now = now
        self._queue: queue.Queue[Words | None] = queue.Queue(room)
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self.said = 0
        self.lost = 0

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, patience: float) -> None:
        """Write what is queued, for as long as the patience lasts."""
        try:
            self._queue.put(None, timeout=patience)
        except queue.Full:
            return
        self._thread.join(patience)

    def say(self, words: Words) -> None:
        """Queue it, or count it as lost."""
        try:
            self._queue.put_nowait(words)
        except queue.Full:
            self.lost += 1

    def _run(self) -> None:
        while (words := self._queue.get()) is not None:
            self.write(words)

    def write(self, words: Words) -> None:
        """Write one now."""
        try:
            event = event_of(words, self._now())
            self._api.create(paths.events(event["metadata"]["namespace"]), event)
        except ApiConflict:
            return  # said before
        except ApiError as error:
            self.lost += 1
            _log.warning("an Event could not be written", reason=words.reason, error=str(error))
        except Exception:  # noqa: BLE001 - no sentence is worth a step
            self.lost += 1
            _log.exception("an Event could not be made", reason=words.reason)
        else:
            self.said += 1
