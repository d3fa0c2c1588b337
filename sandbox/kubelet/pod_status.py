"""What a kubelet reports of a pod: phase, conditions, containers, addresses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from runtime.kubernetes import Object
from sandbox.kubelet.container import Container, instant

REPLACE: Final[Mapping[str, str]] = {"$patch": "replace"}
"""In a strategic patch: the list is this one, not this one merged into what a kubelet before us wrote."""

TERMINAL: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Outline:
    """How a pod stands.

    Args:
        init: its init containers, `sidecars` among them.
        main: its other containers.
        sidecars: init containers that go on running.
        refused: why the node does not take it, or empty.
        trouble: why its containers cannot be made yet, or empty.
        ending: it is being deleted: nothing is started again.
    """

    init: Sequence[Container]
    main: Sequence[Container]
    sidecars: Sequence[Container]
    refused: str
    trouble: str
    ending: bool

    @property
    def initialized(self) -> bool:
        """Whether all init containers have done their part."""
        return all(each.is_running if each in self.sidecars else each.succeeded for each in self.init) or any(
            each.was_started for each in self.main
        )

    def phase(self) -> str:
        """The pod's phase. One that is deleted before its containers ran has failed, as the real kubelet has it."""
        if self.refused or any(
            each.is_over and not each.succeeded for each in self.init if each not in self.sidecars
        ):
            return "Failed"
        running = any(each.is_running for each in (*self.init, *self.main))
        if not running and (self.ending or all(each.is_over for each in self.main)):
            return "Succeeded" if all(each.succeeded for each in self.main) else "Failed"
        return "Running" if any(each.was_started for each in self.main) else "Pending"


class PodStatus:
    """The status as last written, so that only changes are written; a terminal phase is never left again."""

    def __init__(self, pod: Object, pod_address: str, host_address: str) -> None:
        known = pod.get("status") or {}
        self._address = pod_address
        self._host_address = host_address
        self._started = known.get("startTime") or instant(datetime.now(UTC))
        self._phase = known.get("phase") or "Pending"
        self._conditions = {
            each["type"]: (each["status"], each.get("lastTransitionTime") or self._started)
            for each in known.get("conditions") or []
        }
        self._written: Object | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether the pod has succeeded or failed for good."""
        return self._phase in TERMINAL

    def write(self, outline: Outline) -> Object | None:
        """The status to write now; None when it is as it was written last."""
        if not self.is_terminal:
            self._phase = outline.phase()
        status: Object = {
            "phase": self._phase,
            "startTime": self._started,
            "hostIP": self._host_address,
            "hostIPs": [REPLACE, {"ip": self._host_address}],
            "podIP": self._address,
            "podIPs": [REPLACE, {"ip": self._address}],
            "conditions": self._all_conditions(outline),
        }
        if outline.refused:
            status |= {"reason": "UnexpectedAdmissionError", "message": outline.refused}
        else:
            status |= self._containers(outline)
        return None if status == self._written else status

    def was_written(self, status: Object) -> None:
        """It is at the server."""
        self._written = status

    def _containers(self, outline: Outline) -> Object:
        waiting_for = "PodInitializing" if outline.init and not outline.initialized else "ContainerCreating"
        if outline.trouble:
            waiting_for = "CreateContainerConfigError"
        found: Object = {
            "containerStatuses": [each.status(waiting_for, outline.trouble) for each in outline.main]
        }
        if outline.init:
            found["initContainerStatuses"] = [
                each.status(waiting_for, outline.trouble)
                | {"ready": each.is_running if each in outline.sidecars else each.succeeded}
                for each in outline.init
            ]
        return found

    def _all_conditions(self, outline: Outline) -> list[Object]:
        ready = all(each.is_running for each in outline.main)
        return [
            self._condition("PodReadyToStartContainers", holds=not outline.trouble and not outline.refused),
            self._condition("Initialized", holds=outline.initialized),
            self._condition("ContainersReady", holds=ready),
            self._condition("Ready", holds=ready),
        ]

    def _condition(self, kind: str, *, holds: bool) -> Object:
        status = "True" if holds else "False"
        before = self._conditions.get(kind)
        if before is None or before[0] != status:
            self._conditions[kind] = (status, instant(datetime.now(UTC)))
        told: Object = {"type": kind, "status": status, "lastTransitionTime": self._conditions[kind][1]}
        if not holds and self.is_terminal:
            done = "PodCompleted" if self._phase == "Succeeded" else "PodFailed"
            return {**told, "reason": done}
        return told
