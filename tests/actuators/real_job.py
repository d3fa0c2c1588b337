"""Jobs and pods on a real control plane without kubelets: objects with real bookkeeping, nothing that runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from runtime import paths
from runtime.kubernetes import Cluster, Object
from schemas.cluster import EPOCH, INJECTED, JOB_UID_LABEL

PATIENCE = 30.0


def job_manifest(name: str, pods: int, *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """An Indexed Job as injection leaves it, as far as actuators look."""
    template = {
        "metadata": {"annotations": {INJECTED: "1", EPOCH: "1"} if annotations is None else annotations},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "command": ["sleep", "1000"]}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "template": template,
            **spec,
        },
    }


def make_job(api: Cluster, namespace: str, pods: int = 3, *, name: str = "train", **more: Any) -> Object:
    """A job whose pods are there."""
    job = api.create(paths.jobs(namespace), job_manifest(name, pods, **more))
    wait_until(lambda: len(pods_of(api, job)) == pods)
    return job


def pods_of(api: Cluster, job: Object) -> list[Object]:
    """Its pods."""
    metadata = job["metadata"]
    labels = f"{JOB_UID_LABEL}={metadata['uid']}"
    return api.list(paths.pods(metadata["namespace"]), labels=labels).items


def wait_until(what: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Until it is so."""
    ends = time.monotonic() + patience
    while not what():
        assert time.monotonic() < ends, "it did not come to that"
        time.sleep(0.05)
