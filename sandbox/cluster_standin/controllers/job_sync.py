"""One step of a Job towards what it should be: pods made or deleted, its status, then the pods let go that the status counts. Pure.

After syncJob of kube-controller-manager 1.36, which does all of it in one go. Here a step is asked for again until none is left, so that each is
decided on what the one before has brought about; what is written, and in which order, is the same. A pod is counted once, whatever is killed in
between: it is held by a finalizer until the status that counts it is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import job_pods, reading
from sandbox.cluster_standin.controllers.job_conditions import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    Verdict,
)
from sandbox.cluster_standin.controllers.job_failures import Backoff, judge, restarts_exceed
from sandbox.cluster_standin.controllers.job_pods import TRACKING
from sandbox.cluster_standin.controllers.job_scene import Scene
from sandbox.cluster_standin.controllers.job_status import named, told
from sandbox.cluster_standin.controllers.loop import earliest
from sandbox.cluster_standin.controllers.writes import (
    Batch,
    Create,
    Delete,
    Kind,
    Write,
    without_finalizer,
)

MOST_AT_ONCE: Final = 500
NOT_SERVED: Final = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
"""Fields whose meaning is more than a few lines, and which no job of ours uses: a Job with one of them fails and says so."""
NOT_SERVED_REASON: Final = "NotServedByStandIn"
NO_FAILURES: Final = Backoff()
COMPLETE_REASON: Final = "CompletionsReached"


@dataclass(frozen=True, slots=True)
class Step:
    """What to write now, when to look again, and the record of failures."""

    batch: Batch = ()
    again: datetime | None = None
    backoff: Backoff = NO_FAILURES


def next_step(job: Object, pods: list[Object], backoff: Backoff, now: datetime) -> Step:
    """The next thing to do for a Job; nothing when it is as it should be.

    Args:
        job: as the server has it, defaults and all.
        pods: those it controls.
        backoff: failures before.
        now: wall clock.
    """
    if reading.holds(job, COMPLETE) or reading.holds(job, FAILED):
        return Step(
            tuple(without_finalizer(Kind.PODS, pod, TRACKING) for pod in pods if job_pods.is_tracked(pod))
        )
    scene = Scene(job, pods, now)
    record = backoff.after(scene.newly("Succeeded"), scene.newly("Failed"))
    verdict, again = _verdict(scene)
    wait: datetime | None = None
    if verdict is not None:
        if scene.active:
            ending = tuple(Delete(Kind.PODS, pod) for pod in scene.active)
            return Step((*ending, *named(scene, verdict)), again, record)
    elif not reading.is_leaving(job):
        batch, wait = _manage(scene, record)
        if batch:
            return Step(batch, earliest((again, wait)), record)
        needed = 1 if scene.size is None else scene.size
        if scene.succeeded() >= needed and not scene.active:
            verdict = Verdict.success(COMPLETE_REASON, "Reached expected number of succeeded pods")
    return Step(told(scene, verdict), earliest((again, wait)), record)


# ---------------------------------------------------------------------- how it ends


def _verdict(scene: Scene) -> tuple[Verdict | None, datetime | None]:
    """How the Job ends, where that is settled; and when to look for its deadline."""
    job = scene.job
    for kind in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        stands = reading.condition(job, kind)
        if stands is not None and stands["status"] == "True":
            return Verdict(kind, str(stands.get("reason", "")), str(stands.get("message", ""))), None
    unserved = [field for field in NOT_SERVED if job["spec"].get(field) is not None]
    if unserved:
        text = f"the cluster stand-in does not serve spec.{unserved[0]}"
        return Verdict.failure(NOT_SERVED_REASON, text), None
    policy = job["spec"].get("podFailurePolicy")
    for pod in scene.pods if policy else ():
        if job_pods.has_failed(pod, job) and (why := judge(policy, pod).fails_job):
            return Verdict.failure("PodFailurePolicy", why), None
    limit = int(job["spec"].get("backoffLimit", 6))
    if scene.failed() > limit or restarts_exceed(job, scene.pods):
        return Verdict.failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"), None
    return _deadline(scene)


def _deadline(scene: Scene) -> tuple[Verdict | None, datetime | None]:
    allowed = scene.job["spec"].get("activeDeadlineSeconds")
    if allowed is None or scene.suspended:
        return None, None
    began = reading.time_of(scene.status.get("startTime")) or scene.now
    ends = began + timedelta(seconds=int(allowed))
    if scene.now >= ends:
        return Verdict.failure("DeadlineExceeded", "Job was active longer than specified deadline"), None
    return None, ends


# ---------------------------------------------------------------------- its pods


def _manage(scene: Scene, record: Backoff) -> tuple[Batch, datetime | None]:
    """Pods to make or to delete now, and until when making some has to wait."""
    job, active = scene.job, scene.active
    if scene.suspended:
        return _let_go(active), None
    wanted = int(job["spec"].get("parallelism", 1))
    if scene.size is not None:
        wanted = max(0, min(wanted, scene.size - scene.succeeded()))
    elif scene.succeeded() > 0:
        wanted = len(active)  # one has done it: the others are let finish
    removed = job_pods.surplus(job, active, len(active) - wanted)[:MOST_AT_ONCE]
    if removed:
        return _let_go(removed), None
    leaving = scene.terminating if job_pods.replaces_only_failed(job) else 0
    count = min(wanted - leaving - len(active), MOST_AT_ONCE)
    if count <= 0:
        return (), None
    wait = record.until()
    if wait is not None and wait > scene.now:
        return (), wait
    indexes: list[int | None] = [None] * count
    if job_pods.is_indexed(job):
        indexes = list(job_pods.pending_indexes(job, scene.pods, scene.succeeded_indexes(), count))
    namespace = reading.namespace(job)
    return tuple(Create(Kind.PODS, namespace, job_pods.new_pod(job, index)) for index in indexes), None


def _let_go(pods: list[Object]) -> Batch:
    """Delete pods so that they are counted nowhere: not as failed, not as succeeded."""
    batch: list[Write] = []
    for pod in pods:
        if job_pods.is_tracked(pod):
            batch.append(without_finalizer(Kind.PODS, pod, TRACKING))
        batch.append(Delete(Kind.PODS, pod))
    return tuple(batch)
