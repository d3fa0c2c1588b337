"""High-availability annotations of a workload, as seed 001 (table 2) defines them.

A bad value is reported with what would be right and treated as absent, never guessed (recovery 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

JOB_RETRY_NUM: Final = "fault-tolerance/job-retry-num"
UNCONDITIONAL_RETRY: Final = "fault-tolerance/job-unconditional-retry"
HANG_RETRY: Final = "fault-tolerance/hang-retry"
POD_RETRY_NUM: Final = "fault-tolerance/pod-retry-num"
MAX_JOB_RETRY_NUM: Final = 128
"""Upper end of job-retry-num (seed 001, table 2)."""
_MAX_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class HaSettings:
    """What a training team asked for."""

    job_retry_num: int = 0
    unconditional: bool = False
    hang_retry: bool = False
    pod_retry_num: int = 0
    problems: tuple[str, ...] = ()

    @property
    def on(self) -> bool:
        """High availability is on: job-retry-num is 1 or more."""
        return self.job_retry_num > 0


def read_annotations(annotations: Mapping[str, str], *, pod_retry_default: int) -> HaSettings:
    """Settings from annotations; values outside their domain are listed in `problems` and count as absent."""
    problems: list[str] = []
    return HaSettings(
        job_retry_num=_number(annotations, JOB_RETRY_NUM, MAX_JOB_RETRY_NUM, 0, problems),
        unconditional=_switch(annotations, UNCONDITIONAL_RETRY, problems),
        hang_retry=_switch(annotations, HANG_RETRY, problems),
        pod_retry_num=_number(annotations, POD_RETRY_NUM, None, pod_retry_default, problems),
        problems=tuple(problems),
    )


def mirrored_use(annotations: Mapping[str, str], name: str) -> int:
    """Retries used according to the mirror on the job; read only when our own cell is missing (finding Q35)."""
    text = annotations.get(name, "")
    return int(text) if _is_number(text) else 0


def _number(
    annotations: Mapping[str, str], name: str, highest: int | None, absent: int, problems: list[str]
) -> int:
    if name not in annotations:
        return absent
    text = annotations[name].strip()
    if _is_number(text) and (highest is None or int(text) <= highest):
        return int(text)
    right = f"a whole number from 0 to {highest}" if highest else "a whole number, 0 or more"
    problems.append(
        f"{name}: {annotations[name]!r} is not understood and counts as absent; right would be {right}"
    )
    return absent


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _switch(annotations: Mapping[str, str], name: str, problems: list[str]) -> bool:
    text = annotations.get(name, "false")
    if text not in {"true", "false"}:
        problems.append(
            f'{name}: {text!r} is not understood and counts as absent; right would be "true" or "false"'
        )
    return text == "true"
