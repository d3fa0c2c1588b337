"""Pods: where one stands, how it ended, and whether the kubelet said that its processes are gone.

Only the kubelet's own word counts as that: every container told as terminated. A phase `Failed` written by the control plane (pod GC, taint
manager) and an object that vanished prove nothing about processes (recovery 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from producers.cluster.reading import counted, holds, number, part, parts, text, time_at
from runtime.kubernetes import Object
from schemas.cluster import EPOCH, EVICTED_FOR, INJECTED, JOB_UID_LABEL, RANK_LABEL
from schemas.facts import PodBound
from schemas.signals import EvictionReason, NodeRef, Placement

How = Literal["succeeded", "failed", "deleted", "lost"]
_PHASES: Final[dict[str, How]] = {"Succeeded": "succeeded", "Failed": "failed"}


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """One end of one container, in the kubelet's words."""

    container: str
    restarts: int
    """How often the container had been started before."""
    exit_code: int
    oom: bool
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a Job."""

    uid: str
    name: str
    namespace: str
    job_uid: str
    node: str
    """Name of the node it is bound to; empty: not bound."""
    epoch: int
    rank: int | None
    supervised: bool
    bound_at: datetime | None
    deleting: bool
    ended: How | None
    """Its phase is terminal."""
    ended_at: datetime | None
    processes_gone: bool
    disruption: str
    """Reason of its DisruptionTarget condition; empty: nobody disrupts it."""
    disrupted_at: datetime | None
    ours: bool
    """Our mark was set on it before we evicted or deleted it."""
    ends: tuple[ContainerEnd, ...]
    """Ends of its main container, oldest first: the last, and the one before where the kubelet still shows it."""

    def placement(self, run: str) -> Placement:
        """What is stamped on all that is told of it."""
        return Placement(
            run=run,
            pod_uid=self.uid,
            pod=self.name[:200],
            namespace=self.namespace,
            rank=self.rank,
            epoch=self.epoch,
        )

    def bound(self, run: str, node: NodeRef) -> PodBound:
        """The fact. Chips are left to the node agent, which alone knows their serials."""
        return PodBound(node=node, placement=self.placement(run))


def read_pod(pod: Object) -> Pod:
    """Read a pod as the server wrote it."""
    annotations, labels = part(pod, "metadata", "annotations"), part(pod, "metadata", "labels")
    scheduled, disrupted = holds(pod, "PodScheduled"), holds(pod, "DisruptionTarget")
    rank = counted(text(labels, RANK_LABEL) or text(annotations, RANK_LABEL), 0, -1)
    ends = _ends(pod)
    return Pod(
        uid=text(pod, "metadata", "uid"),
        name=text(pod, "metadata", "name"),
        namespace=text(pod, "metadata", "namespace"),
        job_uid=text(labels, JOB_UID_LABEL),
        node=text(pod, "spec", "nodeName"),
        epoch=counted(text(annotations, EPOCH), 1, 1),
        rank=None if rank < 0 else rank,
        supervised=INJECTED in annotations,
        bound_at=time_at(scheduled or {}, "lastTransitionTime")
        or time_at(pod, "metadata", "creationTimestamp"),
        deleting=bool(text(pod, "metadata", "deletionTimestamp")),
        ended=_ended(pod, text(disrupted or {}, "reason")),
        ended_at=max((end.at for end in ends if end.at is not None), default=None),
        processes_gone=_are_processes_gone(pod),
        disruption=text(disrupted or {}, "reason"),
        disrupted_at=time_at(disrupted or {}, "lastTransitionTime"),
        ours=EVICTED_FOR in annotations,
        ends=ends,
    )


def _ended(pod: Object, disruption: str) -> How | None:
    """A pod that the garbage collector failed was lost with its node; the phase says only `Failed`."""
    how = _PHASES.get(text(pod, "status", "phase"))
    return "lost" if how == "failed" and disruption == EvictionReason.POD_GC.value else how


def _are_processes_gone(pod: Object) -> bool:
    main = parts(pod, "status", "containerStatuses")
    others = [
        *parts(pod, "status", "initContainerStatuses"),
        *parts(pod, "status", "ephemeralContainerStatuses"),
    ]
    wanted = parts(pod, "spec", "containers")
    all_told = bool(main) and len(main) >= len(wanted)
    return (
        all_told
        and all("terminated" in part(status, "state") for status in main)
        and not any("running" in part(status, "state") for status in others)
    )


def _ends(pod: Object) -> tuple[ContainerEnd, ...]:
    name = _main_container(pod)
    status = next(
        (each for each in parts(pod, "status", "containerStatuses") if each.get("name") == name), None
    )
    if status is None:
        return ()
    restarts = number(status, "restartCount") or 0
    found: list[ContainerEnd] = []
    before = part(status, "lastState", "terminated")
    if before and restarts > 0:
        found.append(_end(name, restarts - 1, before))
    now = part(status, "state", "terminated")
    if now:
        found.append(_end(name, restarts, now))
    return tuple(found)


def _end(container: str, restarts: int, terminated: Object) -> ContainerEnd:
    code = number(terminated, "exitCode")
    return ContainerEnd(
        container=container,
        restarts=restarts,
        exit_code=min(max(0, 255 if code is None else code), 255),
        oom=text(terminated, "reason") == "OOMKilled",
        at=time_at(terminated, "finishedAt"),
    )


def _main_container(pod: Object) -> str:
    """The container that holds devices, else the first: a sidecar's end is not the run's."""
    containers = parts(pod, "spec", "containers")
    for container in containers:
        limits = part(container, "resources", "limits")
        if any("/" in name and "kubernetes.io/" not in name for name in limits):
            return text(container, "name")
    return text(containers[0], "name") if containers else ""
