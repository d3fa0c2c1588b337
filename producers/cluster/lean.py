"""Objects without what nobody reads: an informer keeps what it is given, and most of an object is images, managed fields and environment.

A source between the API and the informer, so that what is large is dropped before it is kept. Reading a lean object gives the same as
reading the whole one: a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from producers.cluster.reading import part, parts
from runtime.informer import OpenWatch, Source
from runtime.kubernetes import Change, Listing, Object
from schemas.cluster import EPOCH, EVICTED_FOR, INJECTED, JOB_UID_LABEL, RANK_LABEL

Trim = Callable[[Object], Object]
_METADATA: Final = (
    "uid",
    "name",
    "namespace",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)
_POD_ANNOTATIONS: Final = (EPOCH, EVICTED_FOR, INJECTED, RANK_LABEL)
_POD_LABELS: Final = (JOB_UID_LABEL, RANK_LABEL)
_POD_CONDITIONS: Final = ("PodScheduled", "DisruptionTarget")


def lean_pod(pod: Object) -> Object:
    """What is read of a pod."""
    metadata = _some(part(pod, "metadata"), _METADATA)
    metadata["annotations"] = _some(part(pod, "metadata", "annotations"), _POD_ANNOTATIONS)
    metadata["labels"] = _some(part(pod, "metadata", "labels"), _POD_LABELS)
    conditions = [
        _some(each, ("type", "status", "reason", "lastTransitionTime"))
        for each in parts(pod, "status", "conditions")
        if each.get("type") in _POD_CONDITIONS
    ]
    status: Object = {"phase": part(pod, "status").get("phase"), "conditions": conditions}
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        found = parts(pod, "status", kind)
        if found:
            status[kind] = [_some(each, ("name", "restartCount", "state", "lastState")) for each in found]
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": part(pod, "spec").get("nodeName"),
            "containers": [_container(each) for each in parts(pod, "spec", "containers")],
        },
        "status": status,
    }


def lean_job(job: Object) -> Object:
    """What is read of a Job."""
    metadata = _some(part(job, "metadata"), (*_METADATA, "annotations", "labels"))
    spec = _some(part(job, "spec"), ("parallelism", "completions", "suspend", "managedBy"))
    template = part(job, "spec", "template")
    spec["template"] = {
        "metadata": _some(part(template, "metadata"), ("annotations",)),
        "spec": {
            "containers": [_container(each) for each in parts(template, "spec", "containers")],
            "initContainers": [_container(each) for each in parts(template, "spec", "initContainers")],
        },
    }
    status = _some(part(job, "status"), ("conditions", "succeeded", "completionTime"))
    return {"metadata": metadata, "spec": spec, "status": status}


def lean_node(node: Object) -> Object:
    """What is read of a node. Heartbeat times of conditions go: they change and say nothing."""
    metadata = _some(part(node, "metadata"), (*_METADATA, "annotations", "labels"))
    metadata["managedFields"] = [
        _some(each, ("manager", "time", "subresource")) for each in parts(node, "metadata", "managedFields")
    ]
    conditions = [
        _some(each, ("type", "status", "reason", "message", "lastTransitionTime"))
        for each in parts(node, "status", "conditions")
    ]
    return {
        "metadata": metadata,
        "spec": _some(part(node, "spec"), ("unschedulable", "taints")),
        "status": {"conditions": conditions, "allocatable": part(node, "status", "allocatable")},
    }


def lean_own_pod(pod: Object) -> Object:
    """What is read of relight's own pods: where they are, and whether they still run."""
    return {
        "metadata": _some(part(pod, "metadata"), _METADATA),
        "spec": _some(part(pod, "spec"), ("nodeName",)),
        "status": _some(part(pod, "status"), ("phase",)),
    }


def _container(container: Object) -> Object:
    return {
        "name": container.get("name"),
        "resources": _some(part(container, "resources"), ("limits", "requests")),
    }


def _some(item: Mapping[str, Any], names: tuple[str, ...]) -> Object:
    return {name: item[name] for name in names if name in item}


class LeanWatch:
    """A watch whose objects are lean."""

    def __init__(self, watch: OpenWatch, trim: Trim) -> None:
        self._watch = watch
        self._trim = trim

    def close(self) -> None:
        """End it, from any thread."""
        self._watch.close()

    def __iter__(self) -> Iterator[Change]:
        """Changes until it ends. A bookmark is passed as it is: it has a version and nothing else."""
        for change in self._watch:
            yield Change(change.kind, self._trim(change.object))


class LeanSource:
    """A source whose objects are lean."""

    def __init__(self, source: Source, trim: Trim) -> None:
        self._source = source
        self._trim = trim

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        """All objects."""
        found = self._source.list(path, labels=labels, fields=fields)
        return Listing([self._trim(item) for item in found.items], found.resource_version)

    def watch(self, path: str, *, since: str, labels: str = "", fields: str = "") -> LeanWatch:
        """Changes from a version on."""
        return LeanWatch(self._source.watch(path, since=since, labels=labels, fields=fields), self._trim)
