"""What a pod finds on its node: the API, devices, addresses, folders, and whether the kubelet is there to act at all."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from runtime import paths
from runtime.errors import ApiNotFound
from runtime.kubernetes import Cluster, Object
from sandbox.errors import SandboxError
from sandbox.kubelet.container import Backoff
from sandbox.kubelet.devices import Devices
from sandbox.kubelet.environment import data_of
from sandbox.kubelet.process import Way

LARGEST_HOST_NUMBER = 254


@dataclass(frozen=True, slots=True)
class Timing:
    """How quick a kubelet is. Defaults are a real one's, except that nothing waits for a periodic sync.

    Args:
        heartbeat: between renewals of the Lease, and of the node's status.
        backoff: waits between runs of a container.
        again: wait after the API failed, or before a volume that could not be made is tried again.
    """

    heartbeat: timedelta = timedelta(seconds=10)
    backoff: Backoff = field(default_factory=Backoff)
    again: timedelta = timedelta(milliseconds=500)


class Addresses:
    """Loopback addresses of a node and its pods, ``127.A.B.x``: all reach this machine, and no two pods share one."""

    def __init__(self, network: str) -> None:
        """`network` is the first three numbers, such as ``127.70.3``."""
        self.node = f"{network}.1"
        self._network = network
        self._taken: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, pod: str) -> str:
        """An address for a pod, by UID."""
        with self._lock:
            used = set(self._taken.values())
            free = next((n for n in range(2, LARGEST_HOST_NUMBER + 1) if n not in used), None)
            if free is None:
                raise SandboxError(f"the node of {self._network} has no address left for a pod")
            self._taken[pod] = free
            return f"{self._network}.{free}"

    def give_back(self, pod: str) -> None:
        """Free a pod's address. Does nothing when it has none."""
        with self._lock:
            self._taken.pop(pod, None)


@dataclass(frozen=True, slots=True)
class Host:
    """A node, as its pods see it.

    Args:
        node_name: its name.
        folder: the kubelet's own; volumes, logs and identities are below.
        api: as the kubelet's user.
        devices: of the node.
        addresses: of the node.
        environment: variables of every container: what an image and a node set.
        timing: how quick.
        host_paths: where paths of the node lie on this machine.
        way: how its containers are run.
        acting: set while the kubelet is there; nothing is started, stopped or reported while it is not.
    """

    node_name: str
    folder: Path
    api: Cluster
    devices: Devices
    addresses: Addresses
    environment: Mapping[str, str]
    timing: Timing
    host_paths: Mapping[str, Path] = field(default_factory=dict)
    way: Way = Way.ENCLOSED
    acting: threading.Event = field(default_factory=threading.Event)

    def look_up(self, kind: str, namespace: str, name: str, *, optional: bool) -> dict[str, bytes] | None:
        """Data of a `configmaps` or `secrets` object; see `environment.Lookup`."""
        try:
            return data_of(self.api.get(f"{paths.namespaces(namespace)}/{kind}/{name}"))
        except ApiNotFound:
            if optional:
                return None
            raise

    def token(self, pod: Object, asked: Object) -> bytes:
        """A service account token bound to a pod; see `volumes.TokenSource`."""
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        request: Object = {
            "spec": {
                "expirationSeconds": asked.get("expirationSeconds", 3600),
                "audiences": [asked["audience"]] if asked.get("audience") else [],
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            }
        }
        path = f"{paths.namespaces(metadata['namespace'])}/serviceaccounts/{account}/token"
        return str(self.api.create(path, request)["status"]["token"]).encode()
