"""Pods and peers for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from producers.identity import Identity
from producers.own_pods import OwnPod, read_pod
from producers.supervisors.reports import Peer
from schemas import cluster
from schemas.signals import NodeRef

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
IDENTITY = Identity("c-1", NodeRef(uid="node-uid", name="node-1"))


def pod_object(
    uid: str = "pod-1",
    *,
    run: str | None = "run-1",
    desired: str | None = None,
    epoch: int | None = None,
    node: str = "node-1",
    version: str = "1",
    started: str = "2026-03-01T11:00:00Z",
    phase: str = "Running",
    **more: Any,
) -> dict[str, Any]:
    """A pod as the API server writes it."""
    annotations: dict[str, str] = dict(more.pop("annotations", {}))
    if run is not None:
        annotations[cluster.RUN] = run
    if desired is not None:
        annotations[cluster.DESIRED] = desired
    if epoch is not None:
        annotations[cluster.EPOCH] = str(epoch)
    return {
        "metadata": {
            "uid": uid,
            "name": f"name-of-{uid}",
            "namespace": "team-a",
            "resourceVersion": version,
            "creationTimestamp": "2026-03-01T10:59:00Z",
            "annotations": annotations,
            "labels": {cluster.RANK_LABEL: "3"},
        },
        "spec": {"nodeName": node, "containers": [{"name": "trainer", **more.pop("container", {})}]},
        "status": {
            "phase": phase,
            "startTime": started,
            "containerStatuses": [{"name": "trainer", "containerID": "containerd://" + "ab" * 32}],
            **more,
        },
    }


def own_pod(uid: str = "pod-1", **more: Any) -> OwnPod:
    return read_pod(pod_object(uid, **more), NOW)


def peer(uid: str = "pod-1", spool: str = "s", **more: Any) -> Peer:
    pod = own_pod(uid, **more)
    placement = pod.placement("ab" * 32)
    assert placement is not None
    return Peer(pod, placement, spool)
