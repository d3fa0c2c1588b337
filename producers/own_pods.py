"""The pods of this node, from a list and a watch of the API, never from memory: who they are, what is wanted of them.

What a pod's object says here is what its reports are stamped with: run, epoch, rank, namespace, container are never taken from the pod's own
mouth. Read by the event loop, written by the informer's thread; readers get whole, frozen pictures.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from runtime import logs
from runtime.informer import Difference, Informer, Source
from runtime.kubernetes import Object
from runtime.paths import pods as pods_path
from schemas import cluster
from schemas.errors import DecodeError
from schemas.signals import Placement

ENDED: Final = frozenset({"Succeeded", "Failed"})
LARGEST_ANNOTATION: Final = 4096
"""Bytes of desired state that are read: eight times what an actuator may write."""
LARGEST_CODE: Final = 255
_NUMBER: Final = re.compile(r"^[0-9]{1,9}$")
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class OwnerJob:
    """The Job that made a pod."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Terminated:
    """A container that stands terminated, in the kubelet's words."""

    restarts: int
    """How often it had been started before."""
    exit_code: int
    oom: bool
    at: datetime | None


@dataclass(frozen=True, slots=True)
class OwnPod:
    """One pod of this node, as the API has it."""

    uid: str
    name: str
    namespace: str
    run: str | None
    """None: no run of ours; its supervisor, if it has one, is not heard."""
    epoch: int
    rank: int | None
    desired: cluster.Desired | None
    phase: str
    started: datetime
    """Start of the pod on this node, else its creation."""
    ended: datetime | None
    """End of its last container, once all ended."""
    containers: Mapping[str, str] = field(default_factory=dict)
    """Container id to name."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """Extended resources it holds, such as `nvidia.com/gpu`."""
    chips: tuple[str, ...] = ()
    """Chips its annotations name."""
    job: OwnerJob | None = None
    terminated: Mapping[str, Terminated] = field(default_factory=dict)
    """Containers that ended and have not been started again, by name."""
    leaving: bool = False
    """It is being deleted or evicted: the end of a container in it is no end of its own."""
    gone: bool = False
    """Its object is gone; its processes may still be ending."""

    @property
    def over(self) -> bool:
        """All its containers ended for good."""
        return self.phase in ENDED

    def placement(self, container_id: str | None = None, container: str | None = None) -> Placement | None:
        """What a signal of it, or about a chip of it, is stamped with; None when it is of no run. The container by its id, or by its name."""
        if self.run is None:
            return None
        if container_id:
            container = self.containers.get(container_id)
        if container is None and len(self.containers) == 1:
            container = next(iter(self.containers.values()))
        return Placement(
            run=self.run,
            pod_uid=self.uid,
            pod=self.name[:200],
            namespace=self.namespace[:200],
            container=container,
            rank=self.rank,
            epoch=self.epoch,
        )


Heard = Callable[[OwnPod], None]
"""A pod is new, changed, or gone."""


class OwnPods:
    """Keeps the picture; `run` in a thread of its own."""

    def __init__(
        self, source: Source, node: str, now: Callable[[], datetime], heard: Heard = lambda _: None
    ) -> None:
        """`heard` is called in the informer's thread after the picture changed."""
        self._now = now
        self._heard = heard
        self._lock = threading.Lock()
        self._pods: dict[str, OwnPod] = {}
        self.informer = Informer(source, pods_path(), self.tell, fields=f"spec.nodeName={node}")

    def get(self, uid: str) -> OwnPod | None:
        """One pod by its UID."""
        with self._lock:
            return self._pods.get(uid)

    def all(self) -> list[OwnPod]:
        """All pods, in no order."""
        with self._lock:
            return list(self._pods.values())

    def hear(self, heard: Heard) -> None:
        """Say whom to tell; before `run`."""
        self._heard = heard

    def tell(self, difference: Difference) -> None:
        """Take one difference of the informer."""
        if difference.new is None:
            gone = replace(read_pod(difference.object, self._now()), gone=True)
            with self._lock:
                self._pods.pop(gone.uid, None)
            self._heard(gone)
            return
        pod = read_pod(difference.new, self._now())
        with self._lock:
            before = self._pods.get(pod.uid)
            self._pods[pod.uid] = pod
        if pod != before:
            self._heard(pod)


