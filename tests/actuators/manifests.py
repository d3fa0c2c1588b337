"""Manifests for tests of injection."""

from __future__ import annotations

import copy
from typing import Any

from actuators.injection.options import InjectionOptions
from runtime.kubernetes import Object
from supervisor.wrapper import WRAPPER

OPTIONS = InjectionOptions(wrapper=WRAPPER, image="relight:test")


def manifest(**changes: Any) -> Object:
    """A Job of two annotations; `changes` by dotted path with `__`, None removes."""
    made: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {"fault-tolerance/job-retry-num": "3"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": 4,
            "parallelism": 4,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [container()],
                }
            },
        },
    }
    for path, value in changes.items():
        place = made
        *way, last = path.split("__")
        for key in way:
            place = place.setdefault(key, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = copy.deepcopy(value)
    return made


def container(name: str = "main", **more: Any) -> Object:
    return {
        "name": name,
        "image": "trainer:1",
        "command": ["python", "train.py"],
        "args": ["--lr", "0.1"],
        **more,
    }


def with_devices(name: str, resource: str = "nvidia.com/gpu", amount: int | str = 8) -> Object:
    return container(name, resources={"limits": {resource: amount}, "requests": {resource: amount}})
