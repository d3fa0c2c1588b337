"""The pods of a Job: which are its own, how each stands, what a new one looks like. Pure; after kube-controller-manager 1.36.

Indexes count from 0 and stand in an annotation and a label. `completedIndexes` is a text of intervals, such as `0,2-4`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import reading

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
LONGEST_PREFIX: Final = 58  # a name of 63 less the five letters the server adds
PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_indexed(job: Object) -> bool:
    """Its pods have indexes."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Object) -> int:
    """Its index, -1 where it has none."""
    text = str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return int(text) if text.isdecimal() else -1


def is_active(pod: Object) -> bool:
    """Neither over nor being deleted."""
    return not reading.has_ended(pod) and not reading.is_leaving(pod)


def is_terminating(pod: Object) -> bool:
    """Being deleted, and not over yet."""
    return reading.is_leaving(pod) and not reading.has_ended(pod)


def is_tracked(pod: Object) -> bool:
    """Not counted yet."""
    return TRACKING in reading.finalizers(pod)


def replaces_only_failed(job: Object) -> bool:
    """A pod that is being deleted is replaced when it is over, not before."""
    spec = job["spec"]
    return bool(spec.get("podReplacementPolicy") == "Failed") or spec.get("podFailurePolicy") is not None


def has_failed(pod: Object, job: Object) -> bool:
    """It counts as failed: a deleted pod may never get as far as to fail."""
    if reading.phase(pod) == "Failed":
        return True
    return not replaces_only_failed(job) and reading.is_leaving(pod) and reading.phase(pod) != "Succeeded"


def has_place(pod: Object, job: Object) -> bool:
    """Its index is one the Job has, where pods have indexes."""
    return not is_indexed(job) or 0 <= index_of(pod) < int(job["spec"]["completions"])


# ---------------------------------------------------------------------- indexes


def indexes_in(text: str, size: int) -> set[int]:
    """Indexes of a text of intervals, below a size. A part that is none is left out."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found |= set(range(int(first), min(int(last or first), size - 1) + 1))
    return found


def indexes_text(indexes: Iterable[int]) -> str:
    """Indexes as a text of intervals; two neighbours are written as two."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)  # noqa: PLR2004


def pending_indexes(job: Object, pods: Sequence[Object], succeeded: set[int], count: int) -> list[int]:
    """The first indexes that have no pod and need one."""
    held = {index_of(pod) for pod in pods if is_active(pod)} | succeeded
    if replaces_only_failed(job):
        held |= {index_of(pod) for pod in pods if is_terminating(pod)}
    return [index for index in range(int(job["spec"]["completions"])) if index not in held][:count]


# ---------------------------------------------------------------------- too many


def surplus(job: Object, active: Sequence[Object], at_least: int) -> list[Object]:
    """Pods to delete: those without a place, all but the best of each index, and as many more of the worst as are too many."""
    removed: list[Object] = []
    left = list(active)
    if is_indexed(job):
        best: dict[int, Object] = {}
        for pod in sorted((pod for pod in active if has_place(pod, job)), key=_worth):
            best[index_of(pod)] = pod
        kept = {reading.uid(pod) for pod in best.values()}
        removed = [pod for pod in active if reading.uid(pod) not in kept]
        left = [pod for pod in active if reading.uid(pod) in kept]
    return removed + sorted(left, key=_worth)[: max(0, at_least - len(removed))]


def _worth(pod: Object) -> tuple[bool, int, bool, int, float]:
    """What is least lost first: not bound, not begun, not ready, the youngest."""
    created = reading.time_of(pod["metadata"].get("creationTimestamp"))
    return (
        bool(reading.node_of(pod)),
        PHASES.get(reading.phase(pod), 0),
        reading.holds(pod, "Ready"),
        -restarts(pod),
        -created.timestamp() if created else 0.0,
    )


def restarts(pod: Object) -> int:
    """How often its containers were started again."""
    status = pod.get("status") or {}
    every = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return sum(int(one.get("restartCount") or 0) for one in every)


# ---------------------------------------------------------------------- a new one


def new_pod(job: Object, index: int | None) -> Object:
    """A pod of the Job's template; the server makes its name."""
    template = copy.deepcopy(job["spec"]["template"])
    given = template.get("metadata") or {}
    name, spec = reading.name(job), template["spec"]
    labels, annotations = dict(given.get("labels") or {}), dict(given.get("annotations") or {})
    prefix = f"{name}-"
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        spec["hostname"] = f"{name}-{index}"
        tail = f"-{index}-"
        prefix = (
            name[: LONGEST_PREFIX - len(tail)] if len(name) + len(tail) > LONGEST_PREFIX else name
        ) + tail
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            _tell_index(container)
    controller = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": reading.uid(job),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    finalizers = [*(one for one in given.get("finalizers") or () if one != TRACKING), TRACKING]
    metadata: Object = {
        "generateName": prefix,
        "labels": labels,
        "finalizers": finalizers,
        "ownerReferences": [controller],
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _tell_index(container: Object) -> None:
    known = container.get("env") or []
    if any(one.get("name") == INDEX_VARIABLE for one in known):
        return
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    container["env"] = [*known, {"name": INDEX_VARIABLE, "valueFrom": source}]
