"""Who speaks: one Lease of the cluster (coordination.k8s.io), held by one watcher at a time.

It only keeps two from doing the same work. Two that speak for a short while are harmless: what they tell are states, edges carry ids and
identities that repeat, and the later one's numbers are higher (see `outbox`). Whether a holder is silent is judged by our own clock, from
when we saw its last renewal: clocks of two machines are never compared. A holder whose Lease went to another ends its process: the next
begins from a list. Apart from conditional writes to this one object the watcher writes nothing to the cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from producers.cluster.reading import number, text
from producers.cluster.settings import LeaseSettings
from producers.errors import LeaseLost
from runtime import logs, paths
from runtime.errors import ApiConflict, ApiError, ApiNotFound
from runtime.kubernetes import Object

_log = logs.get(__name__)


class LeaseApi(Protocol):
    """What a Lease needs of the API."""

    def get(self, path: str) -> Object:
        """One object."""
        ...

    def create(self, path: str, body: Object) -> Object:
        """Make one."""
        ...

    def replace(self, path: str, body: Object) -> Object:
        """Put the whole object, on the resourceVersion in it."""
        ...


class Lease:
    """The Lease as one process sees it. ``wait_for(stop)``, then ``keep(stop)`` in a thread of its own, last ``let_go()``."""

    def __init__(
        self,
        api: LeaseApi,
        settings: LeaseSettings,
        holder: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`clock` counts seconds and never goes back; `now` is only written, for people."""
        self._api = api
        self._settings = settings
        self._holder = holder
        self._clock = clock
        self._now = now
        self._duration = settings.duration.total_seconds()
        self._seen: tuple[str, float] = ("", 0.0)
        self._renewed: float | None = None

    @property
    def is_ours(self) -> bool:
        """It was renewed within its duration: nobody else can have taken it."""
        return self._renewed is not None and self._clock() - self._renewed < self._duration

    def wait_for(self, stop: threading.Event) -> bool:
        """Wait until it is ours; False when `stop` came first."""
        while not stop.is_set():
            try:
                if self.try_once():
                    return True
            except ApiError as error:
                _log.warning("the Lease cannot be read or written", error=str(error))
            stop.wait(self._settings.renew.total_seconds())
        return False

    def keep(self, stop: threading.Event) -> None:
        """Renew until `stop`. Raises LeaseLost when another holds it."""
        while not stop.wait(self._settings.renew.total_seconds()):
            try:
                if (
                    not self.try_once() and not self.try_once()
                ):  # a conflict may be our own write that timed out
                    self._renewed = None
                    raise LeaseLost(
                        "another watcher holds the Lease; this one ends and begins again from a list"
                    )
            except ApiError as error:
                _log.warning("the Lease was not renewed", error=str(error))

    def try_once(self) -> bool:
        """Take or renew it; True when it is ours. Raises ApiError."""
        path = paths.leases(self._settings.namespace, self._settings.name)
        began = self._clock()
        try:
            found = self._api.get(path)
        except ApiNotFound:
            return self._write(
                lambda: self._api.create(paths.leases(self._settings.namespace), self._body(None)), began
            )
        if not self._may_take(found):
            return False
        return self._write(lambda: self._api.replace(path, self._body(found)), began)

    def let_go(self) -> None:
        """Leave it to the next, who then need not wait."""
        if not self.is_ours:
            return
        self._renewed = None
        path = paths.leases(self._settings.namespace, self._settings.name)
        try:
            found = self._api.get(path)
            if text(found, "spec", "holderIdentity") == self._holder:
                self._api.replace(path, {**found, "spec": {**found["spec"], "holderIdentity": ""}})
        except ApiError as error:
            _log.info("the Lease was not given back, it runs out", error=str(error))

    def _may_take(self, found: Object) -> bool:
        holder = text(found, "spec", "holderIdentity")
        if holder in {"", self._holder}:
            return True
        version = text(found, "metadata", "resourceVersion")
        if version != self._seen[0]:
            self._seen = (version, self._clock())
            return False
        lasts = number(found, "spec", "leaseDurationSeconds") or self._duration
        return self._clock() - self._seen[1] >= lasts

    def _write(self, write: Callable[[], Object], began: float) -> bool:
        """A conflict means that somebody was faster. A write that timed out may have happened: reading again tells."""
        try:
            write()
        except ApiConflict:
            return False
        self._renewed = began
        return True

    def _body(self, found: Object | None) -> Object:
        now = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict(found.get("spec") or {}) if found is not None else {}
        if spec.get("holderIdentity") != self._holder:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + (found is not None)
        spec["holderIdentity"] = self._holder
        spec["renewTime"] = now
        spec["leaseDurationSeconds"] = max(1, round(self._duration))
        if found is not None:
            return {**found, "spec": spec}
        metadata = {"name": self._settings.name, "namespace": self._settings.namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
