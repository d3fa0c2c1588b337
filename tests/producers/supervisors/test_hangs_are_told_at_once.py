"""When an agent on a cluster looks for hangs at all: while what it tells is heard at once."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from producers.on_cluster import OnCluster
from producers.settings import AgentSettings, NodeSettings
from producers.supervisors.standstills import Edge, Standstills
from runtime.settings import KubernetesSettings
from tests.producers.supervisors.supervised import IDENTITY

NOWHERE = {
    "current-context": "it",
    "clusters": [{"name": "it", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "it", "user": {}}],
    "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
}


@pytest.mark.parametrize(
    ("room", "broker", "synced", "away_since", "looks"),
    [
        (True, True, True, None, 1),
        (False, True, True, None, 0),
        (True, False, True, None, 0),
        (True, True, False, None, 0),
        (True, True, True, 5.0, 0),
    ],
)
def test_nobody_is_judged_while_reports_wait_or_broker_or_api_are_away(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    room: bool,
    broker: bool,
    synced: bool,
    away_since: float | None,
    looks: int,
) -> None:
    looked: list[Standstills] = []

    def look(self: Standstills) -> tuple[Edge, ...]:
        looked.append(self)
        return ()

    monkeypatch.setattr(Standstills, "look", look)
    way = tmp_path / "kubeconfig"
    way.write_text(json.dumps(NOWHERE), encoding="utf-8")
    settings = AgentSettings(
        cluster="c-1",
        on_cluster=True,
        kubernetes=KubernetesSettings(kubeconfig=way),
        node=NodeSettings(name="node-1", uid="node-uid"),
    )
    agent = OnCluster(settings, IDENTITY, lambda: datetime.now(UTC), None, None)
    agent.lean_on(has_room=lambda: room, reaches_broker=lambda: broker)
    if synced:
        agent.pods.informer.synced.set()
    agent.pods.informer.failing_since = away_since
    hangs = next(source for source in agent.sources if source.name == "hangs")

    async def once() -> None:
        asking = asyncio.ensure_future(hangs.next())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(once())

    assert len(looked) == looks