def read_pod(item: Object, now: datetime) -> OwnPod:
    """Read a pod's object. Annotations are people's and pods' own text: what is wrong in one counts as absent."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    annotations: dict[str, str] = metadata.get("annotations") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    uid = str(metadata["uid"])
    rank = labels.get(cluster.RANK_LABEL) or annotations.get(cluster.RANK_LABEL) or ""
    created = _time(metadata.get("creationTimestamp")) or now
    return OwnPod(
        uid=uid,
        name=str(metadata["name"]),
        namespace=str(metadata.get("namespace", "")),
        run=_name(annotations.get(cluster.RUN)) or _name(labels.get(cluster.JOB_UID_LABEL)),
        epoch=read_epoch(item),
        rank=_number(rank),
        desired=read_order(item),
        phase=str(status.get("phase", "")),
        started=_time(status.get("startTime")) or created,
        ended=_ended(status) if status.get("phase") in ENDED else None,
        containers=_containers(status),
        resources=_resources(spec),
        chips=_chips(annotations),
        job=_job(metadata),
        terminated=_terminated(status),
        leaving="deletionTimestamp" in metadata or _is_disrupted(status),
    )


def read_epoch(item: Object) -> int:
    """MA_SCHEDULE_CNT a pod's object says; 1 where it says none."""
    annotations = item["metadata"].get("annotations") or {}
    return max(1, _number(annotations.get(cluster.EPOCH)) or 1)


def read_order(item: Object) -> cluster.Desired | None:
    """Desired state that stands on a pod's object; None where there is none that can be read."""
    annotations = item["metadata"].get("annotations") or {}
    return _desired(annotations.get(cluster.DESIRED), str(item["metadata"]["uid"]))


def _job(metadata: Mapping[str, Any]) -> OwnerJob | None:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "Job":
            return OwnerJob(str(owner["name"]), str(owner["uid"]))
    return None


def _terminated(status: Mapping[str, Any]) -> dict[str, Terminated]:
    found: dict[str, Terminated] = {}
    for one in status.get("containerStatuses") or ():
        end = (one.get("state") or {}).get("terminated")
        if end:
            code = end.get("exitCode")
            found[str(one["name"])[:200]] = Terminated(
                restarts=int(one.get("restartCount") or 0),
                exit_code=code if type(code) is int and 0 <= code <= LARGEST_CODE else LARGEST_CODE,
                oom=end.get("reason") == "OOMKilled",
                at=_time(end.get("finishedAt")),
            )
    return found


def _is_disrupted(status: Mapping[str, Any]) -> bool:
    return any(
        one.get("type") == "DisruptionTarget" and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )


def _desired(text: str | None, uid: str) -> cluster.Desired | None:
    if not text:
        return None
    if len(text) > LARGEST_ANNOTATION:
        _log.warning("desired state is too large, the pod is told nothing", pod=uid, characters=len(text))
        return None
    try:
        return cluster.Desired.from_text(text)
    except DecodeError as error:
        _log.warning("desired state cannot be read, the pod is told nothing", pod=uid, error=str(error))
        return None


def _name(text: str | None) -> str | None:
    return text if text and len(text) <= 253 else None  # noqa: PLR2004 - schemas.signals.Name


def _number(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.match(text) else None


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _containers(status: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in status.get("containerStatuses") or ():
        _, _, container_id = str(one.get("containerID") or "").rpartition("//")
        if container_id:
            found[container_id] = str(one["name"])[:200]
    return found


def _ended(status: Mapping[str, Any]) -> datetime | None:
    ends = [
        _time(((one.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for one in status.get("containerStatuses") or ()
    ]
    known = [end for end in ends if end is not None]
    return max(known) if known else None


def _resources(spec: Mapping[str, Any]) -> dict[str, int]:
    """Extended resources: their names carry a domain, their requests are their limits."""
    found: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            domain, slash, _ = name.partition("/")
            number = _number(str(amount))
            if slash and number and not domain.endswith("kubernetes.io"):
                found[name] = found.get(name, 0) + number
    return found


ASCEND_REAL: Final = "huawei.com/AscendReal"
"""What the Ascend device plugin really gave the pod: `Ascend910-0,Ascend910-1`."""
_ASCEND: Final = re.compile(r"^Ascend[0-9A-Za-z]*-([0-9]{1,3})$")


def chip_of_device(device: str) -> str:
    """Chip id of a device plugin's device: `Ascend910-3` is `index:3`, a GPU's UUID is itself (a MIG slice keeps its own)."""
    ascend = _ASCEND.match(device)
    return f"index:{ascend[1]}" if ascend else device


def _chips(annotations: Mapping[str, str]) -> tuple[str, ...]:
    named = [text.strip() for text in annotations.get(ASCEND_REAL, "").split(",")]
    return tuple(chip_of_device(text) for text in named if 0 < len(text) <= 64)[:64]  # noqa: PLR2004 - far above a node's chips
