"""Every reason why a manifest is left as it is. Each is a sentence for people, and a test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Untouched, because ... ."""

    NOT_A_JOB = "it is no Job of batch/v1: no other kind has an adapter yet"
    ALREADY_INJECTED = "it is injected already"
    HA_OFF = "high availability is off: the annotation fault-tolerance/job-retry-num is absent or 0"
    BAD_RETRY_NUM = "fault-tolerance/job-retry-num is no number from 1 to 128"
    BAD_POD_RETRY_NUM = "fault-tolerance/pod-retry-num is no number from 0 on"
    OWNED = "another controller owns it and would undo what relight does to it"
    QUEUED = "a Kueue queue owns its suspension; an adapter for Kueue does not exist yet"
    MANAGED_ELSEWHERE = "spec.managedBy names another controller than Kubernetes' own"
    NOT_INDEXED = "it has several pods and is not Indexed: they have no ranks one could recover"
    RESTART_POLICY = "restartPolicy is not Never: the kubelet would restart containers beside us, and Never would change the job"
    HOST_PATH_FORBIDDEN = "the namespace's Pod Security level forbids hostPath: every pod would be refused"
    WINDOWS = "its pods run on Windows"
    NAMED_CONTAINER_MISSING = "the annotation relight.dev/container names a container it does not have"
    NO_CONTAINER_CHOSEN = "it has several containers, none of which holds devices: name one in the annotation relight.dev/container"
    SEVERAL_HOLD_DEVICES = "several containers hold devices: name one in the annotation relight.dev/container"
    NO_COMMAND = "the container has no explicit command: what its image would run cannot be wrapped"
    NAME_TAKEN = "it has a container, volume or mount of the name or place relight needs"
    REPLACEMENT_POLICY = "podReplacementPolicy is not Failed, which a podFailurePolicy needs"
    MALFORMED = "it is not shaped like a Job"


@dataclass(frozen=True, slots=True)
class Untouched:
    """A reason, and what in the manifest it is about."""

    reason: Reason
    about: str = ""

    def __str__(self) -> str:
        """A sentence for people."""
        return f"untouched, because {self.reason.value}" + (f" ({self.about})" if self.about else "")
