"""A pod on a node that says nothing: forced off only once the node is presumed gone, by UID, and the outcome says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from actuators.nodes.silent_nodes import KUBELET_LEASES
from actuators.settings import ActingSettings, SilentNodeSettings
from runtime import paths
from runtime.errors import ApiNotFound
from runtime.kubernetes import Cluster, Object, PatchKind
from sandbox.control_plane import Options
from schemas.cluster import agent_lease
from schemas.commands import OutcomeResult
from tests.actuators.real_job import PATIENCE, make_job, pods_of
from tests.actuators.real_scene import RealScene
from tests.actuators.real_steps import a_node, bind, set_phase, suspend, until_it_ends
from tests.real.kubernetes import NewCluster, client_of, make_namespace, stand_in_at_length

AFTER = 4.0
NOT_SAID_YET = "the Job controller has not said so yet"
SHORT = SilentNodeSettings(
    after=timedelta(seconds=AFTER), heard_within=timedelta(seconds=3), namespace="relight"
)


class Place:
    """Three nodes, a job with one pod on the first, and whoever speaks."""

    def __init__(self, api: Cluster, scene: RealScene, nodes: list[str]) -> None:
        self.api = api
        self.scene = scene
        self.dead, *self.others = nodes
        self.job = make_job(api, make_namespace(api, "team"), 2)
        self.stuck = pods_of(api, self.job)[0]
        bind(api, self.stuck, self.dead)
        set_phase(api, self.stuck, "Running")
        self.speak(kubelets=nodes, agents=nodes)

    def speak(self, *, kubelets: list[str] | None = None, agents: list[str] | None = None) -> None:
        for name in kubelets or []:
            self._renew(KUBELET_LEASES, name, name)
        for name in agents or []:
            self._renew("relight", agent_lease(name), name)

    def lost(self, status: str = "Unknown") -> None:
        condition = {"type": "Ready", "status": status, "reason": "NodeStatusUnknown", "message": "silent"}
        path = paths.status(paths.nodes(self.dead))
        self.api.patch(
            path, {"status": {"conditions": [condition]}}, kind=PatchKind.STRATEGIC, manager="test"
        )

    def waits(self) -> str:
        """Ask for a while, in any case until the Job controller has said what ends; the pod stays, and this is why."""
        ends = time.monotonic() + PATIENCE
        while True:
            outcome = until_it_ends(self.scene, suspend(self.job), patience=0.5)
            assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "terminating")
            assert self.is_there()
            if outcome.detail != NOT_SAID_YET:
                return str(outcome.detail)
            assert time.monotonic() < ends, outcome.detail

    def is_there(self) -> bool:
        uids = [pod["metadata"]["uid"] for pod in pods_of(self.api, self.job)]
        return self.stuck["metadata"]["uid"] in uids

    def _renew(self, namespace: str, name: str, node: str) -> None:
        uid = self.api.get(paths.nodes(node))["metadata"]["uid"]
        body: Object = {
            "metadata": {
                "name": name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}],
            },
            "spec": {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
        }
        try:
            self.api.patch(paths.leases(namespace, name), body, manager="kubelet")
        except ApiNotFound:
            self.api.create(paths.leases(namespace), body)


@pytest.fixture
def place(new_cluster: NewCluster) -> Iterator[Place]:
    api = client_of(new_cluster(Options(node_lifecycle=None)))
    api.create(paths.namespaces(), {"metadata": {"name": "relight"}})
    with ExitStack() as stack:
        scene = RealScene(api, stack.enter_context(ThreadPoolExecutor(2)))
        scene.settings = ActingSettings(silent_node=SHORT)
        nodes = [stack.enter_context(a_node(api, f"node-{number}")) for number in (1, 2, 3)]
        yield Place(api, scene, nodes)


@pytest.mark.slow
@pytest.mark.timeout(180)
@stand_in_at_length("a cluster of its own, and ten seconds of silence")
def test_a_pod_is_forced_off_a_node_only_once_it_is_presumed_gone_and_the_outcome_says_so(
    place: Place,
) -> None:
    place.lost("False")
    time.sleep(AFTER + 1)
    place.speak(kubelets=place.others)
    assert "which is no silence" in place.waits()

    place.lost()
    place.speak(kubelets=[place.dead, *place.others])
    assert "kubelet silent for" in place.waits()

    time.sleep(AFTER + 1)
    assert "kubelet silent for 0 s" in place.waits(), "all are silent: it is not this node"

    place.speak(kubelets=place.others)
    outcome = until_it_ends(place.scene, suspend(place.job))
    assert outcome.result is OutcomeResult.DONE
    assert not place.is_there()
    (pod,) = place.api.list(paths.events("team"), fields="reason=ForcedOff").items
    assert "presumed gone: node node-1" in pod["message"]
    assert "2 of 2 other nodes are heard" in pod["message"]
