"""Presuming a node gone: everything that speaks against it first, since what follows cannot be taken back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from actuators.nodes.silent_nodes import KUBELET_LEASES, heard_at, presume
from actuators.settings import ActingSettings, SilentNodeSettings
from actuators.world import Budget, TimedApi, World
from runtime import paths
from runtime.errors import ApiAway
from runtime.kubernetes import Object
from schemas.cluster import agent_lease
from tests.actuators.scene import EXECUTOR, Scene
from tests.actuators.scripted_api import NOW, raising

NAME = "node-1"
SILENT = timedelta(minutes=6)
FRESH = timedelta(seconds=5)


def node(status: str | None = "Unknown", uid: str = "node-uid-1") -> Object:
    conditions = [] if status is None else [{"type": "Ready", "status": status}]
    return {"metadata": {"name": NAME, "uid": uid}, "spec": {}, "status": {"conditions": conditions}}


def text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease(name: str, silent: timedelta, *, owner: str = "", server: timedelta | None = None) -> Object:
    metadata: Object = {"name": name, "uid": f"lease-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"kind": "Node", "uid": owner}]
    if server is not None:
        metadata["managedFields"] = [{"manager": "kubelet", "time": text(NOW - server)}]
    return {"metadata": metadata, "spec": {"renewTime": text(NOW - silent)}}


class Cluster:
    """Ten nodes; the first one is asked about."""

    def __init__(self, *, kubelet: timedelta | None = SILENT, agent: timedelta | None = SILENT) -> None:
        self.scene = Scene()
        self.settings = ActingSettings()
        self.put(kubelet=kubelet, agent=agent)
        self.others(FRESH)

    def put(self, *, kubelet: timedelta | None = None, agent: timedelta | None = None, **more: Any) -> None:
        if kubelet is not None:
            self.scene.api.put(paths.leases(KUBELET_LEASES, NAME), lease(NAME, kubelet, **more))
        if agent is not None:
            name = agent_lease(NAME)
            owned = {"owner": "node-uid-1", **more}
            self.scene.api.put(paths.leases("relight", name), lease(name, agent, **owned))

    def others(self, silent: timedelta, *, count: int = 9, first: int = 2) -> None:
        for number in range(first, first + count):
            name = f"node-{number}"
            self.scene.api.put(paths.leases(KUBELET_LEASES, name), lease(name, silent))

    def world(self) -> World:
        budget = Budget(6.0, lambda: 0.0)
        return World(
            api=TimedApi(self.scene.api, budget),
            budget=budget,
            now=lambda: self.scene.now,
            executor=EXECUTOR,
            voice=self.scene.said,
            settings=self.settings,
        )

    def why_not(self, one: Object | None = None) -> str:
        found = presume(one or node(), self.world())
        assert not found.gone, found.why
        return found.why


# ------------------------------------------------------------------------ never


@pytest.mark.parametrize("status", ["True", "False", None])
def test_a_node_the_control_plane_hears_is_not_gone_whatever_the_leases_say(status: str | None) -> None:
    cluster = Cluster()

    assert "no silence" in cluster.why_not(node(status))
    assert cluster.scene.api.calls == [], "and costs no call"


@pytest.mark.parametrize("fresh", [{"kubelet": FRESH}, {"agent": FRESH}, {"agent": timedelta(seconds=299)}])
def test_while_either_of_the_two_is_heard_nobody_is_gone(fresh: dict[str, timedelta]) -> None:
    cluster = Cluster()
    cluster.put(**fresh)

    assert "silent for" in cluster.why_not()


@pytest.mark.parametrize("who", ["kubelet", "agent"])
def test_a_clock_that_is_behind_makes_nobody_silent_whose_writes_the_server_noted(who: str) -> None:
    cluster = Cluster()
    cluster.put(**{who: SILENT}, server=FRESH)

    cluster.why_not()


def test_a_node_whose_agent_was_never_heard_is_left_to_a_human() -> None:
    assert "never heard" in Cluster(agent=None).why_not()


def test_a_node_whose_kubelet_has_no_lease_is_left_to_a_human() -> None:
    assert "never heard" in Cluster(kubelet=None).why_not()


def test_the_silence_of_an_earlier_node_of_that_name_says_nothing() -> None:
    assert "this very node" in Cluster().why_not(node(uid="another"))


def test_an_agent_that_renews_rarely_is_not_silent_before_its_lease_has_run_out() -> None:
    cluster = Cluster()
    path = paths.leases("relight", agent_lease(NAME))
    cluster.scene.api.objects[path]["spec"]["leaseDurationSeconds"] = 1800

    assert "agent silent for 360 s of 1800 s" in cluster.why_not()


def test_when_most_other_nodes_are_silent_as_well_nobody_is_gone() -> None:
    cluster = Cluster()
    cluster.others(SILENT, count=8)

    assert "only 1 of 9" in cluster.why_not()


def test_when_a_fifth_and_one_are_silent_nobody_is_gone() -> None:
    cluster = Cluster()
    cluster.others(SILENT, count=2)

    assert "only 7 of 9" in cluster.why_not()


def test_after_the_server_was_away_for_all_nobody_is_gone() -> None:
    """Nobody could renew for ten minutes. Our clock says that all are silent; beside the others this node is not."""
    cluster = Cluster()
    cluster.put(kubelet=timedelta(minutes=10, seconds=30), agent=timedelta(minutes=11))
    cluster.others(timedelta(minutes=10))

    assert "silent for 30 s" in cluster.why_not()


def test_the_first_node_that_renews_after_an_outage_condemns_no_other() -> None:
    cluster = Cluster()
    cluster.put(kubelet=timedelta(minutes=10), agent=timedelta(minutes=10))
    cluster.others(timedelta(minutes=10), count=8)
    cluster.others(FRESH, count=1, first=10)

    assert "only 1 of 9" in cluster.why_not()


def test_a_cluster_of_one_node_cannot_tell() -> None:
    cluster = Cluster()
    for number in range(2, 11):
        del cluster.scene.api.objects[paths.leases(KUBELET_LEASES, f"node-{number}")]

    assert "no other node" in cluster.why_not()


def test_where_a_human_decides_nobody_is_presumed_gone() -> None:
    cluster = Cluster()
    cluster.settings = ActingSettings(silent_node=SilentNodeSettings(then="wait"))

    assert "a human" in cluster.why_not()


def test_a_silent_api_presumes_nothing() -> None:
    cluster = Cluster()
    cluster.scene.api.before = raising(ApiAway("silent"), "LIST")

    with pytest.raises(ApiAway):
        presume(node(), cluster.world())


def test_a_silence_shorter_than_being_heard_is_refused_as_a_setting() -> None:
    with pytest.raises(ValueError, match="heard_within"):
        SilentNodeSettings(after=timedelta(seconds=30))
    with pytest.raises(ValueError, match="greater than"):
        SilentNodeSettings(others_heard=0.5)


# ------------------------------------------------------------------------ then


def test_alone_silent_kubelet_and_agent_and_lost_by_the_control_plane_it_is_presumed_gone() -> None:
    cluster = Cluster()
    cluster.others(SILENT, count=1)

    found = presume(node(), cluster.world())

    assert found.gone
    assert "kubelet silent for 355 s and agent silent for 355 s; 8 of 9 other nodes are heard" in found.why


def test_a_lease_is_heard_at_the_later_of_its_writers_time_and_the_servers() -> None:
    assert heard_at(lease("a", SILENT, server=FRESH)) == NOW - FRESH
    assert heard_at(lease("a", FRESH, server=SILENT)) == NOW - FRESH


def test_a_name_too_long_for_a_lease_gets_one_all_the_same() -> None:
    names = {agent_lease("n" * 250 + letter) for letter in "ab"}

    assert len(names) == 2
    assert all(len(name) <= 253 for name in names)
