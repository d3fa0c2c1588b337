"""Which node this is: said by settings, or on a cluster asked of the API once."""

from __future__ import annotations

from typing import Any

import pytest

from producers.own_node import uid_of
from producers.settings import AgentSettings
from relight.commands import node_agent
from relight.node_agent_settings import NodeAgentSettings
from runtime.errors import SettingsConflict
from runtime.kubernetes import Object
from runtime.settings import read_settings


class Nodes:
    """An API with one node."""

    def __init__(self, *_: Any) -> None:
        """Made as a client is."""

    def get(self, path: str) -> Object:
        assert path == "/api/v1/nodes/node-1"
        return {"metadata": {"name": "node-1", "uid": "uid-1"}}


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_CLUSTER", "lab")
    monkeypatch.setenv("RELIGHT_NODE__NAME", "node-1")


def test_the_uid_is_the_object_s() -> None:
    assert uid_of(Nodes(), "node-1") == "uid-1"


def test_without_a_cluster_the_uid_must_be_said() -> None:
    with pytest.raises(SettingsConflict, match="RELIGHT_NODE__UID must be set"):
        read_settings(AgentSettings)


def test_on_a_cluster_it_is_asked_for_where_it_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_ON_CLUSTER", "true")
    monkeypatch.setattr("runtime.kubernetes.Cluster", Nodes)

    assert node_agent._with_uid(read_settings(NodeAgentSettings)).node.uid == "uid-1"
    monkeypatch.setenv("RELIGHT_NODE__UID", "said")
    assert node_agent._with_uid(read_settings(NodeAgentSettings)).node.uid == "said"
