"""The Node object of a kubelet, and its signs of life: the Lease and the status.

A node whose object somebody deletes stays without one until its kubelet starts again, which makes another with another UID: as the real
kubelet has it.
"""

import platform
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from runtime import logs, paths
from runtime.errors import ApiConflict, ApiError, ApiNotFound
from runtime.kubernetes import Object, PatchKind
from sandbox.kubelet.container import instant
from sandbox.kubelet.host import Host

LEASES: Final = "kube-node-lease"
MANAGER: Final = "kubelet"
VERSION: Final = "v1.36.3-relight-sandbox"
ARCHITECTURES: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64"}
QUIET: Final[Mapping[str, str]] = {
    "MemoryPressure": "KubeletHasSufficientMemory",
    "DiskPressure": "KubeletHasNoDiskPressure",
    "PIDPressure": "KubeletHasSufficientPID",
}

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node is.

    Args:
        name: its name.
        labels: beside those every kubelet sets (host name, operating system, architecture).
        annotations: on the object from the start.
        resources: what it has beside devices, by Kubernetes' quantities. Nothing is enforced.
        devices: how many of each extended resource.
        host_paths: where paths of the node lie on this machine, such as ``{"/run/relight/agent": folder}``: nodes that share a machine
            must not share what a hostPath volume names. Others are the machine's own.
        environment: variables of every container, as images would set them.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi"}
    )
    devices: Mapping[str, int] = field(default_factory=dict)
    host_paths: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class Heart:
    """Registers the node and keeps it alive at the API server, from a thread of its own between `start` and `stop`."""

    def __init__(self, options: NodeOptions, host: Host) -> None:
        self._options = options
        self._host = host
        self._machine = uuid.uuid4().hex
        self._boot = str(uuid.uuid4())
        self._beating = True
        self._not_ready = ""
        self._since: dict[str, tuple[str, str]] = {}
        self._wake = threading.Event()
        self._lock = threading.Lock()  # held while a sign of life is given
        self._ending = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Register and say that the node is ready; from then on by itself. Raises ApiError when that cannot be said."""
        self.register()
        self._ending, self._beating = False, True
        self._wake.clear()
        self._beat()
        self._thread = threading.Thread(target=self._run, name=f"heart-{self._options.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more signs of life; the objects stay. Waits for the thread."""
        self._ending = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def pause(self) -> None:
        """Neither the Lease nor the status is renewed; one that is on its way is through when this returns."""
        with self._lock:
            self._beating = False

    def resume(self) -> None:
        """Renew again, at once."""
        self._beating = True
        self._wake.set()

    def reboot(self) -> None:
        """Another boot id from now on, as after a restart of the machine."""
        self._boot = str(uuid.uuid4())

    def set_ready(self, *, ready: bool, reason: str = "KubeletNotReady") -> None:
        """What the kubelet says of itself: ready, or not and why."""
        self._not_ready = "" if ready else reason
        self._wake.set()

    def changed(self) -> None:
        """Write the status now: devices have changed."""
        self._wake.set()

    def register(self) -> str:
        """Make the Node object where there is none; return its UID."""
        try:
            return str(self._host.api.create(paths.nodes(), self._node())["metadata"]["uid"])
        except ApiConflict:
            return str(self._host.api.get(paths.nodes(self._options.name))["metadata"]["uid"])

    def _run(self) -> None:
        wait = self._host.timing.heartbeat
        while True:
            self._wake.wait(wait.total_seconds())
            self._wake.clear()
            if self._ending:
                return
            try:
                self._beat()
                wait = self._host.timing.heartbeat
            except ApiError as error:
                _log.warning("no sign of life was taken", node=self._options.name, error=str(error))
                wait = min(self._host.timing.again, self._host.timing.heartbeat)

    def _beat(self) -> None:
        with self._lock:
            if not self._beating:
                return
            self._renew_lease()
            body: Object = {"status": self._status()}
            path = paths.status(paths.nodes(self._options.name))
            self._host.api.patch(path, body, kind=PatchKind.STRATEGIC, manager=MANAGER)

    def _renew_lease(self) -> None:
        name = self._options.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            self._host.api.patch(paths.leases(LEASES, name), {"spec": spec}, manager=MANAGER)
        except ApiNotFound:
            lease: Object = {"metadata": {"name": name, "namespace": LEASES}, "spec": spec}
            self._host.api.create(paths.leases(LEASES), lease)

    def _node(self) -> Object:
        name = self._options.name
        architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture,
            **self._options.labels,
        }
        metadata = {"name": name, "labels": labels, "annotations": dict(self._options.annotations)}
        return {"metadata": metadata, "spec": {}, "status": self._status()}

    def _status(self) -> Object:
        host = self._host
        rest = dict(self._options.resources)
        return {
            "capacity": rest | {name: str(count) for name, count in host.devices.capacity().items()},
            "allocatable": rest | {name: str(count) for name, count in host.devices.allocatable().items()},
            "addresses": [
                {"type": "InternalIP", "address": host.addresses.node},
                {"type": "Hostname", "address": self._options.name},
            ],
            "conditions": [*self._pressures(), self._readiness()],
            "nodeInfo": {
                "machineID": self._machine,
                "systemUUID": self._machine,
                "bootID": self._boot,
                "kernelVersion": platform.release(),
                "osImage": platform.system(),
                "containerRuntimeVersion": "sandbox://1",
                "kubeletVersion": VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            },
        }

    def _pressures(self) -> list[Object]:
        return [self._condition(kind, "False", reason) for kind, reason in QUIET.items()]

    def _readiness(self) -> Object:
        if self._not_ready:
            return self._condition("Ready", "False", self._not_ready)
        return self._condition("Ready", "True", "KubeletReady")

    def _condition(self, kind: str, status: str, reason: str) -> Object:
        now = instant(datetime.now(UTC))
        before = self._since.get(kind)
        if before is None or before[0] != status:
            self._since[kind] = (status, now)
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": reason,
            "lastHeartbeatTime": now,
            "lastTransitionTime": self._since[kind][1],
        }
