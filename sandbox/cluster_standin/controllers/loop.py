"""The loop around the controllers: one thread decides and writes, informers wake it, nothing is asked in between.

A controller is a function of the copies and the time: what it wants written now, and when it wants to look again though nothing changed. It is
asked until it wants nothing more, so each decision is small and made on what the one before has brought about. A batch that fails is left, the
others are carried out; it is wanted again soon, on a newer copy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, Protocol
from uuid import uuid4

from runtime import logs, paths
from runtime.errors import ApiConflict, ApiError, ApiForbidden, ApiInvalid, ApiNotFound
from runtime.informer import Informer
from runtime.kubernetes import Cluster, Object
from sandbox.cluster_standin.controllers import reading, writes
from sandbox.cluster_standin.controllers.copies import Copies, informer_of
from sandbox.cluster_standin.controllers.writes import (
    Batch,
    Bind,
    Create,
    Delete,
    Empty,
    Finalize,
    Kind,
    Patch,
    Say,
    Write,
)

GATHER: Final = timedelta(milliseconds=20)
"""Changes come in swarms: a moment later one decision does for all."""
AGAIN: Final = timedelta(milliseconds=500)
SLOWEST: Final = timedelta(seconds=5)
MOST_ROUNDS: Final = 20
"""A controller that wants something for so long wants the same again and again: then it waits, and says so."""

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a controller wants.

    Args:
        batches: to be written now; none: it is content.
        again: when it wants to look though nothing changes; None: never.
    """

    batches: tuple[Batch, ...] = ()
    again: datetime | None = None


class Carried(IntEnum):
    """What became of a batch, the worst last."""

    OUT = 0
    TOO_LATE = 1
    """Somebody was quicker."""
    REFUSED = 2
    """By the server, or it does not answer."""


class Controller(Protocol):
    """One of them."""

    name: str
    watches: frozenset[Kind]
    """What it decides on: it looks when one of these changes."""

    def decide(self, copies: Copies, now: datetime) -> Decision:
        """What to write, and when to look again."""
        ...


def earliest(times: Iterable[datetime | None]) -> datetime | None:
    """The first of the times there are."""
    return min((at for at in times if at is not None), default=None)


