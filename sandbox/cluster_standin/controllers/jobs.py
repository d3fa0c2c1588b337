"""The Job controller: all Jobs of the cluster, and pods that a Job has left behind with its finalizer on them.

Not done: pods without a controller are not adopted by a selector; pods are made at once and not in growing batches. Fields
it does not serve fail the Job (`job_sync.NOT_SERVED`); a Job that is `managedBy` another controller is left to that one.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import job_pods, reading
from sandbox.cluster_standin.controllers.copies import Copies
from sandbox.cluster_standin.controllers.job_failures import Backoff
from sandbox.cluster_standin.controllers.job_sync import next_step
from sandbox.cluster_standin.controllers.loop import Decision, earliest
from sandbox.cluster_standin.controllers.writes import Batch, Kind, without_finalizer

OURS: Final = "kubernetes.io/job-controller"


class Jobs:
    """Remembers failures per Job, which the API does not keep: as Kubernetes' own, a restart forgets the wait after them."""

    name = "jobs"
    watches = frozenset({Kind.JOBS, Kind.PODS})

    def __init__(self) -> None:
        self._backoffs: dict[str, Backoff] = {}

    def decide(self, copies: Copies, now: datetime) -> Decision:
        """The next step of every Job."""
        jobs = [job for job in copies.all(Kind.JOBS) if job["spec"].get("managedBy") in (None, OURS)]
        owned: dict[str, list[Object]] = defaultdict(list)
        pods = copies.all(Kind.PODS)
        for pod in pods:
            owned[str((reading.owner(pod) or {}).get("uid", ""))].append(pod)
        batches: list[Batch] = []
        times: list[datetime | None] = []
        for job in jobs:
            uid = reading.uid(job)
            own = sorted(owned[uid], key=job_pods.index_of)
            step = next_step(job, own, self._backoffs.get(uid, Backoff()), now)
            self._backoffs[uid] = step.backoff
            if step.batch:
                batches.append(step.batch)
            times.append(step.again)
        self._backoffs = {uid: self._backoffs[uid] for uid in map(reading.uid, jobs)}
        known = {reading.uid(job) for job in copies.all(Kind.JOBS)}
        batches += [
            (without_finalizer(Kind.PODS, pod, job_pods.TRACKING),) for pod in left_behind(pods, known)
        ]
        return Decision(tuple(batches), earliest(times))


def left_behind(pods: list[Object], jobs: set[str]) -> list[Object]:
    """Pods that wait to be counted by a Job that is not there any more, or by none."""
    found = []
    for pod in pods:
        owner = reading.owner(pod)
        if owner is not None and (owner.get("kind") != "Job" or owner.get("uid") in jobs):
            continue
        if job_pods.is_tracked(pod):
            found.append(pod)
    return found
