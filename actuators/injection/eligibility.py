"""Whether a manifest may be injected, and which container. Pure; the first reason against it is the answer.

Where relight cannot be sure that the job behaves as before without it, it stays out: a job that is not injected is not worse off, one that
no longer starts is (finding Q21).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from actuators.injection.layout import CONTAINER_NAME, MOUNT_ROOT, VOLUMES
from actuators.injection.options import InjectionOptions
from actuators.injection.reasons import Reason, Untouched
from actuators.injection.wishes import Wishes, read_wishes
from runtime.kubernetes import Object
from schemas.cluster import INJECTED

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
DEVICES: Final = ("nvidia.com/gpu", "huawei.com/Ascend")
"""Resources, or their beginnings, that stand for chips."""
OWN_CONTROLLER: Final = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True)
class Chosen:
    """It may be injected: into this container."""

    wishes: Wishes
    index: int


def choose(manifest: Object, options: InjectionOptions) -> Chosen | Untouched:  # noqa: PLR0911 - one guard a reason
    """Where to inject, or why not."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != ("batch/v1", "Job"):
        return Untouched(Reason.NOT_A_JOB, str(manifest.get("kind", "")))
    shape = _malformed(manifest)
    if shape:
        return Untouched(Reason.MALFORMED, shape)
    template = manifest["spec"]["template"]
    if INJECTED in (template.get("metadata") or {}).get("annotations", {}):
        return Untouched(Reason.ALREADY_INJECTED)
    wishes = read_wishes(manifest)
    if isinstance(wishes, Untouched):
        return wishes
    against = _against_job(manifest) or _against_pod(manifest["spec"], template["spec"], options)
    if against is not None:
        return against
    index = _container(template["spec"]["containers"], wishes)
    if isinstance(index, Untouched):
        return index
    container = template["spec"]["containers"][index]
    if not container.get("command"):
        return Untouched(Reason.NO_COMMAND, str(container["name"]))
    taken = _taken(template["spec"], container)
    return Untouched(Reason.NAME_TAKEN, taken) if taken else Chosen(wishes, index)


def devices_of(container: Object) -> dict[str, int]:
    """Devices a container holds, by resource."""
    limits = (container.get("resources") or {}).get("limits") or {}
    found: dict[str, int] = {}
    for name, amount in limits.items():
        if str(name).startswith(DEVICES) and str(amount).isdigit() and int(amount) > 0:
            found[str(name)] = int(amount)
    return found


def _malformed(manifest: Object) -> str:
    """What is missing for it to be a Job at all; the API server would say the rest."""
    for path in (("metadata",), ("spec",), ("spec", "template"), ("spec", "template", "spec")):
        place: Any = manifest
        for key in path:
            place = place.get(key)
        if not isinstance(place, dict):
            return ".".join(path)
    containers = manifest["spec"]["template"]["spec"].get("containers")
    if not isinstance(containers, list) or not containers:
        return "spec.template.spec.containers"
    if not all(isinstance(one, dict) and one.get("name") for one in containers):
        return "spec.template.spec.containers"
    return ""


def _against_job(job: Object) -> Untouched | None:
    metadata, spec = job["metadata"], job["spec"]
    for owner in metadata.get("ownerReferences") or []:
        if owner.get("controller") and owner.get("kind") != "CronJob":
            return Untouched(Reason.OWNED, f"{owner.get('kind')} {owner.get('name')}")
    if QUEUE_LABEL in (metadata.get("labels") or {}):
        return Untouched(Reason.QUEUED, str(metadata["labels"][QUEUE_LABEL]))
    if spec.get("managedBy", OWN_CONTROLLER) != OWN_CONTROLLER:
        return Untouched(Reason.MANAGED_ELSEWHERE, str(spec["managedBy"]))
    single = spec.get("parallelism", 1) == 1 and spec.get("completions", 1) == 1
    if spec.get("completionMode") != "Indexed" and not single:
        return Untouched(Reason.NOT_INDEXED)
    if spec.get("podReplacementPolicy", "Failed") != "Failed":
        return Untouched(Reason.REPLACEMENT_POLICY, str(spec["podReplacementPolicy"]))
    return None


def _against_pod(spec: Object, pod: Object, options: InjectionOptions) -> Untouched | None:
    del spec
    if pod.get("restartPolicy") != "Never":
        return Untouched(Reason.RESTART_POLICY, str(pod.get("restartPolicy", "absent")))
    if (pod.get("os") or {}).get("name") == "windows":
        return Untouched(Reason.WINDOWS)
    if not options.pod_security.admits_host_paths:
        return Untouched(Reason.HOST_PATH_FORBIDDEN, options.pod_security.value)
    return None


def _container(containers: list[Object], wishes: Wishes) -> int | Untouched:
    """Index of the container that is named, or the only one, or the only one that holds devices."""
    if wishes.container:
        for index, container in enumerate(containers):
            if container["name"] == wishes.container:
                return index
        return Untouched(Reason.NAMED_CONTAINER_MISSING, wishes.container)
    if len(containers) == 1:
        return 0
    holding = [index for index, container in enumerate(containers) if devices_of(container)]
    if len(holding) == 1:
        return holding[0]
    return Untouched(Reason.SEVERAL_HOLD_DEVICES if holding else Reason.NO_CONTAINER_CHOSEN)


def _taken(pod: Object, container: Object) -> str:
    """A name or place of ours that is somebody else's already."""
    names: Iterable[Object] = [*(pod.get("initContainers") or []), *pod["containers"]]
    if any(one.get("name") == CONTAINER_NAME for one in names):
        return CONTAINER_NAME
    for volume in pod.get("volumes") or []:
        if volume.get("name") in VOLUMES:
            return str(volume["name"])
    for mount in container.get("volumeMounts") or []:
        path = str(mount.get("mountPath", "")).rstrip("/")
        if path == MOUNT_ROOT or path.startswith(f"{MOUNT_ROOT}/"):
            return path
    return ""
