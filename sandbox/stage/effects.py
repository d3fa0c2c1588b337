"""What was written on pods and nodes, seen at the target: each order once, in the order it came, by a watch of the API server."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final

from runtime import paths
from runtime.informer import Difference, Informer, uid_of
from runtime.kubernetes import Cluster, Object
from schemas.cluster import DESIRED, REPAIR

SYNC_SECONDS: Final = 30.0


class Effects:
    """Watches from `start` on. A write that changes nothing makes no event: what is counted here is what had an effect."""

    def __init__(self, api: Cluster) -> None:
        self._lock = threading.Lock()
        self._orders: dict[str, list[str]] = defaultdict(list)
        self._repairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._informers = [
            Informer(api, paths.pods(), self._pod),
            Informer(api, paths.nodes(), self._node),
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

    def repairs(self, node_uid: str) -> list[tuple[str, str]]:
        """Repair orders (annotation and text) that were written on a node."""
        with self._lock:
            return list(self._repairs[node_uid])

    def _pod(self, difference: Difference) -> None:
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


def _annotations(item: Object | None) -> dict[str, str]:
    return {} if item is None else dict(item["metadata"].get("annotations") or {})


def _annotation(item: Object | None, name: str) -> str:
    return _annotations(item).get(name, "")
