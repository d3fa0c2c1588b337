"""A Job's manifest as its owner wrote it, taken from the object as the server keeps it. Pure.

What the server or a controller put there is left out, so that it can be created again; labels, annotations, owner and finalizers of the
user stay. A selector the user set himself (`manualSelector`) stays with its labels.
"""

from __future__ import annotations

import copy
import json
from typing import Final

from actuators.jobs.keeping_off import KEPT_OFF, affinity_without
from runtime.kubernetes import Object
from schemas.cluster import EPOCH, EVICTED_FOR, LET_GO, RUN, SUSPENDED_UNTIL

REBUILT_FROM: Final = "relight.dev/rebuilt-from"
"""On a job: UID of the object it replaces."""
_SET_BY_THE_SERVER: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_SET_ON_DELETION: Final = frozenset({"foregroundDeletion", "orphan"})
_SET_BY_THE_CONTROLLER: Final = (
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
)
_TRACKING: Final = "batch.kubernetes.io/job-tracking"


def cleaned(job: Object) -> Object:
    """What can be created again."""
    made = copy.deepcopy(job)
    made.pop("status", None)
    metadata = made["metadata"]
    for key in _SET_BY_THE_SERVER:
        metadata.pop(key, None)
    _without(metadata, "annotations", EVICTED_FOR, SUSPENDED_UNTIL, LET_GO, _TRACKING)
    finalizers = [one for one in metadata.get("finalizers") or [] if one not in _SET_ON_DELETION]
    if "finalizers" in metadata:
        metadata["finalizers"] = finalizers
    spec = made["spec"]
    spec.pop("suspend", None)
    template = spec["template"].setdefault("metadata", {})
    template.pop("creationTimestamp", None)
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        for labelled in (metadata, template):
            _without(labelled, "labels", *_SET_BY_THE_CONTROLLER)
    return {"apiVersion": "batch/v1", "kind": "Job", **made}


def of_epoch(manifest: Object, *, run: str, epoch: int, replaces: str, keep_off: list[str]) -> Object:
    """The Job of the next issue: run and epoch on it and on its template, and the nodes to keep off, made anew."""
    made = copy.deepcopy(manifest)
    carried = {RUN: run, EPOCH: str(epoch)}
    affinity = affinity_without(manifest, keep_off)
    annotations = made["metadata"].get("annotations") or {}
    annotations.pop(KEPT_OFF, None)
    off = {KEPT_OFF: json.dumps(keep_off)} if keep_off else {}
    made["metadata"]["annotations"] = {**annotations, **carried, **off, REBUILT_FROM: replaces}
    template = made["spec"]["template"]
    template["metadata"]["annotations"] = {**(template["metadata"].get("annotations") or {}), **carried}
    template["spec"].pop("affinity", None)
    if affinity is not None:
        template["spec"]["affinity"] = affinity
    return made


def that_fails(manifest: Object, *, run: str, epoch: int, replaces: str) -> Object:
    """The Job as one that is over: it makes no pod, and its deadline passes at once, so that its user finds it Failed."""
    made = of_epoch(manifest, run=run, epoch=epoch, replaces=replaces, keep_off=[])
    made["spec"] |= {"parallelism": 0, "backoffLimit": 0, "activeDeadlineSeconds": 1}
    return made


def _without(metadata: Object, group: str, *keys: str) -> None:
    values = metadata.get(group)
    if values is None:
        return
    for key in keys:
        values.pop(key, None)
    if not values:
        del metadata[group]
