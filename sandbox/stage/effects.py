"""What was written on pods and nodes, seen at the target: each order once, in the order it came, by a watch of the API server."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final

from runtime import paths
from runtime.informer import Difference, Informer, uid_of
from runtime.kubernetes import Cluster, Object
from schemas.cluster import DESIRED, ISOLATED, JOB_UID_LABEL, REPAIR

SYNC_SECONDS: Final = 30.0


class Effects:
    """Watches from `start` on. A write that changes nothing makes no event: what is counted here is what had an effect."""

    def __init__(self, api: Cluster) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, dict[str, Object]] = defaultdict(dict)
        self._orders: dict[str, list[str]] = defaultdict(list)
        self._repairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._isolations: dict[str, list[bool]] = defaultdict(list)
        self._suspensions: dict[str, list[bool]] = defaultdict(list)
        self._informers = [
            Informer(api, paths.pods(), self._pod),
            Informer(api, paths.nodes(), self._node),
            Informer(api, paths.jobs(), self._job),
        ]

    def start(self) -> None:
        """Return once everything that stands was seen."""
        for informer in self._informers:
            threading.Thread(target=informer.run, name="effects", daemon=True).start()
        for informer in self._informers:
            informer.synced.wait(SYNC_SECONDS)

    def stop(self) -> None:
        """End watching."""
        for informer in self._informers:
            informer.stop()

    def orders(self, pod_uid: str) -> list[str]:
        """Desired states (as text) that were written on a pod."""
        with self._lock:
            return list(self._orders[pod_uid])

    def pods(self, job_uid: str) -> dict[str, Object]:
        """All pods a job ever had, by UID, each as it was last seen."""
        with self._lock:
            return dict(self._pods[job_uid])

    def repairs(self, node_uid: str) -> list[tuple[str, str]]:
        """Repair orders (annotation and text) that were written on a node."""
        with self._lock:
            return list(self._repairs[node_uid])

    def isolations(self, node_uid: str) -> list[bool]:
        """Whether our taint stood on a node, each time that changed."""
        with self._lock:
            return list(self._isolations[node_uid])

    def suspensions(self, job_uid: str) -> list[bool]:
        """Whether a job was suspended, each time that changed."""
        with self._lock:
            return list(self._suspensions[job_uid])

    def _pod(self, difference: Difference) -> None:
        pod = difference.object
        with self._lock:
            self._pods[(pod["metadata"].get("labels") or {}).get(JOB_UID_LABEL, "")][uid_of(pod)] = pod
        before, now = _annotation(difference.old, DESIRED), _annotation(difference.new, DESIRED)
        if now and now != before:
            with self._lock:
                self._orders[uid_of(difference.object)].append(now)

    def _node(self, difference: Difference) -> None:
        before, now = _annotations(difference.old), _annotations(difference.new)
        written = [
            (key, text) for key, text in now.items() if key.startswith(REPAIR) and before.get(key) != text
        ]
        if written:
            with self._lock:
                self._repairs[uid_of(difference.object)].extend(written)
        isolated = _is_isolated(difference.new)
        if isolated != _is_isolated(difference.old):
            with self._lock:
                self._isolations[uid_of(difference.object)].append(isolated)

    def _job(self, difference: Difference) -> None:
        suspended = _is_suspended(difference.new)
        if difference.new is not None and suspended != _is_suspended(difference.old):
            with self._lock:
                self._suspensions[uid_of(difference.object)].append(suspended)


def _is_isolated(node: Object | None) -> bool:
    taints = [] if node is None else node["spec"].get("taints") or []
    return any(taint["key"] == ISOLATED for taint in taints)


def _is_suspended(job: Object | None) -> bool:
    return job is not None and bool(job["spec"].get("suspend"))


def _annotations(item: Object | None) -> dict[str, str]:
    return {} if item is None else dict(item["metadata"].get("annotations") or {})


def _annotation(item: Object | None, name: str) -> str:
    return _annotations(item).get(name, "")
