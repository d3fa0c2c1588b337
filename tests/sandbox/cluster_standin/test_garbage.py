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


class Swept:
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
def swept() -> Swept:
    return Swept()


def test_with_its_owner_goes_what_it_owned_and_what_that_owned(swept: Swept) -> None:
    first = swept.make(CONFIG_MAPS, "first")
    second = swept.make(CONFIG_MAPS, "second", owned_by(first, CONFIG_MAPS))
    swept.make(LEASES, "third", owned_by(second, CONFIG_MAPS))
    swept.make(CONFIG_MAPS, "another")

    swept.delete(CONFIG_MAPS, "first")

    assert [swept.find(CONFIG_MAPS, name) for name in ("first", "second")] == [None, None]
    assert swept.find(LEASES, "third") is None
    assert swept.find(CONFIG_MAPS, "another") is not None


def test_a_lease_of_a_node_goes_with_the_node_and_not_with_its_pods(swept: Swept) -> None:
    node = swept.make(NODES, "n1")
    swept.make(LEASES, "agent", owned_by(node, NODES))

    swept.delete(NODES, "n1")

    assert swept.find(LEASES, "agent") is None


def test_what_has_another_owner_that_is_there_stays(swept: Swept) -> None:
    one, other = swept.make(CONFIG_MAPS, "one"), swept.make(CONFIG_MAPS, "other")
    swept.make(CONFIG_MAPS, "shared", owned_by(one, CONFIG_MAPS), owned_by(other, CONFIG_MAPS))

    swept.delete(CONFIG_MAPS, "one")
    assert swept.find(CONFIG_MAPS, "shared") is not None
    swept.delete(CONFIG_MAPS, "other")
    assert swept.find(CONFIG_MAPS, "shared") is None


def test_what_names_an_owner_that_is_another_object_by_now_goes(swept: Swept) -> None:
    before = swept.make(CONFIG_MAPS, "owner")
    swept.delete(CONFIG_MAPS, "owner")
    swept.make(CONFIG_MAPS, "owner")

    swept.make(CONFIG_MAPS, "late", owned_by(before, CONFIG_MAPS))

    assert swept.find(CONFIG_MAPS, "late") is None


def test_what_names_an_owner_of_a_kind_that_is_not_served_stays(swept: Swept) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}

    swept.make(CONFIG_MAPS, "kept", owner)

    assert swept.find(CONFIG_MAPS, "kept") is not None


def running_pod(swept: Swept, name: str, *owners: Object) -> Object:
    containers = [{"name": "main", "image": "none"}]
    return swept.make(PODS, name, *owners, spec={"containers": containers, "nodeName": "n1"})


def test_a_running_pod_gets_its_grace_and_the_owner_deleted_in_the_foreground_waits_for_it(
    swept: Swept,
) -> None:
    owner = swept.make(CONFIG_MAPS, "owner")
    running_pod(swept, "p", owned_by(owner, CONFIG_MAPS, blocks=True))

    swept.delete(CONFIG_MAPS, "owner", "Foreground")

    pod, waiting = swept.find(PODS, "p"), swept.find(CONFIG_MAPS, "owner")
    assert pod is not None
    assert waiting is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]

    swept.delete(PODS, "p", grace=0)
    assert swept.find(PODS, "p") is None
    assert swept.find(CONFIG_MAPS, "owner") is None


def test_an_owner_deleted_in_the_foreground_waits_for_nothing_that_does_not_block_it(
    swept: Swept,
) -> None:
    owner = swept.make(CONFIG_MAPS, "owner")
    running_pod(swept, "p", owned_by(owner, CONFIG_MAPS))

    swept.delete(CONFIG_MAPS, "owner", "Foreground")

    pod = swept.find(PODS, "p")
    assert swept.find(CONFIG_MAPS, "owner") is None
    assert pod is not None
    assert "deletionTimestamp" in pod["metadata"]


def test_orphans_stay_without_their_owner(swept: Swept) -> None:
    owner = swept.make(CONFIG_MAPS, "owner")
    swept.make(CONFIG_MAPS, "orphan", owned_by(owner, CONFIG_MAPS))

    swept.delete(CONFIG_MAPS, "owner", "Orphan")

    orphan = swept.find(CONFIG_MAPS, "orphan")
    assert swept.find(CONFIG_MAPS, "owner") is None
    assert orphan is not None
    assert "ownerReferences" not in orphan["metadata"]


def test_what_is_deleted_twice_is_not_found_the_second_time(swept: Swept) -> None:
    swept.make(CONFIG_MAPS, "once")
    swept.delete(CONFIG_MAPS, "once")

    with pytest.raises(Refusal) as refused:
        swept.delete(CONFIG_MAPS, "once")
    assert refused.value.code == 404
