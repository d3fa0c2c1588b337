"""Facts about runs and nodes: what the cluster watcher tells, as edges.

Membership travels as one edge a pod; no message lists all pods (design 5). Whoever publishes facts, scripted or watcher, must pass the
contract test in `tests/recovery/fact_contract.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.envelope import Payload
from schemas.signals import LogText, Name, NodeRef, Placement, ShortText


class WorkloadKind(StrEnum):
    """Kinds of workload objects relight knows."""

    JOB = "Job"
    JOBSET = "JobSet"
    VOLCANO_JOB = "VolcanoJob"
    PYTORCH_JOB = "PyTorchJob"
    TRAIN_JOB = "TrainJob"
    LEADER_WORKER_SET = "LeaderWorkerSet"
    POD = "Pod"


class Fact(Payload):
    """Base of facts; facts about nodes carry the node, facts about runs the run."""


class RunSeen(Fact):
    """The workload object as it stands: sent at first sight, at every change, and at a resync. The last one wins."""

    TYPE: ClassVar[str] = "dev.relight.fact.run_seen.v1"
    kind: Literal["run_seen"] = "run_seen"
    run: Name
    workload: WorkloadKind
    namespace: Name
    name: Name
    object_uid: Name
    """UID of the present object; a rebuild changes it, the run id stays."""
    epoch: Annotated[int, Field(ge=1)]
    """MA_SCHEDULE_CNT of the present issue."""
    size: Annotated[int, Field(ge=1)]
    """Pods the workload wants."""
    annotations: dict[ShortText, LogText] = Field(default_factory=dict)
    """Those that begin with `fault-tolerance/` or `relight`, read from the workload object's metadata."""
    supervised: bool
    """Every pod has relight's supervisor."""
    supported: bool = True
    """An adapter exists for the topmost object (finding Q9)."""
    suspended: bool = False


class RunEnded(Fact):
    """The workload object reached an end or was deleted."""

    TYPE: ClassVar[str] = "dev.relight.fact.run_ended.v1"
    kind: Literal["run_ended"] = "run_ended"
    run: Name
    object_uid: Name
    how: Literal["succeeded", "failed", "deleted"]
    detail: LogText | None = None


class PodBound(Fact):
    """A pod of a run was bound to a node, with these chips."""

    TYPE: ClassVar[str] = "dev.relight.fact.pod_bound.v1"
    kind: Literal["pod_bound"] = "pod_bound"
    node: NodeRef
    placement: Placement
    chips: tuple[Name, ...] = ()


class PodEnded(Fact):
    """A pod of a run is terminal or gone."""

    TYPE: ClassVar[str] = "dev.relight.fact.pod_ended.v1"
    kind: Literal["pod_ended"] = "pod_ended"
    node: NodeRef
    placement: Placement
    how: Literal["succeeded", "failed", "deleted", "lost"]
    processes_gone: bool = False
    """The kubelet or the supervisor said that no process of the pod lives (a vanished object proves nothing)."""


class IssueState(Fact):
    """All pods of the present issue exist, or one is missing."""

    TYPE: ClassVar[str] = "dev.relight.fact.issue_state.v1"
    kind: Literal["issue_state"] = "issue_state"
    run: Name
    epoch: Annotated[int, Field(ge=1)]
    state: Literal["complete", "incomplete"]
    missing: Annotated[int, Field(ge=0)] = 0


class NodeSeen(Fact):
    """A node as it stands: at first sight, at every change that matters, and at a resync."""

    TYPE: ClassVar[str] = "dev.relight.fact.node_seen.v1"
    kind: Literal["node_seen"] = "node_seen"
    node: NodeRef
    ready: bool
    cordoned: bool = False
    """`spec.unschedulable`, whoever set it."""
    our_taint: bool = False
    protected: bool = False
    """Carries relight's own parts or the control plane: never isolated."""
    released_by: ShortText | None = None
    """Field manager of a human who took our taint off (same Node UID, not a controller)."""
    devices: dict[ShortText, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """Chips the node offers by resource name, as its kubelet counts the healthy ones (`status.allocatable`)."""


class NodeGone(Fact):
    """The Node object was deleted; its UID never comes back."""

    TYPE: ClassVar[str] = "dev.relight.fact.node_gone.v1"
    kind: Literal["node_gone"] = "node_gone"
    node: NodeRef


FACTS: tuple[type[Fact], ...] = (RunSeen, RunEnded, PodBound, PodEnded, IssueState, NodeSeen, NodeGone)
