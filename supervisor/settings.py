"""What the environment says; a value that cannot be read is its default, since a wrong setting must not stop a job.

Everything here is written by injection; `docs/supervisor.md` lists the variables with their defaults.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

from supervisor.words import say

LONGEST_WAIT = 900.0  # seconds: no setting makes us wait longer for the agent's word


def number(environment: Mapping[str, str], name: str, default: float) -> float:
    """A non-negative, finite number, else the default."""
    try:
        value = float(environment.get(name, ""))
    except ValueError:
        return default
    return value if 0 <= value < float("inf") else default


def hang_minutes(environment: Mapping[str, str]) -> float | None:
    """MA_HANG_DETECT_TIME: none where it is not set; 0 is off, and so is what cannot be read, since a guess would end a healthy job."""
    text = environment.get("MA_HANG_DETECT_TIME", "").strip()
    if not text:
        return None
    minutes = number({"": text}, "", -1.0)
    if minutes < 0:
        say(
            f"MA_HANG_DETECT_TIME={text[:100]!r} is no number of minutes: nobody looks whether this job hangs"
        )
    return max(0.0, minutes)


@dataclass(frozen=True)
class Settings:
    """Read once at the start."""

    run: str
    pod_uid: str
    high_availability: bool
    agent_socket: Path | None
    volume: Path | None
    mark: Path | None
    memory_events: Path | None
    podinfo: Path | None
    verdict_wait: float
    word_wait: float
    check_wait: float
    pod_grace: float
    hang_minutes: float | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """From the environment injection writes."""

        def path(name: str) -> Path | None:
            value = environment.get(name, "")
            return Path(value) if value else None

        return cls(
            run=environment.get("RELIGHT_RUN", ""),
            pod_uid=environment.get("RELIGHT_POD_UID", ""),
            high_availability=environment.get("RELIGHT_HA", "off").lower() in ("on", "true", "1"),
            agent_socket=path("RELIGHT_SOCKET"),
            volume=path("RELIGHT_VOLUME"),
            mark=path("RELIGHT_MARK"),
            memory_events=path("RELIGHT_MEMORY_EVENTS"),
            podinfo=path("RELIGHT_PODINFO"),
            verdict_wait=min(number(environment, "RELIGHT_VERDICT_WAIT", 120.0), LONGEST_WAIT),
            word_wait=min(number(environment, "RELIGHT_WORD_WAIT", 3.0), LONGEST_WAIT),
            check_wait=min(number(environment, "RELIGHT_CHECK_SECONDS", 180.0), LONGEST_WAIT),
            pod_grace=max(1.0, number(environment, "RELIGHT_POD_GRACE", 30.0) - 5.0),
            hang_minutes=hang_minutes(environment),
        )

    def epoch(self, environment: Mapping[str, str]) -> int:
        """MA_SCHEDULE_CNT of this pod: the downward-API file, read again each time, else the environment, else 1."""
        for text in (
            self.annotation("relight.dev/epoch"),
            environment.get("RELIGHT_EPOCH", ""),
            environment.get("MA_SCHEDULE_CNT", ""),
        ):
            if text.isascii() and text.isdigit() and int(text[:18]) > 0:
                return int(text[:18])
        return 1

    def annotation(self, name: str) -> str:
        """One value of the downward API's `name="value"` lines; empty when there is none."""
        if self.podinfo is None:
            return ""
        try:
            for line in self.podinfo.read_text(encoding="utf-8").splitlines():
                key, _, value = line.partition("=")
                if key == name:
                    return str(json.loads(value))
        except (OSError, ValueError, RecursionError):
            return ""
        return ""


def environment_of_start(
    environment: Mapping[str, str],
    settings: Settings,
    *,
    starts: int,
    epoch: int,
    attempt: int,
    progress: str,
) -> dict[str, str]:
    """What one start of the command sees: its own environment, honest counters and the way to tell progress."""
    seen = {name: value for name, value in environment.items() if name != "RELIGHT_MARK"}
    seen["MA_PROC_START_CNT"] = str(starts)
    seen["MA_SCHEDULE_CNT"] = seen["RELIGHT_EPOCH"] = str(epoch)
    seen["RELIGHT_ATTEMPT"] = str(attempt)
    seen["RELIGHT_RUN"] = settings.run
    if progress:
        seen["RELIGHT_PROGRESS"] = progress
    return seen
