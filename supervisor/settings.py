"""What the environment says; a value that cannot be read is its default, since a wrong setting must not stop a job."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping


def number(environment: Mapping[str, str], name: str, default: float) -> float:
    """A non-negative, finite number, else the default."""
    try:
        value = float(environment.get(name, ""))
    except ValueError:
        return default
    return value if 0 <= value < float("inf") else default


@dataclass(frozen=True)
class Settings:
    """Read once at the start."""

    run: str
    pod_uid: str
    high_availability: bool
    agent_socket: Path | None
    volume: Path | None
    mark: Path | None
    verdict_wait: float
    pod_grace: float
    podinfo: Path | None

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
            verdict_wait=number(environment, "RELIGHT_VERDICT_WAIT", 120.0),
            pod_grace=max(1.0, number(environment, "RELIGHT_POD_GRACE", 30.0) - 5.0),
            podinfo=path("RELIGHT_PODINFO"),
        )

    def schedule_count(self, environment: Mapping[str, str]) -> str:
        """MA_SCHEDULE_CNT from the downward-API file, else the environment, else 1."""
        return self.annotation("relight.dev/schedule-cnt") or environment.get("MA_SCHEDULE_CNT") or "1"

    def epoch(self, environment: Mapping[str, str]) -> str:
        """The epoch of the pod's template."""
        return self.annotation("relight.dev/epoch") or environment.get("RELIGHT_EPOCH") or "0"

    def annotation(self, name: str) -> str:
        """One value of the downward API's `name="value"` lines; empty when there is none."""
        if self.podinfo is None:
            return ""
        try:
            lines = self.podinfo.read_text(encoding="utf-8").splitlines()
            for line in lines:
                key, _, value = line.partition("=")
                if key == name:
                    return str(json.loads(value))
        except (OSError, ValueError):
            return ""
        return ""


def environment_of_start(
    settings: Settings, *, starts: int, order: tuple[int, int, int] | None, progress: str
) -> dict[str, str]:
    """What one start of the command sees: honest counters, read again at each start."""
    added = {
        "MA_PROC_START_CNT": str(starts),
        "MA_SCHEDULE_CNT": settings.schedule_count(os.environ),
        "RELIGHT_EPOCH": settings.epoch(os.environ) if order is None else str(order[0]),
        "RELIGHT_ATTEMPT": "0" if order is None else str(order[1]),
        "RELIGHT_RUN": settings.run,
    }
    if progress:
        added["RELIGHT_PROGRESS"] = progress
    return {**os.environ, **added}
