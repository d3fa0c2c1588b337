"""The parts that are injected, each a function from the job and the options to a piece of manifest."""

from __future__ import annotations

import re
from typing import Any, Final

from actuators.injection.eligibility import devices_of
from actuators.injection.layout import (
    AGENT,
    AGENT_VOLUME,
    ANNOTATIONS_FILE,
    BIN,
    BIN_VOLUME,
    CONTAINER_NAME,
    POD_INFO,
    POD_INFO_VOLUME,
    STATE,
    STATE_VOLUME,
    SUPERVISOR,
)
from actuators.injection.options import InjectionOptions
from runtime.kubernetes import Object
from schemas.cluster import JOB_UID_LABEL, RUN

DEFAULT_GRACE: Final = 30
"""Kubernetes' own terminationGracePeriodSeconds."""
INIT_RESOURCES: Final = {"cpu": "100m", "memory": "64Mi"}
_ZERO: Final = re.compile(r"\+?[0.]*(?![\d.])")
"""A quantity of nothing, in whatever unit: `0`, `0m`, `0.0Gi`."""

IGNORE_DISRUPTION: Final[Object] = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


def volumes(options: InjectionOptions) -> list[Object]:
    """The supervisor's file, the pod's own state, the template's annotations, the agent's socket."""
    annotations = {"path": ANNOTATIONS_FILE, "fieldRef": {"fieldPath": "metadata.annotations"}}
    # DirectoryOrCreate: on a node without an agent the pod starts all the same, and the supervisor runs alone.
    agent = {"path": str(options.socket.parent), "type": "DirectoryOrCreate"}
    return [
        {"name": BIN_VOLUME, "emptyDir": {}},
        {"name": STATE_VOLUME, "emptyDir": {}},
        {"name": POD_INFO_VOLUME, "downwardAPI": {"items": [annotations]}},
        {"name": AGENT_VOLUME, "hostPath": agent},
    ]


def mounts() -> list[Object]:
    """Of the wrapped container."""
    return [
        {"name": BIN_VOLUME, "mountPath": BIN, "readOnly": True},
        {"name": STATE_VOLUME, "mountPath": STATE},
        {"name": POD_INFO_VOLUME, "mountPath": POD_INFO, "readOnly": True},
        {"name": AGENT_VOLUME, "mountPath": AGENT, "readOnly": True},
    ]


def init_container(pod: Object, options: InjectionOptions) -> Object:
    """Brings the supervisor, and leaves the pod's quality of service as it is.

    Guaranteed is a pod all of whose containers, this one included, have limits of cpu and memory and ask for as much: so it has both, alike.
    BestEffort is one none of whose containers, init containers included, says anything of cpu or memory: so it says nothing either.
    """
    made: Object = {
        "name": CONTAINER_NAME,
        "image": options.image,
        "command": [*options.copy_command, SUPERVISOR],
        "volumeMounts": [{"name": BIN_VOLUME, "mountPath": BIN}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if any(_asks_for_room(one) for one in [*pod["containers"], *(pod.get("initContainers") or [])]):
        made["resources"] = {"requests": dict(INIT_RESOURCES), "limits": dict(INIT_RESOURCES)}
    return made


def environment(job: Object, container: Object, options: InjectionOptions) -> list[Object]:
    """What the supervisor reads (`supervisor.settings`); MA_SCHEDULE_CNT and MA_PROC_START_CNT are its own to say at each start."""
    pod = job["spec"]["template"]["spec"]
    carried = (job["metadata"].get("annotations") or {}).get(RUN)
    run = f"metadata.annotations['{RUN}']" if carried else f"metadata.labels['{JOB_UID_LABEL}']"
    found = [
        _from_field("RELIGHT_RUN", run),
        _from_field("RELIGHT_POD_UID", "metadata.uid"),
        _value("RELIGHT_HA", "on"),
        _value("RELIGHT_SUPERVISOR", SUPERVISOR),
        _value("RELIGHT_VOLUME", STATE),
        _value("RELIGHT_PODINFO", f"{POD_INFO}/{ANNOTATIONS_FILE}"),
        _value("RELIGHT_SOCKET", f"{AGENT}/{options.socket.name}"),
        _value("RELIGHT_POD_GRACE", pod.get("terminationGracePeriodSeconds", DEFAULT_GRACE)),
    ]
    devices = devices_of(container)
    for variable, beginning in (("RELIGHT_GPUS", "nvidia.com/"), ("RELIGHT_NPUS", "huawei.com/")):
        count = sum(amount for name, amount in devices.items() if name.startswith(beginning))
        if count:
            found.append(_value(variable, count))
    peers = peers_of(job, options.most_peers)
    if peers:
        found.append(_value("RELIGHT_PEERS", ",".join(peers)))
    return found


def peers_of(job: Object, most: int) -> list[str]:
    """Stable hostnames of an Indexed Job with a headless Service: `<job>-<index>.<subdomain>`; none where they are not known."""
    spec, name = job["spec"], job["metadata"].get("name")
    subdomain = spec["template"]["spec"].get("subdomain")
    size = spec.get("completions")
    if spec.get("completionMode") != "Indexed" or not name or not subdomain or not isinstance(size, int):
        return []
    return [f"{name}-{index}.{subdomain}" for index in range(size)] if 1 < size <= most else []


def wrapped(command: list[str], options: InjectionOptions) -> list[str]:
    """The user's command behind the wrapper's line; `args` stay where they are and follow it."""
    return ["sh", "-c", literal(options.wrapper), "relight", *command]


def literal(text: str) -> str:
    """As Kubernetes must be given it: in commands it takes `$$` for a dollar sign and `$(NAME)` for a variable."""
    return text.replace("$$", "$$$$").replace("$(", "$$(")


def _asks_for_room(container: Object) -> bool:
    """Whether Kubernetes counts it for the quality of service: by cpu and memory alone, chips do not matter; nor does an amount of zero."""
    resources = container.get("resources") or {}
    amounts = [
        (resources.get(kind) or {}).get(name) for kind in ("requests", "limits") for name in INIT_RESOURCES
    ]
    return any(amount is not None and not _ZERO.match(str(amount)) for amount in amounts)


def _value(name: str, value: Any) -> Object:  # noqa: ANN401 - numbers become text
    return {"name": name, "value": str(value)}


def _from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
