"""A kubelet: registers its node, gives signs of life, runs the pods bound to it as local processes, and can be told to misbehave.

Threads, not processes: three of a kubelet, one of a pod and one of a running container, nearly all of them asleep, so that sixteen
nodes fit into one test. Whatever happens to it, no container outlives the process that this object lives in.
"""

import random
import sys
import threading
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from runtime import paths
from runtime.informer import Difference, Informer, uid_of
from runtime.kubernetes import Cluster
from runtime.settings import KubernetesSettings
from sandbox.errors import StartFailed
from sandbox.kubelet import identity
from sandbox.kubelet.devices import Devices
from sandbox.kubelet.host import Addresses, Host, Timing
from sandbox.kubelet.node import Heart, NodeOptions
from sandbox.kubelet.pod import PodWorker, logs_of
from sandbox.kubelet.process import Way, best_way

IMAGE_PATH: Final = (
    f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{Path(sys.executable).parent}"
)
"""An image's own, and last our Python's: there may be no other on the machine, and the supervisor needs one."""
FIRST_LIST: Final = timedelta(seconds=30)


class Kubelet:
    """One node. ``with Kubelet(kubeconfig, NodeOptions("node-0"), folder) as kubelet: ...``.

    Args:
        kubeconfig: as whom it talks to the API: ``system:node:NAME`` of group ``system:nodes``, or anybody who may as much.
        options: what the node is.
        folder: volumes, logs and identities of its pods.
        timing: how quick it is.
        way: how containers are run; by default enclosed where this machine lets this user, else as plain processes.
        network: first three numbers of its addresses, such as ``127.70.3``; by default a random one of its own.
    """

    def __init__(
        self,
        kubeconfig: Path,
        options: NodeOptions,
        folder: Path,
        timing: Timing | None = None,
        network: str | None = None,
        *,
        way: Way | None = None,
    ) -> None:
        settings = KubernetesSettings(
            kubeconfig=kubeconfig, timeout=timedelta(seconds=5), rate=1000, burst=1000
        )
        self.name = options.name
        self._host = Host(
            node_name=options.name,
            folder=folder,
            api=Cluster(settings, f"kubelet-{options.name}"),
            devices=Devices(options.devices),
            addresses=Addresses(network or _random_network()),
            environment={"PATH": IMAGE_PATH, **options.environment, **_service_environment(kubeconfig)},
            timing=timing or Timing(),
            host_paths=options.host_paths,
            way=way or best_way(),
        )
        self._heart = Heart(options, self._host)
        self._workers: dict[str, PodWorker] = {}
        self._lock = threading.Lock()
        self._informer: Informer | None = None
        self._watching: threading.Thread | None = None

    # ------------------------------------------------------------ life

    def start(self) -> Self:
        """Register, be Ready and see all pods bound to the node before this returns. Also after `die` and `cut_power`.

        Raises:
            ApiError: the API did not take the node.
            StartFailed: the pods could not be listed in time.
        """
        if self._informer is not None:
            return self
        self._host.acting.set()
        self._heart.start()
        informer = Informer(
            self._host.api,
            paths.pods(),
            self._tell,
            fields=f"spec.nodeName={self.name}",
            listed=self._forget_what_is_gone,
            again=self._host.timing.again,
            slowest=timedelta(seconds=2),
        )
        self._informer = informer
        self._watching = threading.Thread(target=informer.run, name=f"pods-of-{self.name}", daemon=True)
        self._watching.start()
        if not informer.synced.wait(FIRST_LIST.total_seconds()):
            raise StartFailed(f"kubelet {self.name} could not list its pods within {FIRST_LIST}")
        for worker in self._all_workers():
            worker.wake()
        return self

    def stop(self) -> None:
        """End everything: threads and the processes of all pods. The objects at the API server stay as they are."""
        self.die()
        for worker in self._all_workers():
            worker.close()

    def die(self) -> None:
        """The kubelet is gone, its pods' processes go on: no signs of life, nothing reported, nothing obeyed, until `start`."""
        self._host.acting.clear()
        self._heart.stop()
        if self._informer is not None and self._watching is not None:
            self._informer.stop()
            self._watching.join()
        self._informer = self._watching = None
        for worker in self._all_workers():
            worker.settle()

    def cut_power(self) -> None:
        """The machine is gone: as `die`, and all processes with it. After `start` what ran is reported as lost, with a new boot id."""
        self.die()
        for worker in self._all_workers():
            worker.cut_power()
        self._heart.reboot()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ faults

    def stop_heartbeats(self) -> None:
        """Neither Lease nor node status is renewed; pods are served as before."""
        self._heart.pause()

    def resume_heartbeats(self) -> None:
        """Renew again, at once."""
        self._heart.resume()

    def set_ready(self, *, ready: bool, reason: str = "KubeletNotReady") -> None:
        """Report the node as Ready or not, beside whatever the control plane thinks of it."""
        self._heart.set_ready(ready=ready, reason=reason)

    def come_back_as_another(self, admin: Cluster) -> str:
        """Somebody (`admin`; a node may not do it) deletes the Node object and the kubelet starts again; return the new UID."""
        self.die()
        admin.delete(paths.nodes(self.name))
        self.start()
        return str(self._host.api.get(paths.nodes(self.name))["metadata"]["uid"])

    def set_device_health(self, resource: str, index: int, *, healthy: bool) -> None:
        """Mark one device: allocatable follows at once; whoever holds the device keeps it."""
        self._host.devices.set_health(resource, index, healthy=healthy)
        self._heart.changed()

    def run_out_of_memory(self, namespace: str, pod: str, container: str) -> None:
        """Kill a container as the kernel does when it uses too much memory: exit code 137, reason OOMKilled.

        Raises:
            LookupError: it does not run here.
        """
        self._worker(namespace, pod).kill_container(container, "OOMKilled")

    # ------------------------------------------------------------ what there is

    @property
    def folder(self) -> Path:
        """Where `identity.pod_of` looks, from any process."""
        return self._host.folder

    @property
    def way(self) -> Way:
        """How its containers are run."""
        return self._host.way

    @property
    def address(self) -> str:
        """The node's InternalIP, on loopback."""
        return self._host.addresses.node

    def pod_of(self, pid: int) -> identity.PodIdentity | None:
        """Whose a process is; None for one that belongs to no container of this node."""
        return identity.pod_of(self._host.folder, pid)

    def pid_of(self, namespace: str, pod: str, container: str) -> int:
        """The first process of a running container. Raises LookupError when it does not run here."""
        return self._worker(namespace, pod).pid_of(container)

    def devices_of(self, namespace: str, pod: str, container: str) -> dict[str, list[int]]:
        """Indexes of the devices a container holds, by resource. Raises LookupError when the pod is not here."""
        return self._host.devices.held(self._worker(namespace, pod).uid, container)

    def log(self, namespace: str, pod: str, container: str, run: int = 0) -> str:
        """What a container has said in one of its runs, also of pods long gone; empty when there is nothing."""
        files = logs_of(self._host.folder, namespace, pod, container, run)
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def pods(self) -> list[tuple[str, str]]:
        """Namespace and name of every pod of which something is here."""
        return sorted((worker.namespace, worker.name) for worker in self._all_workers())

    # ------------------------------------------------------------ pods come and go

    def _tell(self, difference: Difference) -> None:
        if difference.new is None:
            worker = self._workers.get(uid_of(difference.object))
            if worker is not None:
                worker.vanish(difference.object)
            return
        uid = uid_of(difference.new)
        with self._lock:
            worker = self._workers.get(uid)
            if worker is None:
                worker = self._workers[uid] = PodWorker(difference.new, self._host, self._finished)
                worker.start()
                return
        worker.update(difference.new)

    def _forget_what_is_gone(self) -> None:
        """A whole list was told: what is here and not in it went while this kubelet was not there."""
        if self._informer is None:
            return
        known = {uid_of(pod) for pod in self._informer.snapshot()}
        for worker in self._all_workers():
            if worker.uid not in known:
                worker.is_unknown()

    def _finished(self, worker: PodWorker) -> None:
        with self._lock:
            self._workers.pop(worker.uid, None)

    def _all_workers(self) -> list[PodWorker]:
        with self._lock:
            return list(self._workers.values())

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        for worker in self._all_workers():
            if (worker.namespace, worker.name) == (namespace, pod):
                return worker
        raise LookupError(f"pod {namespace}/{pod} is not on node {self.name}")


def _random_network() -> str:
    dice = random.SystemRandom()
    return f"127.{dice.randrange(64, 255)}.{dice.randrange(256)}"


def _service_environment(kubeconfig: Path) -> dict[str, str]:
    """How a pod's own client finds the API server: the real address, since there is no service network here."""
    configuration = Configuration()
    load_kube_config(str(kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    server = urlsplit(configuration.host)
    return {
        "KUBERNETES_SERVICE_HOST": server.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(server.port or 443),
    }
