"""A cluster to play a scenario on: nodes and pods without kubelets, whose states a test sets by hand."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

from runtime import paths
from runtime.errors import ApiConflict, ApiError, ApiNotFound
from runtime.kubernetes import Cluster, Object, PatchKind

T = TypeVar("T")
SECONDS = 60.0
BEAT = 0.7
LEASES = "kube-node-lease"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Hearts:
    """Leases of the nodes of a cluster, renewed while they are in `beating`."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self.beating: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="hearts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def renew(self, node: str) -> None:
        spec = {"holderIdentity": node, "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        try:
            self._api.patch(paths.leases(LEASES, node), {"spec": spec})
        except ApiNotFound:
            with contextlib.suppress(ApiConflict):  # two renew it for the first time
                self._api.create(paths.leases(LEASES), {"metadata": {"name": node}, "spec": spec})

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            for node in list(self.beating):
                with contextlib.suppress(ApiError):
                    self.renew(node)


class Side:
    """A cluster, and hands in a namespace of it."""

    def __init__(self, name: str, api: Cluster, hearts: Hearts, namespace: str) -> None:
        self.name, self.api, self.namespace = name, api, namespace
        self._hearts = hearts
        self._beating = hearts.beating
        self.api.create(paths.namespaces(), {"metadata": {"name": namespace}})
        self.until(lambda: self.is_there(f"{paths.namespaces(namespace)}/serviceaccounts/default"))

    # ------------------------------------------------------------ waiting

    def until(self, look: Callable[[], T], holds: Callable[[T], bool] = bool) -> T:
        deadline = time.monotonic() + SECONDS
        while not holds(seen := look()):
            assert time.monotonic() < deadline, f"on {self.name} still {seen}"
            time.sleep(0.05)
        return seen

    def is_there(self, path: str) -> bool:
        try:
            self.api.get(path)
        except ApiNotFound:
            return False
        return True

    # ------------------------------------------------------------ jobs and their pods

    def make_job(self, name: str, size: int, template: Object | None = None, **spec: Any) -> None:
        container = {"name": "main", "image": "none", "command": ["true"]}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]}
        body = {
            "metadata": {"name": name},
            "spec": {
                "completionMode": "Indexed",
                "completions": size,
                "parallelism": size,
                "backoffLimit": 0,
                "template": {"spec": {**pod, **(template or {})}},
                **spec,
            },
        }
        self.api.create(paths.jobs(self.namespace), body)

    def job(self, name: str) -> Object:
        return self.api.get(paths.jobs(self.namespace, name))

    def change_job(self, name: str, **spec: Any) -> None:
        self.api.patch(paths.jobs(self.namespace, name), {"spec": spec})

    def pods(self, count: int | None = None) -> list[Object]:
        """By index and name; waits until there are so many."""

        def found() -> list[Object]:
            pods = self.api.list(paths.pods(self.namespace)).items
            return sorted(pods, key=lambda pod: (_index(pod), pod["metadata"]["name"]))

        return found() if count is None else self.until(found, lambda pods: len(pods) == count)

    def active(self, count: int) -> list[Object]:
        """The pods that nobody deletes and that are not over; waits until there are so many."""
        return self.until(
            lambda: [pod for pod in self.pods() if _is_active(pod)], lambda pods: len(pods) == count
        )

    def say(self, pod: Object, phase: str, code: int | None = None, **status: Any) -> None:
        """What a kubelet would say of a pod."""
        ready = "True" if phase == "Running" else "False"
        told: Object = {
            "phase": phase,
            "startTime": now(),
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now()}],
            **status,
        }
        if code is not None:
            ended = {"exitCode": code, "startedAt": now(), "finishedAt": now()}
            told["containerStatuses"] = [
                {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": ended}}
            ]  # fmt: skip
        path = paths.status(paths.pods(self.namespace, pod["metadata"]["name"]))
        self.api.patch(path, {"status": told}, kind=PatchKind.STRATEGIC)

    def mark(self, pod: Object, reason: str) -> None:
        """Somebody disrupts it."""
        told = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": now()}
        path = paths.status(paths.pods(self.namespace, pod["metadata"]["name"]))
        self.api.patch(path, {"status": {"conditions": [told]}}, kind=PatchKind.STRATEGIC)

    def delete(self, pod: Object, grace: int | None = None) -> None:
        with contextlib.suppress(ApiNotFound):
            self.api.delete(paths.pods(self.namespace, pod["metadata"]["name"]), grace=grace)

    def end(self, pods: Iterable[Object], phase: str = "Failed", code: int = 143) -> None:
        """What a kubelet does to pods that are deleted: they end, and then they are gone."""
        for pod in pods:
            with contextlib.suppress(ApiNotFound):
                self.say(pod, phase, code)
                self.delete(pod, grace=0)

    # ------------------------------------------------------------ nodes

    def make_node(self, name: str, allocatable: dict[str, str] | None = None, **spec: Any) -> None:
        """A node that beats until it is told to stop."""
        labels = spec.pop("labels", {})
        offered = {"cpu": "4", "memory": "8Gi", "pods": "10", **(allocatable or {})}
        body = {"metadata": {"name": name, "labels": {"scenario": self.namespace, **labels}}, "spec": spec}
        self.api.create(paths.nodes(), body)
        self.report(name, "True", allocatable=offered, capacity=offered)
        self._beating.add(name)
        self._hearts.renew(name)
        self.until(lambda: self.taints(name), lambda found: not any("not-ready" in key for key, _ in found))

    def report(self, node: str, ready: str, **status: Any) -> None:
        """What a kubelet would say of its node."""
        told = {
            "type": "Ready", "status": ready, "reason": "KubeletReady" if ready == "True" else "KubeletNotReady",
            "message": "said so", "lastHeartbeatTime": now(), "lastTransitionTime": now(),
        }  # fmt: skip
        body = {"status": {"conditions": [told], **status}}
        self.api.patch(paths.status(paths.nodes(node)), body, kind=PatchKind.STRATEGIC)

    def silence(self, node: str) -> None:
        self._beating.discard(node)

    def revive(self, node: str) -> None:
        self._beating.add(node)
        self._hearts.renew(node)
        self.report(node, "True")

    def node(self, name: str) -> Object:
        return self.api.get(paths.nodes(name))

    def taints(self, node: str) -> list[tuple[str, str]]:
        found = self.node(node)["spec"].get("taints") or []
        return sorted((taint["key"].rsplit("/", 1)[-1], taint["effect"]) for taint in found)

    def remove_node(self, name: str) -> None:
        self._beating.discard(name)
        with contextlib.suppress(ApiNotFound):  # the scenario failed before it was made
            self.api.delete(paths.nodes(name))


def _index(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", -1))


def _is_active(pod: Object) -> bool:
    return pod["status"]["phase"] in {"Pending", "Running"} and "deletionTimestamp" not in pod["metadata"]
