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


Wish = Mapping[str, int]
"""How many of each resource a container asks for."""


class Devices:
    """Devices of one node: `sizes` says how many of each extended resource."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._unhealthy: set[tuple[str, int]] = set()
        self._holders: dict[tuple[str, int], str] = {}  # pods by UID
        self._grants: dict[tuple[str, str], dict[str, list[int]]] = {}  # by pod and container
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

    def allocate(
        self, pod: str, wanted: Mapping[str, Wish], *, beforehand: Mapping[str, Wish] | None = None
    ) -> None:
        """Give a pod (by UID) what each of its containers wants, or nothing at all.

        Those that run `beforehand`, one after another, use what the others will have, as init containers do.

        Raises:
            NotEnoughDevices: too few are healthy and free.
        """
        with self._lock:
            before = dict(self._holders)
            try:
                self._grant(pod, wanted, share=False)
                self._grant(pod, beforehand or {}, share=True)
            except NotEnoughDevices:
                self._holders = before
                self._forget_grants(pod)
                raise

    def release(self, pod: str) -> None:
        """Take back what a pod holds. Does nothing when it holds nothing."""
        with self._lock:
            self._holders = {device: holder for device, holder in self._holders.items() if holder != pod}
            self._forget_grants(pod)

    def held(self, pod: str, container: str) -> dict[str, list[int]]:
        """Indexes of a container's devices, by resource."""
        with self._lock:
            grants = self._grants.get((pod, container), {})
            return {resource: list(indexes) for resource, indexes in grants.items() if indexes}

    def _grant(self, pod: str, wanted: Mapping[str, Wish], *, share: bool) -> None:
        for container, wish in wanted.items():
            for resource, count in sorted(wish.items()):
                free = self._free(resource)
                if share:
                    own = [
                        index
                        for (of, index), holder in self._holders.items()
                        if (of, holder) == (resource, pod)
                    ]
                    free = sorted(own) + free
                if len(free) < count:
                    raise NotEnoughDevices(
                        f"{container} wants {count} {resource}, {len(free)} are healthy and free"
                    )
                self._holders.update({(resource, index): pod for index in free[:count]})
                self._grants.setdefault((pod, container), {})[resource] = free[:count]

    def _free(self, resource: str) -> list[int]:
        taken = self._unhealthy | self._holders.keys()
        return [index for index in range(self._sizes.get(resource, 0)) if (resource, index) not in taken]

    def _forget_grants(self, pod: str) -> None:
        self._grants = {key: grant for key, grant in self._grants.items() if key[0] != pod}

    def environment(self, pod: str, container: str) -> dict[str, str]:
        """The variables that tell a container its devices; empty for one without."""
        held = {
            resource: ",".join(map(str, indexes)) for resource, indexes in self.held(pod, container).items()
        }
        if not held:
            return {}
        told = {VISIBLE[resource]: indexes for resource, indexes in held.items() if resource in VISIBLE}
        return {**told, GRANTED: ";".join(f"{resource}={indexes}" for resource, indexes in held.items())}
