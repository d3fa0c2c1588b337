"""What a failed pod means for its Job: the rules of its podFailurePolicy, and how long a failed one's successor waits. Pure; after 1.36."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import reading
from sandbox.cluster_standin.controllers.job_pods import restarts

FIRST_WAIT: Final = timedelta(seconds=10)
LONGEST_WAIT: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the first rule that matches says of a pod.

    Args:
        counts: it counts as one of the Job's failures.
        fails_job: why the whole Job fails with it; empty: it does not.
    """

    counts: bool = True
    fails_job: str = ""


def judge(policy: Object | None, pod: Object) -> Judgement:
    """By the rules of a policy, in their order; what no rule speaks of counts."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        why = _matches(rule, pod)
        if not why:
            continue
        if rule["action"] == "Ignore":
            return Judgement(counts=False)
        if rule["action"] == "FailJob":
            return Judgement(fails_job=f"{why} matching FailJob rule at index {number}")
        return Judgement()
    return Judgement()


def _matches(rule: Object, pod: Object) -> str:
    title = f"{reading.namespace(pod)}/{reading.name(pod)}"
    wanted = rule.get("onExitCodes")
    if wanted is not None:
        found = _exit(wanted, pod)
        return f"Container {found[0]} for pod {title} failed with exit code {found[1]}" if found else ""
    patterns = [(one["type"], one.get("status", "True")) for one in rule.get("onPodConditions") or ()]
    for condition in reading.conditions(pod):
        if (condition["type"], condition["status"]) in patterns:
            return f"Pod {title} has condition {condition['type']}"
    return ""


def _exit(wanted: Object, pod: Object) -> tuple[str, int] | None:
    """Container and code of the first exit that is meant; containers before init containers, 0 never."""
    status = pod.get("status") or {}
    for one in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        ended = (one.get("state") or {}).get("terminated")
        if ended is None or wanted.get("containerName") not in (None, one["name"]):
            continue
        code = int(ended.get("exitCode") or 0)
        among = code in wanted["values"]
        if code and among == (wanted["operator"] == "In"):
            return str(one["name"]), code
    return None


def restarts_exceed(job: Object, pods: Iterable[Object]) -> bool:
    """Where containers are restarted in their pods, restarts are what the limit counts."""
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    limit = int(job["spec"]["backoffLimit"])
    total = sum(restarts(pod) for pod in pods if reading.phase(pod) in {"Running", "Pending"})
    return total > 0 if limit == 0 else total >= limit


# ---------------------------------------------------------------------- the wait


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures since the last success, when the last one was, and whom that counts: asked twice, it counts once."""

    failures: int = 0
    last: datetime | None = None
    counted: frozenset[str] = frozenset()

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> Backoff:
        """With pods that ended since."""
        fresh = [pod for pod in failed if reading.uid(pod) not in self.counted]
        failures: list[datetime] = sorted(finished_at(pod) for pod in fresh)
        counted = self.counted | {reading.uid(pod) for pod in fresh}
        if not succeeded:
            return Backoff(self.failures + len(failures), failures[-1], counted) if failures else self
        success = max(finished_at(pod) for pod in succeeded)
        later = [at for at in failures if at > success]
        return Backoff(len(later), later[-1] if later else None, counted)

    def until(self) -> datetime | None:
        """Before that no pod is made; None: at once."""
        if self.failures == 0 or self.last is None:
            return None
        return self.last + min(FIRST_WAIT * (1 << min(self.failures - 1, 10)), LONGEST_WAIT)


def finished_at(pod: Object) -> datetime:
    """When a pod ended, as far as it is known."""
    status = pod.get("status") or {}
    ends = [
        reading.time_of(((one.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for one in status.get("containerStatuses") or ()
    ]
    known = [end for end in ends if end is not None]
    if known and len(known) == len(ends):
        return max(known)
    not_ready = reading.condition(pod, "Ready") or {}
    since: datetime | None = (
        reading.time_of(not_ready.get("lastTransitionTime")) if not_ready.get("status") == "False" else None
    )
    if since is not None:
        return since
    metadata = pod["metadata"]
    deleted = reading.time_of(metadata.get("deletionTimestamp"))
    if deleted is not None:
        return deleted - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    created = reading.time_of(metadata.get("creationTimestamp"))
    if created is None:
        raise ValueError(f"pod {metadata['name']} has no creationTimestamp")
    return created
