"""What a team writes on its job: read, never guessed. A bad value is reported and treated as absent (recovery 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actuators.injection.reasons import Reason, Untouched
from runtime.kubernetes import Object

JOB_RETRY: Final = "fault-tolerance/job-retry-num"
POD_RETRY: Final = "fault-tolerance/pod-retry-num"
CONTAINER: Final = "relight.dev/container"
"""Names the container to wrap."""
MOST_JOB_RETRIES: Final = 128


@dataclass(frozen=True, slots=True)
class Wishes:
    """The annotations injection looks at."""

    job_retry: int
    pod_retry: int
    container: str


def read_wishes(job: Object) -> Wishes | Untouched:
    """From the workload object's own metadata."""
    annotations = job["metadata"].get("annotations") or {}
    job_text = str(annotations.get(JOB_RETRY, "0")).strip()
    job_retry = _number(job_text)
    if job_retry is None or job_retry > MOST_JOB_RETRIES:
        return Untouched(Reason.BAD_RETRY_NUM, repr(job_text))
    if job_retry == 0:
        return Untouched(Reason.HA_OFF)
    pod_text = str(annotations.get(POD_RETRY, "0")).strip()
    pod_retry = _number(pod_text)
    if pod_retry is None:
        return Untouched(Reason.BAD_POD_RETRY_NUM, repr(pod_text))
    return Wishes(job_retry, pod_retry, str(annotations.get(CONTAINER, "")))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None  # noqa: PLR2004 - fits an int32
