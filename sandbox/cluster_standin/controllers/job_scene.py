"""A Job and its pods at a time, with what follows at once from them. Pure.

A pod that ended is counted in three steps: it is *newly* ended, then the status names its UID as uncounted, then its finalizer is off and it is
in the numbers. The index of a success needs no UID: it stands in `completedIndexes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import job_pods, reading
from sandbox.cluster_standin.controllers.job_failures import judge


@dataclass(frozen=True, slots=True)
class Scene:
    """A Job and its pods at a time, with what follows at once from them."""

    job: Object
    pods: list[Object]
    now: datetime

    @property
    def status(self) -> Object:
        """What is said of the Job so far."""
        return self.job.get("status") or {}

    @property
    def suspended(self) -> bool:
        """Whether it is to have no pods."""
        return bool(self.job["spec"].get("suspend"))

    @property
    def active(self) -> list[Object]:
        """Pods that are neither over nor being deleted."""
        return [pod for pod in self.pods if job_pods.is_active(pod)]

    @property
    def terminating(self) -> int:
        """Pods that are being deleted and not over."""
        return sum(job_pods.is_terminating(pod) for pod in self.pods)

    @property
    def size(self) -> int | None:
        """How many successes complete it; None: any."""
        size = self.job["spec"].get("completions")
        return None if size is None else int(size)

    def uncounted(self, kind: str) -> list[str]:
        """UIDs that the status names as ended and not in its numbers yet."""
        return list((self.status.get("uncountedTerminatedPods") or {}).get(kind) or [])

    def succeeded_indexes(self) -> set[int]:
        """Indexes that are done: of the status, and of pods it does not count yet."""
        size = self.size or 0
        done = job_pods.indexes_in(str(self.status.get("completedIndexes") or ""), size)
        return done | {job_pods.index_of(pod) for pod in self.newly("Succeeded")}

    def newly(self, phase: str) -> list[Object]:
        """Pods that succeeded or failed and are not told by the status."""
        told = set(self.uncounted(phase.lower()))
        found = []
        for pod in self.pods:
            ended = (
                reading.phase(pod) == "Succeeded"
                if phase == "Succeeded"
                else job_pods.has_failed(pod, self.job)
            )
            fresh = job_pods.is_tracked(pod) and reading.uid(pod) not in told
            if ended and fresh and job_pods.has_place(pod, self.job):
                found.append(pod)
        return found

    def succeeded(self) -> int:
        """Successes, those the status does not count yet among them."""
        if job_pods.is_indexed(self.job):
            return len(self.succeeded_indexes())
        told = int(self.status.get("succeeded") or 0) + len(self.uncounted("succeeded"))
        return told + len(self.newly("Succeeded"))

    def failed(self) -> int:
        """Failures, in the same way."""
        policy = self.job["spec"].get("podFailurePolicy")
        fresh = sum(judge(policy, pod).counts for pod in self.newly("Failed"))
        return int(self.status.get("failed") or 0) + len(self.uncounted("failed")) + fresh
