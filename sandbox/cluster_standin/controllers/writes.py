"""What a controller wants written, as values: a decision names them, the loop carries them out (design 10).

Every write names the object as it was read: a patch holds only while nobody has written since, a deletion only for the same UID. So a decision
made on something old changes nothing; the next one is made on what is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runtime import paths
from runtime.kubernetes import Cluster, Object, PatchKind
from sandbox.cluster_standin.controllers import reading

MANAGER: Final = "sandbox-controllers"


class Kind(StrEnum):
    """Kinds that the controllers keep a copy of."""

    PODS = "pods"
    NODES = "nodes"
    JOBS = "jobs"
    LEASES = "leases"
    NAMESPACES = "namespaces"
    ACCOUNTS = "serviceaccounts"

    def path(self, namespace: str = "", name: str | None = None) -> str:
        """Where objects of the kind are: all of them, those of a namespace, or one."""
        within = namespace or None
        match self:
            case Kind.PODS:
                return paths.pods(within, name)
            case Kind.NODES:
                return paths.nodes(name)
            case Kind.JOBS:
                return paths.jobs(within, name)
            case Kind.LEASES:
                return paths.leases(within, name)
            case Kind.NAMESPACES:
                return paths.namespaces(name)
            case Kind.ACCOUNTS:
                base = paths.namespaces(within) if within else "/api/v1"
                return f"{base}/serviceaccounts" + (f"/{name}" if name else "")


@dataclass(frozen=True, slots=True)
class Create:
    """A new object."""

    kind: Kind
    namespace: str
    body: Object


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object, if it is still as it was read.

    Args:
        kind: of the object.
        item: as it was read.
        change: a merge patch; lists are replaced.
        of_status: the change is one of its status.
        by_type: conditions are merged by their type instead: whoever else writes conditions keeps his. Holds for the object, not the version.
    """

    kind: Kind
    item: Object
    change: Object
    of_status: bool = False
    by_type: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, if it is still the same one. Without `grace` its own holds; 0 is at once."""

    kind: Kind
    item: Object
    grace: int | None = None
    propagation: str = "Background"


@dataclass(frozen=True, slots=True)
class Empty:
    """Delete what is in a namespace. Fails, to be wanted again, while something is left."""

    namespace: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Give a pod its node."""

    pod: Object
    node: str


@dataclass(frozen=True, slots=True)
class Finalize:
    """The contents of a namespace are gone: let it go."""

    item: Object


@dataclass(frozen=True, slots=True)
class Say:
    """An Event about an object, for people. Nothing depends on it: one that cannot be written is left."""

    kind: str
    item: Object
    reason: str
    message: str
    warning: bool = False
    api_version: str = "v1"


Write = Create | Patch | Delete | Empty | Bind | Finalize | Say
Batch = tuple[Write, ...]
"""Carried out in order; the first that fails ends it."""


def without_finalizer(kind: Kind, item: Object, finalizer: str) -> Patch:
    """Take a finalizer off."""
    left = [one for one in reading.finalizers(item) if one != finalizer]
    return Patch(kind, item, {"metadata": {"finalizers": left or None}})


def send_patch(api: Cluster, write: Patch) -> Object:
    """Send a patch under its conditions. Raises ApiConflict when the object is another one, or was written since."""
    metadata = write.item["metadata"]
    path = write.kind.path(reading.namespace(write.item), reading.name(write.item))
    kept = {"uid": metadata["uid"]}
    if not write.by_type:
        kept["resourceVersion"] = metadata["resourceVersion"]
    return api.patch(
        paths.status(path) if write.of_status else path,
        {**write.change, "metadata": {**(write.change.get("metadata") or {}), **kept}},
        kind=PatchKind.STRATEGIC if write.by_type else PatchKind.MERGE,
        manager=MANAGER,
    )


def send_delete(api: Cluster, write: Delete) -> Object:
    """Send a deletion. Raises ApiConflict when it is another object."""
    path = write.kind.path(reading.namespace(write.item), reading.name(write.item))
    return api.delete(path, uid=reading.uid(write.item), grace=write.grace, propagation=write.propagation)


def send_binding(api: Cluster, write: Bind) -> Object:
    """Bind a pod. Raises ApiConflict when it is bound already."""
    metadata = write.pod["metadata"]
    body: Object = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": write.node},
    }
    return api.create(f"{paths.pods(metadata['namespace'], metadata['name'])}/binding", body)


def send_finalize(api: Cluster, write: Finalize) -> Object:
    """Take Kubernetes' own finalizer off a namespace."""
    spec = {**(write.item.get("spec") or {}), "finalizers": []}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": write.item["metadata"], "spec": spec}
    return api.replace(f"{paths.namespaces(reading.name(write.item))}/finalize", body)
