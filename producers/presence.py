"""That this node's agent lives, in a Lease of its own: with the kubelet's it tells a dead node from a silent kubelet (recovery 5).

Renewed by the loop that does everything else here, so an agent that hangs is silent too. Rarely, since 12,500 agents do it. The Lease belongs
to the Node object by UID: a node made anew under the name is another one, and with the node its Lease goes. Who cannot renew says so in the log
and goes on: a missing Lease only means that nobody presumes this node gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

from producers.settings import NodeSettings, PresenceSettings
from runtime import logs, paths
from runtime.errors import ApiError, ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import agent_lease

MANAGER: Final = "relight-agent"
_log = logs.get(__name__)


class LeaseWriter(Protocol):
    """What presence needs of the API."""

    def create(self, path: str, body: Object) -> Object:
        """Make one."""
        ...

    def patch(self, path: str, body: Object, *, manager: str = "") -> Object:
        """Merge into one."""
        ...


class Presence:
    """The Lease, renewed until cancelled."""

    def __init__(
        self, api: LeaseWriter, settings: PresenceSettings, node: NodeSettings, now: Callable[[], datetime]
    ) -> None:
        """`now` is written, for whoever reads it."""
        self._api = api
        self._settings = settings
        self._node = node
        self._now = now
        self._said = ""

    async def run(self) -> None:
        """Until cancelled; at once where it is off."""
        while self._settings.enabled:
            await asyncio.to_thread(self.renew)
            await asyncio.sleep(self._settings.every.total_seconds())

    def renew(self) -> None:
        """Once. Trouble is logged when it begins and when it is another one."""
        said = ""
        try:
            self._write()
        except ApiError as error:
            said = str(error)
            if said != self._said:
                _log.warning(
                    "this agent's Lease was not renewed", lease=agent_lease(self._node.name), error=said
                )
        self._said = said

    def _write(self) -> None:
        name, namespace = agent_lease(self._node.name), self._settings.namespace
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node.name, "uid": self._node.uid}
        body: Object = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": self._node.name,
                "leaseDurationSeconds": max(1, round(3 * self._settings.every.total_seconds())),
                "renewTime": self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }
        try:
            self._api.patch(paths.leases(namespace, name), body, manager=MANAGER)
        except ApiNotFound:
            self._api.create(paths.leases(namespace), body)
