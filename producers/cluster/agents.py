"""Pods of node agents: where each is, and since when it is not ready. An agent that is silent cannot tell what the kubelet shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from producers.cluster.reading import part, parts, text, time_at
from runtime.kubernetes import Object


@dataclass(frozen=True, slots=True)
class AgentPod:
    """One of them."""

    node: str
    unready_since: datetime | None
    """None: it is ready, or only beginning."""


def read_agent(pod: Object) -> AgentPod:
    """Read a pod as the server wrote it."""
    ready = next((each for each in parts(pod, "status", "conditions") if each.get("type") == "Ready"), None)
    since = (
        time_at(ready, "lastTransitionTime") if ready is not None and ready.get("status") != "True" else None
    )
    return AgentPod(text(pod, "spec", "nodeName"), since)


def lean_agent(pod: Object) -> Object:
    """What is read of one."""
    metadata, spec, status = part(pod, "metadata"), part(pod, "spec"), part(pod, "status")
    kept = {
        name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in metadata
    }
    ready = [
        {name: each.get(name) for name in ("type", "status", "lastTransitionTime")}
        for each in parts(pod, "status", "conditions")
        if each.get("type") == "Ready"
    ]
    return {
        "metadata": kept,
        "spec": {"nodeName": spec.get("nodeName", "")},
        "status": {"conditions": ready, "phase": status.get("phase")},
    }
