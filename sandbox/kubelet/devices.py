"""Accelerators of a node: how many, which are healthy, which container holds which.

As with a device plugin: capacity counts all, allocatable the healthy ones; a device that turns unhealthy stays with the container that
holds it and is given to nobody else. Safe to use from many threads.
"""

import threading
from collections.abc import Mapping
from typing import Final

from sandbox.errors import NotEnoughDevices

VISIBLE: Final[Mapping[str, str]] = {
    "nvidia.com/gpu": "NVIDIA_VISIBLE_DEVICES",
    "huawei.com/Ascend910": "ASCEND_VISIBLE_DEVICES",
}
"""By which variable each vendor's runtime tells a container its devices."""

GRANTED: Final = "RELIGHT_SANDBOX_DEVICES"
"""All devices of a container, whatever the vendor: ``huawei.com/Ascend910=0,1;nvidia.com/gpu=3``."""


class Devices:
    """Devices of one node: `sizes` says how many of each extended resource."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._unhealthy: set[tuple[str, int]] = set()
        self._held: dict[tuple[str, int], tuple[str, str]] = {}  # by pod UID and container
        self._lock = threading.Lock()

    def capacity(self) -> dict[str, int]:
        """How many there are, by resource."""
        return dict(self._sizes)

    def allocatable(self) -> dict[str, int]:
        """How many are healthy, by resource; held ones count."""
        with self._lock:
            sick = [resource for resource, _ in self._unhealthy]
            return {resource: size - sick.count(resource) for resource, size in self._sizes.items()}

    def set_health(self, resource: str, index: int, *, healthy: bool) -> None:
        """Mark one device; `index` counts from 0."""
        if not 0 <= index < self._sizes.get(resource, 0):
            raise ValueError(f"no device {index} of {resource}: the node has {self._sizes}")
        with self._lock:
            if healthy:
                self._unhealthy.discard((resource, index))
            else:
                self._unhealthy.add((resource, index))

    def allocate(self, pod: str, wanted: Mapping[str, Mapping[str, int]]) -> None:
        """Give a pod (by UID) what each of its containers wants, or nothing at all.

        Raises:
            NotEnoughDevices: too few are healthy and free.
        """
        with self._lock:
            granted: dict[tuple[str, int], tuple[str, str]] = {}
            for container, resources in wanted.items():
                for resource, count in resources.items():
                    free = [
                        (resource, index)
                        for index in range(self._sizes.get(resource, 0))
                        if (resource, index) not in self._unhealthy | self._held.keys() | granted.keys()
                    ]
                    if len(free) < count:
                        raise NotEnoughDevices(
                            f"{container} wants {count} {resource}, {len(free)} are healthy and free"
                        )
                    granted.update(dict.fromkeys(free[:count], (pod, container)))
            self._held.update(granted)

    def release(self, pod: str) -> None:
        """Take back what a pod holds. Does nothing when it holds nothing."""
        with self._lock:
            self._held = {device: holder for device, holder in self._held.items() if holder[0] != pod}

    def held(self, pod: str, container: str) -> dict[str, list[int]]:
        """Indexes of a container's devices, by resource."""
        with self._lock:
            found: dict[str, list[int]] = {}
            for (resource, index), holder in sorted(self._held.items()):
                if holder == (pod, container):
                    found.setdefault(resource, []).append(index)
            return found

    def environment(self, pod: str, container: str) -> dict[str, str]:
        """The variables that tell a container its devices; empty for one without."""
        held = {
            resource: ",".join(map(str, indexes)) for resource, indexes in self.held(pod, container).items()
        }
        if not held:
            return {}
        told = {VISIBLE[resource]: indexes for resource, indexes in held.items() if resource in VISIBLE}
        return {**told, GRANTED: ";".join(f"{resource}={indexes}" for resource, indexes in held.items())}
