"""What is served: the kinds our clients read and write, with the verbs, subresources and field selectors each has. The rest is 501."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

EVERY: Final = frozenset({"get", "list", "watch", "create", "update", "patch", "delete"})
ANY_FIELD: Final = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True)
class Resource:
    """One kind.

    Args:
        group: of the API; empty for the core group.
        plural: as it stands in paths.
        kind: as it stands in objects.
        namespaced: whether objects belong to a namespace.
        model: the class of the official client that says which fields there are.
        verbs: of the objects themselves.
        subresources: verbs of each.
        fields: field selectors, beside name and namespace.
        has_generation: whether the server counts changes of the specification.
        needs_version: whether a whole object can be put only on the version it was read at.
        returns_deleted: whether a deletion is answered with the object.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool
    model: str
    verbs: frozenset[str] = EVERY
    subresources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    has_generation: bool = False
    needs_version: bool = False
    returns_deleted: bool = False

    def __hash__(self) -> int:
        return hash((self.group, self.plural))

    @property
    def api_version(self) -> str:
        """As it stands in objects."""
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_STATUS: Final = {"status": frozenset({"get", "update", "patch"})}
_WITHOUT_PUT: Final = EVERY - {"update"}

NAMESPACES: Final = Resource(
    "", "namespaces", "Namespace", namespaced=False, model="V1Namespace",
    subresources={"finalize": frozenset({"update"})}, returns_deleted=True,
)  # fmt: skip
SERVICE_ACCOUNTS: Final = Resource(
    "", "serviceaccounts", "ServiceAccount", namespaced=True, model="V1ServiceAccount",
    verbs=_WITHOUT_PUT, subresources={"token": frozenset({"create"})}, returns_deleted=True,
)  # fmt: skip
NODES: Final = Resource(
    "", "nodes", "Node", namespaced=False, model="V1Node", subresources=_STATUS, fields=("spec.unschedulable",)
)  # fmt: skip
PODS: Final = Resource(
    "", "pods", "Pod", namespaced=True, model="V1Pod",
    subresources={**_STATUS, "binding": frozenset({"create"}), "eviction": frozenset({"create"})},
    fields=("spec.nodeName", "status.phase"), has_generation=True, returns_deleted=True,
)  # fmt: skip
CONFIG_MAPS: Final = Resource("", "configmaps", "ConfigMap", namespaced=True, model="V1ConfigMap")
SECRETS: Final = Resource("", "secrets", "Secret", namespaced=True, model="V1Secret", verbs=_WITHOUT_PUT)
EVENTS: Final = Resource(
    "", "events", "Event", namespaced=True, model="CoreV1Event",
    verbs=_WITHOUT_PUT,
    fields=(
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "reason", "type",
    ),
)  # fmt: skip
JOBS: Final = Resource(
    "batch", "jobs", "Job", namespaced=True, model="V1Job", subresources=_STATUS, has_generation=True
)
LEASES: Final = Resource(
    "coordination.k8s.io", "leases", "Lease", namespaced=True, model="V1Lease", needs_version=True
)

ALL: Final = (NAMESPACES, SERVICE_ACCOUNTS, NODES, PODS, CONFIG_MAPS, SECRETS, EVENTS, JOBS, LEASES)
BY_NAME: Final = {(each.group, each.plural): each for each in ALL}
BY_KIND: Final = {(each.api_version, each.kind): each for each in ALL}
