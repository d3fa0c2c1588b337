"""The agent's Lease: made, renewed, this very node's; trouble ends nothing."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from producers.presence import Presence
from producers.settings import NodeSettings, PresenceSettings
from runtime import paths
from runtime.errors import ApiAway, ApiNotFound
from runtime.kubernetes import Cluster, Object
from schemas.cluster import agent_lease

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODE = NodeSettings(name="node-1", uid="uid-1")


class Api:
    """Leases by path."""

    def __init__(self) -> None:
        self.leases: dict[str, Object] = {}
        self.patched = 0
        self.trouble: Exception | None = None
        self.third = asyncio.Event()
        self.made = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    def create(self, path: str, body: Object) -> Object:
        self.leases[f"{path}/{body['metadata']['name']}"] = body
        self._tell(self.made)
        return body

    def patch(self, path: str, body: Object, *, manager: str = "") -> Object:
        assert manager
        self.patched += 1
        if self.patched >= 3:
            self._tell(self.third)
        if self.trouble is not None:
            raise self.trouble
        if path not in self.leases:
            raise ApiNotFound("404")
        self.leases[path] = body
        return body

    def _tell(self, event: asyncio.Event) -> None:
        if self.loop is not None:
            self.loop.call_soon_threadsafe(event.set)


def presence(api: Api, now: datetime = NOW, **settings: object) -> Presence:
    return Presence(api, PresenceSettings.model_validate(settings), NODE, lambda: now)


def test_it_is_made_and_renewed_and_belongs_to_this_very_node() -> None:
    api = Api()
    presence(api).renew()
    presence(api, NOW + timedelta(minutes=1)).renew()

    ((path, lease),) = api.leases.items()
    assert path == paths.leases("relight", "relight-agent-node-1")
    assert lease["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert lease["spec"]["renewTime"] == "2026-03-01T12:01:00.000000Z"


def test_trouble_with_the_api_ends_nothing_and_the_next_renewal_comes() -> None:
    api = Api()
    api.trouble = ApiAway("silent")

    async def a_while() -> None:
        api.loop = asyncio.get_running_loop()
        task = asyncio.create_task(presence(api, every="10ms").run())
        await api.third.wait()
        assert not task.done()
        api.trouble = None
        await api.made.wait()
        task.cancel()

    asyncio.run(asyncio.wait_for(a_while(), 20))


def test_turned_off_it_writes_nothing() -> None:
    api = Api()
    asyncio.run(presence(api, enabled=False).run())

    assert api.patched == 0


@pytest.mark.slow
def test_the_server_notes_each_renewal_by_its_own_clock(api: Cluster, namespace: str) -> None:
    """What actuators go by where the node's clock is wrong: the writer here is a year behind."""
    past = datetime.now(UTC) - timedelta(days=365)
    settings = PresenceSettings(namespace=namespace)
    made = api.create(paths.nodes(), {"metadata": {"name": f"n-{namespace[-8:]}"}})["metadata"]
    node = NodeSettings(name=made["name"], uid=made["uid"])
    path = paths.leases(namespace, agent_lease(node.name))
    try:
        noted = []
        for number in range(2):
            now = past + timedelta(seconds=number)
            Presence(api, settings, node, partial(datetime.fromtimestamp, now.timestamp(), UTC)).renew()
            entries = api.get(path)["metadata"]["managedFields"]
            noted.append(max(datetime.fromisoformat(entry["time"]) for entry in entries))
            time.sleep(1.1)  # the server notes whole seconds
    finally:
        api.delete(paths.nodes(node.name))

    assert datetime.now(UTC) - noted[0] < timedelta(minutes=1)
    assert noted[1] > noted[0]
