"""What the cluster watcher costs at full size: a first list, a burst of ends and one round of repetition, on one core, and what stays in memory.

12,500 nodes with a pod each in ten runs (design 12). Objects are as large as a server writes them; they go through the same trimming as from
the API, and every fact is encoded as it is sent. Broker and API server are not part of it.

Run: python -m benchmarks.watcher
"""

from __future__ import annotations

import copy
import gc
import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from benchmarks.report import Row, show
from producers.cluster.book import Book
from producers.cluster.lean import lean_job, lean_node, lean_pod
from producers.cluster.outbox import Outbox
from producers.cluster.settings import WatchSettings
from producers.cluster.telling import Telling
from producers.cluster.translator import Translator
from runtime.informer import Difference
from runtime.kubernetes import Object

NODES = 12_500
RUNS = 10
AT = "2026-01-01T00:00:00Z"


def rows() -> list[Row]:
    """Measure once."""
    before = _resident()
    now = datetime(2026, 1, 2, tzinfo=UTC)
    settings = WatchSettings()
    translator = Translator("bench", settings, Book(), lambda: now, recent=timedelta(hours=1))
    outbox = Outbox("bench", "/clusters/bench/watcher/w", 1, time.time)
    nodes = [lean_node(_node(number)) for number in range(NODES)]
    jobs = [lean_job(_job(number)) for number in range(RUNS)]
    pods = [lean_pod(_pod(number)) for number in range(NODES)]

    def first_list() -> list[Telling]:
        told: list[Telling] = []
        for items, hears in ((nodes, translator.node), (jobs, translator.job), (pods, translator.pod)):
            for item in items:
                told += hears(Difference(None, item))
        return told + translator.listed()

    def all_end() -> list[Telling]:
        told: list[Telling] = []
        for place, pod in enumerate(pods):
            ended = copy.deepcopy(pod)
            ended["status"]["phase"] = "Failed"
            state = {"terminated": {"exitCode": 1, "finishedAt": AT}}
            ended["status"]["containerStatuses"] = [{"name": "train", "restartCount": 0, "state": state}]
            pods[place] = ended
            told += translator.pod(Difference(pod, ended))
        return told

    measured = [
        _measured(f"first list of {NODES:,} nodes with a pod each", first_list, outbox),
        _measured("one round of repetition", translator.repeat_all, outbox),
    ]
    gc.collect()
    held = _resident() - before
    measured.append(_measured(f"{NODES:,} pods fail at once", all_end, outbox))
    measured.append(Row("watcher", "memory held after the first list", round(held / 2**20), "MiB"))
    return measured


def _measured(name: str, tell: Callable[[], list[Telling]], outbox: Outbox) -> Row:
    began = time.perf_counter()
    told = tell()
    outbox.append(told)
    took = time.perf_counter() - began
    outbox.acknowledge(outbox.next_sequence)
    return Row("watcher", f"{name}: {len(told):,} told in {took:.2f} s", round(len(told) / took), "told/s")


def _resident() -> int:
    """Most that was ever resident; read in order of growth, so differences are what was added."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _node(number: int) -> Object:
    conditions = [
        {"type": kind, "status": "False", "message": "x" * 60} for kind in ("MemoryPressure", "DiskPressure")
    ]
    return {
        "metadata": {
            "name": f"node-{number}",
            "uid": f"node-uid-{number:029}",
            "resourceVersion": str(number),
            "creationTimestamp": AT,
            "labels": {f"label-{each}": "x" * 20 for each in range(15)},
            "annotations": {f"annotation-{each}": "x" * 40 for each in range(5)},
            "managedFields": [{"manager": "kubelet", "time": AT, "fieldsV1": {"x": "y" * 2000}}],
        },
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": AT}, *conditions],
            "images": [{"names": ["x" * 80], "sizeBytes": 1} for _ in range(50)],
        },
    }


def _job(number: int) -> Object:
    container = {"name": "train", "resources": {"limits": {"huawei.com/Ascend910": "8"}}}
    return {
        "metadata": {
            "name": f"job-{number}",
            "namespace": "team",
            "uid": f"job-uid-{number}",
            "resourceVersion": "1",
            "creationTimestamp": AT,
            "annotations": {"fault-tolerance/job-retry-num": "3"},
        },
        "spec": {"parallelism": NODES // RUNS, "template": {"spec": {"containers": [container]}}},
        "status": {},
    }


def _pod(number: int) -> Object:
    return {
        "metadata": {
            "name": f"job-{number % RUNS}-{number // RUNS}-abcde",
            "namespace": "team",
            "uid": f"pod-uid-{number:029}",
            "resourceVersion": str(number),
            "creationTimestamp": AT,
            "labels": {
                "batch.kubernetes.io/controller-uid": f"job-uid-{number % RUNS}",
                "batch.kubernetes.io/job-completion-index": str(number // RUNS),
            },
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"x": "y" * 2000}}],
        },
        "spec": {
            "nodeName": f"node-{number}",
            "containers": [{"name": "train", "env": [{"name": "X", "value": "y" * 500}], "resources": {}}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": AT}],
            "containerStatuses": [
                {"name": "train", "restartCount": 0, "state": {"running": {"startedAt": AT}}}
            ],
        },
    }


if __name__ == "__main__":
    show("watcher", rows())
