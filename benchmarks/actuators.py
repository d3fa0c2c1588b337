"""Telling pods: desired state through the step stop_processes, beside a bare loop of the same conditional PATCHes with the same client.

On a real API server, pods as objects without a kubelet. The client's rate is opened, so that what is measured is the step: list, judgement,
fan-out, tally. The bare loop has the pods' versions already and knows nothing of epochs, ranks or conflicts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

from actuators.perform import perform
from actuators.pods.desired_state import change_of
from actuators.settings import ActingSettings
from actuators.world import Budget, TimedApi, Words, World
from benchmarks.report import Row
from runtime import paths
from runtime.kubernetes import Cluster, Object
from runtime.settings import KubernetesSettings
from sandbox.control_plane import ControlPlane, Options
from schemas.cluster import EPOCH, FIELD_MANAGER, INJECTED, JOB_UID_LABEL, Desired, ProcessOrder
from schemas.commands import Command, OutcomeResult, StepName
from schemas.ids import run_subject

SIZES: Final = (64, 1250)
ROUNDS: Final = 3
HANDS: Final = 16
NAMESPACE: Final = "bench"
AIM: Final = "1.5"


class Silent:
    """No Events: they are written beside the step, not in it."""

    def say(self, words: Words) -> None:
        """Nothing."""


def rows() -> list[Row]:
    """Both sizes, step and bare loop in turns."""
    with _cluster() as api, ThreadPoolExecutor(HANDS) as hands:
        return [row for size in SIZES for row in _measure(api, hands, size)]


def _measure(api: Cluster, hands: ThreadPoolExecutor, size: int) -> list[Row]:
    job = _make(api, hands, size)
    steps: list[float] = []
    bare: list[float] = []
    for turn in range(ROUNDS):
        steps.append(_through_the_step(api, hands, job, size, attempt=2 * turn + 1))
        bare.append(_bare(api, hands, job, size, attempt=2 * turn + 2))
    step, loop = median(steps), median(bare)
    reference = f"the same PATCHes: {loop:.2f} s, {size / loop:,.0f}/s"
    return [
        Row("actuators", f"stop {size} pods", step, "s", reference, step / loop, AIM),
    ]


def _through_the_step(
    api: Cluster, hands: ThreadPoolExecutor, job: Object, size: int, *, attempt: int
) -> float:
    settings = ActingSettings(fan_out=HANDS)
    order = _command(job, attempt)
    begun = time.monotonic()
    while True:
        budget = Budget(settings.time_limit.total_seconds(), time.monotonic)
        timed = TimedApi(api, budget)
        outcome = perform(order, World(timed, budget, _now, hands, Silent(), settings))
        if outcome.result is OutcomeResult.DONE:
            break
        if outcome.result is not OutcomeResult.PENDING:
            raise RuntimeError(f"the step answered {outcome}")
        order = order.model_copy(update={"action": "look", "look": order.look + 1})
    took = time.monotonic() - begun
    if outcome.told != size:
        raise RuntimeError(f"{outcome.told} of {size} pods were told")
    return took


def _bare(api: Cluster, hands: ThreadPoolExecutor, job: Object, size: int, *, attempt: int) -> float:
    pods = api.list(paths.pods(NAMESPACE), labels=f"{JOB_UID_LABEL}={job['metadata']['uid']}").items
    until = _now() + timedelta(minutes=5)
    change = change_of(
        Desired(epoch=1, attempt=attempt, state=ProcessOrder.STOP, until=until, otherwise="rerun")
    )

    def tell(pod: Object) -> None:
        metadata = pod["metadata"]
        conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": {**change["metadata"], **conditions}}
        api.patch(paths.pods(NAMESPACE, metadata["name"]), body, manager=FIELD_MANAGER)

    begun = time.monotonic()
    told = sum(1 for _ in hands.map(tell, pods))
    took = time.monotonic() - begun
    if told != size:
        raise RuntimeError(f"{told} of {size} pods were told")
    return took


@contextmanager
def _cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder:
        options = Options(controller_manager=False, scheduler=False)
        with ControlPlane(Path(folder) / "cluster", options) as plane:
            settings = KubernetesSettings(
                kubeconfig=plane.kubeconfig, rate=100_000, burst=100_000, connections=HANDS
            )
            api = Cluster(settings, "bench")
            api.create(paths.namespaces(), {"metadata": {"name": NAMESPACE}})
            accounts = f"{paths.namespaces(NAMESPACE)}/serviceaccounts"
            api.create(accounts, {"metadata": {"name": "default"}})
            yield api


def _make(api: Cluster, hands: ThreadPoolExecutor, size: int) -> Object:
    """A Job, and its pods as its controller would make them."""
    name = f"train-{size}"
    container = {"name": "main", "image": "none", "command": ["sleep", "1"]}
    pod_spec = {"restartPolicy": "Never", "containers": [container]}
    spec = {
        "completionMode": "Indexed",
        "completions": size,
        "parallelism": size,
        "template": {"spec": pod_spec},
    }
    job = api.create(paths.jobs(NAMESPACE), {"metadata": {"name": name}, "spec": spec})
    labels = {JOB_UID_LABEL: job["metadata"]["uid"]}
    annotations = {INJECTED: "1", EPOCH: "1"}

    def make(number: int) -> None:
        metadata = {"name": f"{name}-{number}", "labels": labels, "annotations": annotations}
        api.create(paths.pods(NAMESPACE), {"metadata": metadata, "spec": pod_spec})

    list(hands.map(make, range(size)))
    return job


def _command(job: Object, attempt: int) -> Command:
    now = _now()
    return Command(
        command=f"command-{attempt}",
        incident="incident",
        attempt=attempt,
        step=StepName.STOP_PROCESSES,
        index=0,
        subject=run_subject(job["metadata"]["uid"]),
        epoch=1,
        deadline=now + timedelta(minutes=5),
        not_after=now + timedelta(minutes=5),
        reason="a benchmark",
        rulebook="none",
        trigger="none",
        arguments={
            "namespace": NAMESPACE,
            "name": job["metadata"]["name"],
            "workload": "Job",
            "until": (now + timedelta(minutes=5)).isoformat(),
            "otherwise": "rerun",
            "grace_seconds": 30,
        },
    )


def _now() -> datetime:
    return datetime.now(UTC)
