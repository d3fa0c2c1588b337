"""Steps on the Job of a real control plane: the commands, what kubelets would say, and a process that is killed between two writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from runtime import paths
from runtime.errors import ApiAway
from runtime.kubernetes import Cluster, Object, PatchKind
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from tests.actuators.real_job import pods_of, wait_until
from tests.actuators.real_scene import RealScene, command

JOB = "train"


def suspend(job: Object, **given: Any) -> Command:
    return command(job, StepName.SUSPEND_JOB, **given)


def resume(job: Object, *, keep_off: tuple[str, ...] = (), to: int = 2, **given: Any) -> Command:
    nodes = [{"uid": f"uid-{name}", "name": name} for name in keep_off]
    return command(
        job, StepName.RESUME_JOB, epoch=to - 1, arguments={"keep_off": nodes, "epoch": to}, **given
    )


def until_it_ends(scene: RealScene, order: Command, patience: float = 40) -> Outcome:
    ends = time.monotonic() + patience
    outcome = scene.perform(order)
    while outcome.result is OutcomeResult.PENDING and time.monotonic() < ends:
        time.sleep(0.1)
        order = order.model_copy(update={"action": "look", "look": order.look + 1})
        outcome = scene.perform(order)
    return outcome


def read(api: Cluster, job: Object) -> Object:
    return api.get(paths.jobs(job["metadata"]["namespace"], job["metadata"]["name"]))


def set_phase(api: Cluster, pod: Object, phase: str) -> None:
    metadata = pod["metadata"]
    path = paths.status(paths.pods(metadata["namespace"], metadata["name"]))
    api.patch(path, {"status": {"phase": phase}}, manager="kubelet")


def run_all(api: Cluster, job: Object, count: int) -> None:
    """What kubelets would say of the new pods."""
    wait_until(lambda: len(pods_of(api, job)) == count)
    for pod in pods_of(api, job):
        set_phase(api, pod, "Running")


def kept_off(pod_spec: Object) -> list[str]:
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return [
        value
        for term in required.get("nodeSelectorTerms", [])
        for field in term.get("matchFields", [])
        if field["operator"] == "NotIn"
        for value in field["values"]
    ]


@contextmanager
def a_node(api: Cluster, name: str) -> Iterator[str]:
    api.create(paths.nodes(), {"metadata": {"name": name}})
    try:
        yield name
    finally:
        api.delete(paths.nodes(name))


def bind(api: Cluster, pod: Object, node: str) -> None:
    metadata = pod["metadata"]
    path = f"{paths.pods(metadata['namespace'], metadata['name'])}/binding"
    api.create(path, {"metadata": {"name": metadata["name"]}, "target": {"kind": "Node", "name": node}})


def fail(job: Object, seconds: int = 120, **given: Any) -> Command:
    order = command(job, StepName.FAIL_JOB, arguments={"cause": "user_code"}, **given)
    return order.model_copy(update={"deadline": datetime.now(UTC) + timedelta(seconds=seconds)})


class DyingAfter:
    """An API whose line breaks after so many writes, as it does for a process that is killed there."""

    def __init__(self, api: Cluster, writes: int) -> None:
        self._api = api
        self._left = writes
        self.paths: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def create(self, path: str, body: Object, **query: str) -> Object:
        if "dryRun" not in query:
            self._write(path)
        return self._api.create(path, body, **query)

    def patch(self, path: str, body: Any, *, kind: PatchKind = PatchKind.MERGE, manager: str = "") -> Object:
        self._write(path)
        return self._api.patch(path, body, kind=kind, manager=manager)

    def delete(self, path: str, **conditions: Any) -> Object:
        self._write(path)
        return self._api.delete(path, **conditions)

    def _write(self, path: str) -> None:
        if self._left == 0:
            raise ApiAway("killed")
        self._left -= 1
        self.paths.append(path)