class Loop:
    """Runs controllers on one cluster."""

    def __init__(
        self,
        api: Cluster,
        controllers: Iterable[Controller],
        *,
        empty: Callable[[Cluster, str], int],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`empty` deletes what is in a namespace and says how much is left of it."""
        self._api = api
        self._empty = empty
        self._clock = clock
        self._controllers = list(controllers)
        self._due: dict[str, datetime | None] = {}
        self._trouble: dict[str, timedelta] = {}
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._stop = threading.Event()
        self.copies = Copies(self.wake)

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; a write that is on its way then is waited for."""
        self._stop = stop
        informers = [informer_of(self.copies, kind, self._api) for kind in Kind]
        threads = [threading.Thread(target=each.run, name="controllers", daemon=True) for each in informers]
        for thread in threads:
            thread.start()
        ender = threading.Thread(target=self._end, args=(stop,), name="controllers", daemon=True)
        ender.start()
        try:
            if self._listed(informers, stop):
                self._work(stop)
        finally:
            for informer in informers:
                informer.stop()
            for thread in threads:
                thread.join()

    def round(self) -> None:
        """Let every controller that is due decide and write until it is content."""
        now = self._clock()
        for controller in self._controllers:
            with self._lock:
                due = self._due.get(controller.name)
                if due is None or due > now:
                    continue
                self._due[controller.name] = None
            self._ask(controller)

    def wake(self, kind: Kind) -> None:
        """Something of a kind changed. From any thread."""
        now = self._clock()
        with self._lock:
            for controller in self._controllers:
                due = self._due.get(controller.name)
                # One in trouble keeps its time: a server that refuses is not asked at every heartbeat of a node.
                if kind in controller.watches and not (due and controller.name in self._trouble):
                    self._due[controller.name] = earliest((due, now))
        self._awake.set()

    def _end(self, stop: threading.Event) -> None:
        stop.wait()
        self._awake.set()

    @staticmethod
    def _listed(informers: list[Informer], stop: threading.Event) -> bool:
        """Wait until all of the cluster is known: who decides on half of it takes the other half for gone."""
        for informer in informers:
            while not informer.synced.wait(AGAIN.total_seconds()):
                if stop.is_set():
                    return False
        return True

    def _work(self, stop: threading.Event) -> None:
        now = self._clock()
        with self._lock:
            self._due = {controller.name: now for controller in self._controllers}
        while not stop.is_set():
            self._awake.clear()
            self.round()
            with self._lock:
                due = earliest(self._due.values())
            left = None if due is None else max(0.0, (due - self._clock()).total_seconds())
            if self._awake.wait(left) and not stop.is_set():
                time.sleep(GATHER.total_seconds())

    def _ask(self, controller: Controller) -> None:
        worst = Carried.OUT
        again: datetime | None = None
        for _ in range(MOST_ROUNDS):
            try:
                decision = controller.decide(self.copies, self._clock())
            except Exception:  # noqa: BLE001 - a mistake of one is not the end of the others' work
                _log.exception("a controller failed", controller=controller.name)
                worst = Carried.REFUSED
                break
            again = decision.again
            worst = max(
                (self._carry_out(controller, batch) for batch in decision.batches), default=Carried.OUT
            )
            if worst is not Carried.OUT or not decision.batches:
                break
        else:
            _log.warning("a controller is never content", controller=controller.name)
            worst = Carried.REFUSED
        with self._lock:
            due = self._due.get(controller.name)
            if worst is Carried.REFUSED:
                wait = self._trouble.get(controller.name, AGAIN)
                self._trouble[controller.name] = min(wait * 2, SLOWEST)
                self._due[controller.name] = earliest((again, self._clock() + wait))
                return
            self._trouble.pop(controller.name, None)
            retry = self._clock() + AGAIN if worst is Carried.TOO_LATE else None
            self._due[controller.name] = earliest((due, again, retry))

    def _carry_out(self, controller: Controller, batch: Batch) -> Carried:
        for write in batch:
            if self._stop.is_set():
                return Carried.TOO_LATE
            try:
                self._send(write)
            except (ApiConflict, ApiNotFound) as error:  # the copy learns of it by itself
                _log.debug("decided on something old", controller=controller.name, error=str(error))
                return Carried.TOO_LATE
            except ApiError as error:
                _log.warning("a write failed", controller=controller.name, error=str(error))
                self._tell_failure(write, error)
                return Carried.REFUSED
        return Carried.OUT

    def _send(self, write: Write) -> None:
        match write:
            case Create(kind, namespace, body):
                self.copies.wrote(kind, self._api.create(kind.path(namespace), body))
            case Patch(kind):
                answer = writes.send_patch(self._api, write)
                # A server may let an object go as soon as nothing holds it any more.
                if reading.is_leaving(answer) and not _is_held(answer):
                    self.copies.gone(kind, answer)
                else:
                    self.copies.wrote(kind, answer)
            case Delete(kind, item):
                self._delete(kind, item, write)
            case Bind(pod, node):
                writes.send_binding(self._api, write)
                # The answer has no pod in it: the copy counts until the informer tells the new version.
                self.copies.wrote(Kind.PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}})
            case Finalize(item):
                writes.send_finalize(self._api, write)
                self.copies.gone(Kind.NAMESPACES, item)
            case Empty(namespace):
                if self._empty(self._api, namespace):
                    raise ApiConflict(f"namespace {namespace} is not empty yet")
            case Say():
                self._say(write)

    def _delete(self, kind: Kind, item: Object, write: Delete) -> None:
        try:
            answer = writes.send_delete(self._api, write)
        except ApiNotFound:
            self.copies.gone(kind, item)
            return
        if answer.get("kind") == "Status" or not (answer.get("metadata") or {}).get("uid"):
            if not reading.finalizers(item):
                self.copies.gone(kind, item)
        elif _is_held(answer):
            self.copies.wrote(kind, answer)
        else:
            self.copies.gone(kind, answer)

    def _say(self, said: Say) -> None:
        metadata = said.item["metadata"]
        namespace = metadata.get("namespace") or "default"
        now = reading.instant(self._clock())
        event: Object = {
            "metadata": {"name": f"{metadata['name'][:200]}.{uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": {
                "kind": said.kind,
                "apiVersion": said.api_version,
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata["uid"],
            },
            "reason": said.reason,
            "message": said.message[:1024],
            "type": "Warning" if said.warning else "Normal",
            "source": {"component": writes.MANAGER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._api.create(paths.events(namespace), event)
        except ApiError as error:
            _log.info("an Event was not written", reason=said.reason, error=str(error))

    def _tell_failure(self, write: Write, error: ApiError) -> None:
        """A pod that a quota or an admission refuses never comes: whoever wants it reads why at its Job."""
        if not isinstance(write, Create) or not isinstance(error, ApiInvalid | ApiForbidden):
            return
        owner = reading.owner(write.body)
        job = owner and self.copies.find(Kind.JOBS, write.namespace, str(owner["name"]))
        if job:
            text = f"Error creating: {error}"
            self._say(Say("Job", job, "FailedCreate", text, warning=True, api_version="batch/v1"))


def _is_held(item: Object) -> bool:
    """Something keeps a deleted object there: a finalizer, or the grace it gets."""
    metadata = item["metadata"]
    return bool(metadata.get("finalizers")) or (metadata.get("deletionGracePeriodSeconds") or 0) > 0
