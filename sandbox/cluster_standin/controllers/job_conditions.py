"""Conditions of a Job: their names, and a list with one more. Pure.

A Job says what it will end as (`SuccessCriteriaMet`, `FailureTarget`) before it says that it has ended (`Complete`, `Failed`): in between its
pods end. From the first on there is no way back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import reading

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
FAILURE_TARGET: Final = "FailureTarget"
SUSPENDED: Final = "Suspended"

Wanted = tuple[str, str, str, str]
"""Type, status, reason, message."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a Job ends, by its interim condition."""

    kind: str
    reason: str
    message: str

    @classmethod
    def failure(cls, reason: str, message: str) -> Self:
        """It fails."""
        return cls(FAILURE_TARGET, reason, message)

    @classmethod
    def success(cls, reason: str, message: str) -> Self:
        """It succeeds."""
        return cls(SUCCESS_CRITERIA_MET, reason, message)

    @property
    def is_success(self) -> bool:
        """Which of the two."""
        return self.kind == SUCCESS_CRITERIA_MET

    def interim(self) -> Wanted:
        """While its pods end."""
        return self.kind, "True", self.reason, self.message

    def final(self) -> Wanted:
        """When they have."""
        return COMPLETE if self.is_success else FAILED, "True", self.reason, self.message


def with_condition(before: list[Object], wanted: Wanted, now: datetime) -> tuple[list[Object], bool]:
    """The conditions with one more or another one, and whether that changed anything. None is begun at False."""
    kind, status, reason, message = wanted
    at = reading.instant(now)
    made: Object = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": at,
        "lastTransitionTime": at,
    }
    for place, one in enumerate(before):
        if one["type"] == kind:
            same = all((one.get(key) or "") == made[key] for key in ("status", "reason", "message"))
            return (before, False) if same else ([*before[:place], made, *before[place + 1 :]], True)
    return (before, False) if status == "False" else ([*before, made], True)
