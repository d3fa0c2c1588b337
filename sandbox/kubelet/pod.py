"""One pod on its node, from the moment it is bound to the moment its object is gone.

A thread of its own looks at what should be (the pod's object) and what is (its containers), does the next thing, reports, and waits
for a change. So the order is always the same: init containers one after another, then all others; at deletion SIGTERM, after the grace
SIGKILL, then the last status, then the object itself with grace 0. Nothing happens while the kubelet is not there (`Host.acting`).
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from runtime import logs, paths
from runtime.errors import ApiConflict, ApiError, ApiInvalid, ApiNotFound
from runtime.kubernetes import Object, PatchKind
from sandbox.errors import NotEnoughDevices, Unsupported
from sandbox.kubelet import environment, identity
from sandbox.kubelet.command import Command
from sandbox.kubelet.container import Container, RestartPolicy
from sandbox.kubelet.host import Host
from sandbox.kubelet.pod_status import Outline, PodStatus
from sandbox.kubelet.process import ContainerProcess
from sandbox.kubelet.volumes import Volumes

LEAST_GRACE: Final = 1  # seconds; the kubelet never gives less, also to a pod deleted by force
MANAGER: Final = "kubelet"

_log = logs.get(__name__)


class PodWorker:
    """Runs one pod. `finished` is called from its thread when nothing of it is left on the node."""

    def __init__(self, pod: Object, host: Host, finished: Callable[["PodWorker"], None]) -> None:
        self.uid: str = pod["metadata"]["uid"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.name: str = pod["metadata"]["name"]
        self._pod = pod
        self._host = host
        self._finished = finished
        self._lock = threading.Lock()  # one step at a time, and no step during a power cut
        self._wake = threading.Event()
        self._gone = False  # the object is no more
        self._closing = False  # the kubelet ends
        self._deadline: float | None = None
        self._refused = ""
        self._trouble = ""
        self._admitted = False
        self._ready_to_run = False
        self._deleted = False
        address = host.addresses.take(self.uid)
        self._addresses = {
            "status.podIP": address,
            "status.podIPs": address,
            "status.hostIP": host.addresses.node,
            "status.hostIPs": host.addresses.node,
        }
        self._folder = host.folder / "pods" / self.uid
        self._volumes = Volumes(
            self._folder / "volumes",
            addresses=self._addresses,
            look_up=host.look_up,
            token=host.token,
            host_paths=host.host_paths,
        )
        self._status = PodStatus(pod, address, host.addresses.node)
        self._init = [self._container(each, init=True) for each in pod["spec"].get("initContainers") or []]
        self._main = [self._container(each) for each in pod["spec"]["containers"]]
        self._sidecars = [
            container
            for container, manifest in zip(self._init, pod["spec"].get("initContainers") or [], strict=True)
            if manifest.get("restartPolicy") == RestartPolicy.ALWAYS
        ]
        self._thread = threading.Thread(target=self._run, name=f"pod-{self.name}", daemon=True)

    @property
    def all_containers(self) -> list[Container]:
        """Init and other containers."""
        return [*self._init, *self._main]

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def update(self, pod: Object) -> None:
        """The object changed. From any thread."""
        self._pod = pod
        self._wake.set()

    def vanish(self, pod: Object) -> None:
        """The object is gone, and was `pod` last: end what runs. From any thread."""
        self._pod = pod
        self._gone = True
        self._wake.set()

    def is_unknown(self) -> None:
        """The object went while the kubelet was not there, which gives what it finds the least grace. From any thread."""
        self._pod = {**self._pod, "metadata": {**self._pod["metadata"], "deletionGracePeriodSeconds": 0}}
        self._gone = True
        self._wake.set()

    def wake(self) -> None:
        """Look again. From any thread."""
        self._wake.set()

    def settle(self) -> None:
        """Return when what it was doing is done: after that, nothing is done while the kubelet is not acting."""
        with self._lock:
            return

    def cut_power(self) -> None:
        """End its processes at once, unreported: call while the kubelet is not acting."""
        with self._lock:
            for container in self.all_containers:
                container.kill("ContainerStatusUnknown")

    def close(self) -> None:
        """End its processes at once and the thread with them: the kubelet ends. Waits for both."""
        self._closing = True
        self._wake.set()
        with self._lock:
            for container in self.all_containers:
                container.kill()
        self._thread.join()

    def kill_container(self, name: str, reason: str) -> None:
        """End one container at once, and report `reason`. Raises LookupError when it does not run."""
        for container in self.all_containers:
            if container.name == name and container.is_running:
                container.kill(reason)
                return
        raise LookupError(f"no container {name} runs in pod {self.namespace}/{self.name}")

    def pid_of(self, name: str) -> int:
        """The first process of a running container. Raises LookupError when it does not run."""
        for container in self.all_containers:
            pid = container.pid
            if container.name == name and pid is not None:
                return pid
        raise LookupError(f"no container {name} runs in pod {self.namespace}/{self.name}")

    def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            wait: float | None = None
            with self._lock:
                if self._host.acting.is_set() and not self._closing:
                    wait = self._step_and_report()
            if self._is_finished():
                break
            self._wake.wait(wait)
        while any(container.is_running for container in self.all_containers):
            self._wake.wait()
            self._wake.clear()
        self._host.devices.release(self.uid)
        self._host.addresses.give_back(self.uid)
        if self._is_finished():
            self._volumes.remove()
        self._finished(self)

    def _is_finished(self) -> bool:
        return self._gone and not any(container.is_running for container in self.all_containers)

    def _step_and_report(self) -> float | None:
        """Do what is to be done now; return after how many seconds to look again without a cause."""
        was_terminal = self._status.is_terminal
        try:
            wait = self._step()
            if not self._gone:
                self._report()
        except (ApiNotFound, ApiConflict):  # the object is gone, or another has its name
            self._gone = True
            return 0.0
        except ApiInvalid:
            raise  # a bug of ours: not to be hidden by trying again
        except ApiError as error:
            _log.warning("the API does not take what a pod reports", pod=self.name, error=str(error))
            return self._host.timing.again.total_seconds()
        # One that has just ended for good is wound up in a step of its own.
        return wait if was_terminal or not self._status.is_terminal else 0.0

    def _step(self) -> float | None:
        if self._gone or "deletionTimestamp" in self._pod["metadata"]:
            return self._end()
        if self._status.is_terminal:
            return self._wind_up()
        if not self._admit():
            return None
        if not self._prepare():
            return self._host.timing.again.total_seconds()
        try:
            return self._drive()
        except (Unsupported, ApiError) as error:
            # A variable refers to something that is not there (yet).
            self._trouble = str(error)
            return self._host.timing.again.total_seconds()

    def _admit(self) -> bool:
        """Take the devices it asks for, once. They stay its own until nothing of it runs."""
        if not self._admitted:
            sidecars = {container.name for container in self._sidecars}
            init = self._pod["spec"].get("initContainers") or []
            beforehand = [each for each in init if each["name"] not in sidecars]
            others = [each for each in init if each["name"] in sidecars] + self._pod["spec"]["containers"]
            try:
                self._host.devices.allocate(
                    self.uid, self._wishes(others), beforehand=self._wishes(beforehand)
                )
            except NotEnoughDevices as error:
                self._refused = str(error)
                return False
            self._admitted = True
        return True

    def _prepare(self) -> bool:
        """Make its volumes; what cannot be made (yet) is said in the status and tried again."""
        try:
            if self._ready_to_run:
                self._volumes.refresh(self._pod)
            else:
                self._volumes.prepare(self._pod)
        except ApiInvalid:
            raise
        except (Unsupported, ApiError) as error:
            self._trouble = str(error)
            return False
        self._ready_to_run, self._trouble = True, ""
        return True

    def _drive(self) -> float | None:
        if all(container.is_over for container in self._main):
            return self._wind_up()
        now = time.monotonic()
        for container in self._init:
            if container.succeeded and container not in self._sidecars:
                continue
            due = container.drive(now)
            if container not in self._sidecars or not container.is_running:
                return _seconds_until(due)
        due_times = [container.drive(now) for container in self._main]
        return _seconds_until(min((due for due in due_times if due is not None), default=None))

    def _wind_up(self) -> float | None:
        """Its containers have done what they do: end sidecars, then give the devices back."""
        self._end_all(self._pod["spec"].get("terminationGracePeriodSeconds", LEAST_GRACE))
        if not any(container.is_running for container in self.all_containers):
            self._host.devices.release(self.uid)
            return None
        return _seconds_until(self._deadline)

    def _end(self) -> float | None:
        """End every container within the grace; when all are gone, the object."""
        given = self._pod["metadata"].get("deletionGracePeriodSeconds")
        if given is None:
            given = self._pod["spec"].get("terminationGracePeriodSeconds", 30)
        self._end_all(max(given, LEAST_GRACE))
        if any(container.is_running for container in self.all_containers):
            return _seconds_until(self._deadline)
        if not self._gone and not self._deleted:
            self._report()
            # The object may stay for a finalizer: the deletion is asked for once.
            self._host.api.delete(paths.pods(self.namespace, self.name), uid=self.uid, grace=0)
            self._deleted = True
        return None

    def _end_all(self, grace: float) -> None:
        now = time.monotonic()
        if not any(container.is_running for container in self.all_containers):
            return
        if self._deadline is None:
            self._deadline = now + grace
            for container in self.all_containers:
                container.terminate()
        self._deadline = min(self._deadline, now + grace)
        if now >= self._deadline:
            for container in self.all_containers:
                container.kill()

    def _report(self) -> None:
        status = self._status.write(self._outline())
        if status is None:
            return
        body: Object = {"metadata": {"uid": self.uid}, "status": status}
        path = paths.status(paths.pods(self.namespace, self.name))
        # Strategic: conditions of others (PodScheduled, DisruptionTarget) stay where they are.
        self._host.api.patch(path, body, kind=PatchKind.STRATEGIC, manager=MANAGER)
        self._status.was_written(status)

    def _outline(self) -> Outline:
        return Outline(
            init=self._init,
            main=self._main,
            sidecars=self._sidecars,
            refused=self._refused,
            trouble=self._trouble,
            ending="deletionTimestamp" in self._pod["metadata"],
        )

    def _wishes(self, manifests: Sequence[Object]) -> dict[str, dict[str, int]]:
        known = self._host.devices.capacity()
        limits = {each["name"]: each.get("resources", {}).get("limits") or {} for each in manifests}
        return {
            name: {resource: int(count) for resource, count in wish.items() if resource in known}
            for name, wish in limits.items()
        }

    def _container(self, manifest: Object, *, init: bool = False) -> Container:
        policy = RestartPolicy(self._pod["spec"].get("restartPolicy", RestartPolicy.ALWAYS))
        if init:
            # An init container that succeeded is done; one that failed is tried again unless the pod forbids it.
            once = RestartPolicy.NEVER if policy is RestartPolicy.NEVER else RestartPolicy.ON_FAILURE
            policy = RestartPolicy.ALWAYS if manifest.get("restartPolicy") == RestartPolicy.ALWAYS else once
        field = "initContainerStatuses" if init else "containerStatuses"
        known = [
            each for each in self._pod.get("status", {}).get(field) or [] if each["name"] == manifest["name"]
        ]
        return Container(
            manifest,
            policy,
            self._host.timing.backoff,
            start=lambda run: self._start(manifest, run),
            wake=self.wake,
            known=known[0] if known else None,
            container_id=lambda run: f"sandbox://{self.uid}/{manifest['name']}/{run}",
        )

    def _start(self, manifest: Object, run: int) -> ContainerProcess:
        name = manifest["name"]
        base = {
            **self._host.environment,
            "HOSTNAME": self._hostname(),
            **self._host.devices.environment(self.uid, name),
        }
        env = environment.variables(
            self._pod, manifest, base=base, addresses=self._addresses, look_up=self._host.look_up
        )
        security = {
            **(self._pod["spec"].get("securityContext") or {}),
            **(manifest.get("securityContext") or {}),
        }
        command = Command(
            argv=environment.argv(manifest, env),
            env=env,
            cwd=manifest.get("workingDir") or "/",
            hostname=self._hostname(),
            mounts=self._volumes.mounts(manifest),
            user=security.get("runAsUser"),
            group=security.get("runAsGroup"),
        )
        log = log_file(self._host.folder, self.namespace, self.name, self.uid, name, run)
        log.parent.mkdir(parents=True, exist_ok=True)
        owner = identity.PodIdentity(self.uid, self.namespace, self.name, name)
        return ContainerProcess(
            command,
            self._folder / "containers" / name / str(run),
            log,
            identity.Owner(self._host.folder, owner),
            self._host.way,
        )

    def _hostname(self) -> str:
        return str(self._pod["spec"].get("hostname") or self.name)[:63]


def log_file(folder: Path, namespace: str, pod: str, uid: str, container: str, run: int) -> Path:
    """Where a run's output is, as below ``/var/log/pods``; plain lines."""
    return folder / "logs" / f"{namespace}_{pod}_{uid}" / container / f"{run}.log"


def logs_of(folder: Path, namespace: str, pod: str, container: str, run: int) -> list[Path]:
    """Logs of a run by the pod's name: of each pod that had it, the oldest first."""
    found = (folder / "logs").glob(f"{namespace}_{pod}_*/{container}/{run}.log")
    return sorted(found, key=lambda file: file.stat().st_mtime)


def _seconds_until(due: float | None) -> float | None:
    return None if due is None else max(0.0, due - time.monotonic())
