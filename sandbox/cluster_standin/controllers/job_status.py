"""The status of a Job as it should be, and the pods that may go once it is written. Pure; after kube-controller-manager 1.36."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import job_pods, reading
from sandbox.cluster_standin.controllers.job_conditions import SUSPENDED, Verdict, with_condition
from sandbox.cluster_standin.controllers.job_failures import judge
from sandbox.cluster_standin.controllers.job_pods import TRACKING
from sandbox.cluster_standin.controllers.job_scene import Scene
from sandbox.cluster_standin.controllers.writes import Batch, Kind, Patch, Say, Write, without_finalizer

SAID_AT_ZERO: Final = frozenset({"ready", "terminating"})


@dataclass(frozen=True, slots=True)
class _Count:
    """What the status is to say of ended pods, and whom that lets go."""

    indexes: set[int]
    succeeded: int
    failed: int
    uncounted: dict[str, list[str]]
    released: list[Object]


def told(scene: Scene, verdict: Verdict | None) -> Batch:
    """The status as it should be, where it is not; then without their finalizers the pods it counts."""
    count = _counted(scene, verdict)
    status = _numbers(scene, count)
    said: tuple[Say, ...] = ()
    if verdict is not None:
        status, said = _ended(scene, status, verdict, count)
    elif not reading.is_leaving(scene.job):
        status, said = _suspension(scene, status)
    batch: list[Write] = []
    change = _change(scene.status, status)
    if change:
        batch.append(Patch(Kind.JOBS, scene.job, {"status": change}, of_status=True))
        batch.extend(said)
    batch.extend(without_finalizer(Kind.PODS, pod, TRACKING) for pod in count.released)
    return tuple(batch)


def named(scene: Scene, verdict: Verdict) -> Batch:
    """How it will end goes with the deletion of its pods: from then on they look like failures of their own."""
    conditions, fresh = with_condition(reading.conditions(scene.job), verdict.interim(), scene.now)
    if not fresh:
        return ()
    change: Object = {"conditions": conditions}
    if not scene.status.get("startTime"):
        change["startTime"] = reading.instant(scene.now)
    return (Patch(Kind.JOBS, scene.job, {"status": change}, of_status=True),)


def _numbers(scene: Scene, count: _Count) -> Object:
    status = {key: value for key, value in scene.status.items() if value is not None}
    active = scene.active
    status |= {
        "active": len(active),
        "ready": sum(reading.holds(pod, "Ready") for pod in active),
        "terminating": scene.terminating,
        "succeeded": count.succeeded,
        "failed": count.failed,
        "uncountedTerminatedPods": {kind: uids for kind, uids in count.uncounted.items() if uids},
    }
    if job_pods.is_indexed(scene.job):
        status["completedIndexes"] = job_pods.indexes_text(count.indexes)
    if "startTime" not in status and not scene.suspended:
        status["startTime"] = reading.instant(scene.now)
    return status


def _counted(scene: Scene, verdict: Verdict | None) -> _Count:
    job, indexed = scene.job, job_pods.is_indexed(scene.job)
    policy = job["spec"].get("podFailurePolicy")
    held = {reading.uid(pod) for pod in scene.pods if job_pods.is_tracked(pod)}
    # What was named as ended and has lost its finalizer since goes into the numbers.
    uncounted = {
        kind: [uid for uid in scene.uncounted(kind) if uid in held] for kind in ("succeeded", "failed")
    }
    gained = {kind: len(scene.uncounted(kind)) - len(uncounted[kind]) for kind in uncounted}
    indexes = job_pods.indexes_in(str(scene.status.get("completedIndexes") or ""), scene.size or 0)
    released: list[Object] = []
    for pod in scene.pods:
        if not job_pods.is_tracked(pod):
            continue
        failed, succeeded = job_pods.has_failed(pod, job), reading.phase(pod) == "Succeeded"
        if not (reading.is_leaving(job) or verdict is not None or succeeded or failed):
            continue
        released.append(pod)
        if not job_pods.has_place(pod, job):
            continue
        uid = reading.uid(pod)
        if succeeded and uid not in uncounted["failed"]:
            if indexed:
                indexes.add(job_pods.index_of(pod))
            elif uid not in uncounted["succeeded"]:
                uncounted["succeeded"].append(uid)
            continue
        # Where the Job is over, every pod that has not ended is taken for failed.
        lost = failed or (verdict is not None and not verdict.is_success)
        if lost and uid not in uncounted["failed"] and judge(policy, pod).counts:
            uncounted["failed"].append(uid)
    succeeded_before = int(scene.status.get("succeeded") or 0)
    return _Count(
        indexes=indexes,
        succeeded=len(indexes) if indexed else succeeded_before + gained["succeeded"],
        failed=int(scene.status.get("failed") or 0) + gained["failed"],
        uncounted=uncounted,
        released=released,
    )


def _ended(scene: Scene, status: Object, verdict: Verdict, count: _Count) -> tuple[Object, tuple[Say, ...]]:
    """First what it will end as, and when all is counted and gone that it has ended."""
    before = reading.conditions(scene.job)
    conditions, fresh = with_condition(before, verdict.interim(), scene.now)
    waiting = any(count.uncounted.values()) or count.released or scene.terminating
    if fresh or waiting:
        return {**status, "conditions": conditions}, ()
    conditions, _ = with_condition(conditions, verdict.final(), scene.now)
    status = {**status, "conditions": conditions}
    if verdict.is_success:
        status["completionTime"] = reading.instant(scene.now)
        return status, (_say(scene.job, "Completed", "Job completed"),)
    return status, (replace(_say(scene.job, verdict.reason, verdict.message), warning=True),)


def _suspension(scene: Scene, status: Object) -> tuple[Object, tuple[Say, ...]]:
    wanted = (
        (SUSPENDED, "True", "JobSuspended", "Job suspended")
        if scene.suspended
        else (SUSPENDED, "False", "JobResumed", "Job resumed")
    )
    conditions, changed = with_condition(reading.conditions(scene.job), wanted, scene.now)
    if not changed:
        return status, ()
    status = {**status, "conditions": conditions}
    if scene.suspended:
        status.pop("startTime", None)
        return status, (_say(scene.job, "Suspended", "Job suspended"),)
    status["startTime"] = reading.instant(scene.now)  # a deadline counts from here
    return status, (_say(scene.job, "Resumed", "Job resumed"),)


def _say(job: Object, reason: str, message: str) -> Say:
    return Say("Job", job, reason, message, api_version="batch/v1")


def _change(before: Object, after: Object) -> Object:
    """A merge patch from one status to the other. Zeros and empty ones are absent, but for two."""
    change: Object = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if (old != new) if key in SAID_AT_ZERO else ((old or None) != (new or None)):
            change[key] = new if key in SAID_AT_ZERO else (new or None)
    if "uncountedTerminatedPods" in change:
        uncounted = change["uncountedTerminatedPods"] or {}
        change["uncountedTerminatedPods"] = {kind: uncounted.get(kind) for kind in ("succeeded", "failed")}
    return change
