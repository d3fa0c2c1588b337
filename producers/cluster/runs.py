"""Runs: what a Job says of the run it carries.

A run is known by the annotation `relight.dev/run`, else by the UID of its first object (recovery 0). Only a batch/v1 Job that is its own master
has an adapter: one owned by another controller, managed by another controller, or queued by Kueue is told as unsupported, since whoever
stands above it would undo a suspend (finding Q9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from producers.cluster.reading import controller_of, counted, holds, number, part, parts, text, time_at
from runtime.kubernetes import Object
from schemas.cluster import EPOCH, EVICTED_FOR, INJECTED, RUN
from schemas.facts import RunSeen, WorkloadKind

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_OUR_ANNOTATIONS: Final = ("fault-tolerance/", "relight")
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_LONGEST_KEY: Final = 200
_LONGEST_VALUE: Final = 2000


@dataclass(frozen=True, slots=True)
class End:
    """How a workload object came to its end."""

    how: Literal["succeeded", "failed", "deleted"]
    at: datetime | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A Job as the run it carries."""

    uid: str
    run: str
    namespace: str
    name: str
    epoch: int
    size: int
    annotations: tuple[tuple[str, str], ...]
    supervised: bool
    supported: bool
    queued: bool
    suspended: bool
    holds_devices: bool
    succeeded: int
    end: End | None
    being_rebuilt: bool
    """It carries our own mark: whoever deletes it now is us, and another object of the run will follow."""
    made_at: datetime | None

    def seen(self, epoch: int) -> RunSeen:
        """The fact, at this epoch or the object's own, whichever is higher."""
        return RunSeen(
            run=self.run,
            workload=WorkloadKind.JOB,
            namespace=self.namespace,
            name=self.name,
            object_uid=self.uid,
            epoch=max(epoch, self.epoch),
            size=self.size,
            annotations=dict(self.annotations),
            supervised=self.supervised,
            supported=self.supported,
            suspended=self.suspended,
        )


def read_run(job: Object, devices: Iterable[str]) -> Run:
    """Read a Job; `devices`: what resource names of chips begin with, such as `nvidia.com/gpu`."""
    annotations = part(job, "metadata", "annotations")
    uid = text(job, "metadata", "uid")
    template = part(job, "spec", "template")
    owner = controller_of(job)
    managed_by = text(job, "spec", "managedBy")
    queued = bool(text(job, "metadata", "labels", QUEUE_LABEL))
    return Run(
        uid=uid,
        run=text(annotations, RUN) or uid,
        namespace=text(job, "metadata", "namespace"),
        name=text(job, "metadata", "name"),
        epoch=counted(text(annotations, EPOCH), 1, 1),
        size=_size(job),
        annotations=_ours(annotations),
        supervised=bool(text(template, "metadata", "annotations", INJECTED)),
        supported=owner is None and managed_by in {"", _JOB_CONTROLLER} and not queued,
        queued=queued,
        suspended=part(job, "spec").get("suspend") is True,
        holds_devices=any(_wants(container, tuple(devices)) for container in _containers(template)),
        succeeded=number(job, "status", "succeeded") or 0,
        end=_end(job) or _deletion(job),
        being_rebuilt=EVICTED_FOR in annotations,
        made_at=time_at(job, "metadata", "creationTimestamp"),
    )


def _deletion(job: Object) -> End | None:
    """A Job that waits for its pods to go (foreground deletion) is at its end already: what its pods do now is that deletion."""
    asked = text(job, "metadata", "deletionTimestamp")
    if not asked or EVICTED_FOR in part(job, "metadata", "annotations"):
        return None
    return End("deleted", None, "deleted by somebody else")


def _size(job: Object) -> int:
    """Pods that run at a time: a Job with more completions than parallelism goes through them by and by."""
    parallelism = number(job, "spec", "parallelism")
    wanted = 1 if parallelism is None else parallelism
    completions = number(job, "spec", "completions")
    return max(1, wanted if completions is None else min(wanted, completions))


def _ours(annotations: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Ours and the seeds', cut to what a fact may carry: they are written by people and may be anything."""
    return tuple(
        sorted(
            (key, value[:_LONGEST_VALUE])
            for key, value in annotations.items()
            if key.startswith(_OUR_ANNOTATIONS) and len(key) <= _LONGEST_KEY and isinstance(value, str)
        )
    )


def _containers(template: Object) -> list[Object]:
    return [*parts(template, "spec", "containers"), *parts(template, "spec", "initContainers")]


def _wants(container: Object, devices: tuple[str, ...]) -> bool:
    wanted = {
        **part(container, "resources", "requests"),
        **part(container, "resources", "limits"),
    }
    return any(name.startswith(devices) for name in wanted) if devices else False


def _end(job: Object) -> End | None:
    failed, complete = holds(job, "Failed"), holds(job, "Complete")
    if failed is not None:
        said = ": ".join(each for each in (text(failed, "reason"), text(failed, "message")) if each)
        return End("failed", time_at(failed, "lastTransitionTime"), said[:_LONGEST_VALUE])
    if complete is not None:
        at = time_at(job, "status", "completionTime") or time_at(complete, "lastTransitionTime")
        return End("succeeded", at)
    return None
