"""What becomes of objects whose owner goes."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kubernetes import Object
from sandbox.cluster_standin.garbage import Garbage
from sandbox.cluster_standin.refusals import Refusal
from sandbox.cluster_standin.registry import DeleteOptions, Place, Registry
from sandbox.cluster_standin.resources import CONFIG_MAPS, LEASES, NODES, PODS, Resource
from sandbox.cluster_standin.store import Store

KINDS = {CONFIG_MAPS: ("v1", "ConfigMap"), NODES: ("v1", "Node"), PODS: ("v1", "Pod")}


class Cluster:
    """A registry with its collector, swept after every write as the server does."""

    def __init__(self) -> None:
        self.registry = Registry(Store())
        self.registry.begin()
        self.garbage = Garbage(self.registry)

    def make(self, resource: Resource, name: str, *owners: Object, **more: Any) -> Object:
        metadata = {"name": name, "ownerReferences": list(owners)}
        place = Place(resource, "default" if resource.namespaced else "")
        made = self.registry.create(place, {"metadata": metadata, **more}, manager="test")
        self.garbage.sweep()
        return made

    def delete(
        self, resource: Resource, name: str, propagation: str = "Background", grace: int | None = None
    ) -> None:
        place = Place(resource, "default" if resource.namespaced else "", name)
        self.registry.delete(place, DeleteOptions(propagation=propagation, grace=grace))
        self.garbage.sweep()

    def find(self, resource: Resource, name: str) -> Object | None:
        return self.registry.store.find(resource, "default" if resource.namespaced else "", name)


def owned_by(owner: Object, resource: Resource, *, blocks: bool = False) -> Object:
    version, kind = KINDS[resource]
    metadata = owner["metadata"]
    reference = {"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "blockOwnerDeletion": True} if blocks else reference


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_with_its_owner_goes_what_it_owned_and_what_that_owned(cluster: Cluster) -> None:
    first = cluster.make(CONFIG_MAPS, "first")
    second = cluster.make(CONFIG_MAPS, "second", owned_by(first, CONFIG_MAPS))
    cluster.make(LEASES, "third", owned_by(second, CONFIG_MAPS))
    cluster.make(CONFIG_MAPS, "another")

    cluster.delete(CONFIG_MAPS, "first")

    assert [cluster.find(CONFIG_MAPS, name) for name in ("first", "second")] == [None, None]
    assert cluster.find(LEASES, "third") is None
    assert cluster.find(CONFIG_MAPS, "another") is not None


def test_a_lease_of_a_node_goes_with_the_node_and_not_with_its_pods(cluster: Cluster) -> None:
    node = cluster.make(NODES, "n1")
    cluster.make(LEASES, "agent", owned_by(node, NODES))

    cluster.delete(NODES, "n1")

    assert cluster.find(LEASES, "agent") is None


def test_what_has_another_owner_that_is_there_stays(cluster: Cluster) -> None:
    one, other = cluster.make(CONFIG_MAPS, "one"), cluster.make(CONFIG_MAPS, "other")
    cluster.make(CONFIG_MAPS, "shared", owned_by(one, CONFIG_MAPS), owned_by(other, CONFIG_MAPS))

    cluster.delete(CONFIG_MAPS, "one")
    assert cluster.find(CONFIG_MAPS, "shared") is not None
    cluster.delete(CONFIG_MAPS, "other")
    assert cluster.find(CONFIG_MAPS, "shared") is None


def test_what_names_an_owner_that_is_another_object_by_now_goes(cluster: Cluster) -> None:
    before = cluster.make(CONFIG_MAPS, "owner")
    cluster.delete(CONFIG_MAPS, "owner")
    cluster.make(CONFIG_MAPS, "owner")

    cluster.make(CONFIG_MAPS, "late", owned_by(before, CONFIG_MAPS))

    assert cluster.find(CONFIG_MAPS, "late") is None


def test_what_names_an_owner_of_a_kind_that_is_not_served_stays(cluster: Cluster) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}

    cluster.make(CONFIG_MAPS, "kept", owner)

    assert cluster.find(CONFIG_MAPS, "kept") is not None


def running_pod(cluster: Cluster, name: str, *owners: Object) -> Object:
    containers = [{"name": "main", "image": "none"}]
    return cluster.make(PODS, name, *owners, spec={"containers": containers, "nodeName": "n1"})


def test_a_running_pod_gets_its_grace_and_the_owner_deleted_in_the_foreground_waits_for_it(
    cluster: Cluster,
) -> None:
    owner = cluster.make(CONFIG_MAPS, "owner")
    running_pod(cluster, "p", owned_by(owner, CONFIG_MAPS, blocks=True))

    cluster.delete(CONFIG_MAPS, "owner", "Foreground")

    pod, waiting = cluster.find(PODS, "p"), cluster.find(CONFIG_MAPS, "owner")
    assert pod is not None
    assert waiting is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]

    cluster.delete(PODS, "p", grace=0)
    assert cluster.find(PODS, "p") is None
    assert cluster.find(CONFIG_MAPS, "owner") is None


def test_an_owner_deleted_in_the_foreground_waits_for_nothing_that_does_not_block_it(
    cluster: Cluster,
) -> None:
    owner = cluster.make(CONFIG_MAPS, "owner")
    running_pod(cluster, "p", owned_by(owner, CONFIG_MAPS))

    cluster.delete(CONFIG_MAPS, "owner", "Foreground")

    pod = cluster.find(PODS, "p")
    assert cluster.find(CONFIG_MAPS, "owner") is None
    assert pod is not None
    assert "deletionTimestamp" in pod["metadata"]


def test_orphans_stay_without_their_owner(cluster: Cluster) -> None:
    owner = cluster.make(CONFIG_MAPS, "owner")
    cluster.make(CONFIG_MAPS, "orphan", owned_by(owner, CONFIG_MAPS))

    cluster.delete(CONFIG_MAPS, "owner", "Orphan")

    orphan = cluster.find(CONFIG_MAPS, "orphan")
    assert cluster.find(CONFIG_MAPS, "owner") is None
    assert orphan is not None
    assert "ownerReferences" not in orphan["metadata"]


def test_what_is_deleted_twice_is_not_found_the_second_time(cluster: Cluster) -> None:
    cluster.make(CONFIG_MAPS, "once")
    cluster.delete(CONFIG_MAPS, "once")

    with pytest.raises(Refusal) as refused:
        cluster.delete(CONFIG_MAPS, "once")
    assert refused.value.code == 404
