"""One container of a pod over all its runs: started, ended with its real exit code, started again as its policy says.

Driven by one thread, its pod's; the end of a run comes from a thread that waits for the process.
"""

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from runtime.kubernetes import Object
from sandbox.errors import StartFailed
from sandbox.kubelet.process import ContainerProcess

START_ERROR_CODE: Final = 128  # what containerd reports for a command that could not be run
KILLED_CODE: Final = 137


class RestartPolicy(StrEnum):
    """When a container is started again."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a container that ended waits for its next run: the first restart is at once, then `base`, doubled each time.

    Args:
        base: Kubernetes' own is 10 s.
        longest: Kubernetes' own is 5 min.
        forgiven_after: a run that lasted so long counts as the first.
    """

    base: timedelta = timedelta(seconds=10)
    longest: timedelta = timedelta(minutes=5)
    forgiven_after: timedelta = timedelta(minutes=10)

    def before(self, restart: int) -> timedelta:
        """Wait before a restart; the first is number 1."""
        return timedelta(0) if restart <= 1 else min(self.base * 2 ** min(restart - 2, 30), self.longest)


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended, as a container status says it."""

    code: int
    reason: str
    started: datetime
    finished: datetime
    message: str = ""

    def status(self, container_id: str) -> Object:
        """The `terminated` part of a container state. As with containerd a signal shows in the code only."""
        told = {
            "exitCode": self.code,
            "reason": self.reason,
            "startedAt": instant(self.started),
            "finishedAt": instant(self.finished),
            "containerID": container_id,
        }
        return {**told, "message": self.message} if self.message else told


class Container:
    """A container by its manifest.

    Args:
        manifest: its part of the pod.
        policy: of the pod, or of the container where it is a sidecar.
        backoff: waits between runs.
        start: starts a run; the number counts from 0. Raises StartFailed.
        wake: called from any thread when a run has ended.
        known: its status at the API server, from a time before this kubelet.
        container_id: makes an id for a run.
    """

    def __init__(
        self,
        manifest: Object,
        policy: RestartPolicy,
        backoff: Backoff,
        *,
        start: Callable[[int], ContainerProcess],
        wake: Callable[[], None],
        known: Object | None = None,
        container_id: Callable[[int], str],
    ) -> None:
        self.name: str = manifest["name"]
        self._image: str = manifest.get("image") or "none"
        self._policy = policy
        self._backoff = backoff
        self._start = start
        self._wake = wake
        self._id = container_id
        self._process: ContainerProcess | None = None
        self._started = datetime.now(UTC)
        self._end: End | None = None
        self._last: Object | None = None
        self._reason_of_kill = ""
        self._not_before = 0.0
        self.restarts = 0
        self._crashes = 0
        if known is not None and known.get("containerID"):
            self._take_up(known)

    @property
    def is_running(self) -> bool:
        """Whether a run goes on."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Its first process; None while no run goes on."""
        process = self._process
        return None if process is None else process.pid

    @property
    def was_started(self) -> bool:
        """Whether there was a run."""
        return self._process is not None or self._end is not None

    @property
    def succeeded(self) -> bool:
        """Whether the last run is over and was a success."""
        return self._end is not None and self._end.code == 0

    @property
    def is_over(self) -> bool:
        """Whether the last run is over and its policy wants no other."""
        return self._end is not None and not self._wants_another(self._end)

    @property
    def has_ended(self) -> bool:
        """Whether the last run is over, whatever comes next."""
        return self._end is not None

    def drive(self, now: float) -> float | None:
        """Start or start again what is due at `now` (monotonic); return when the next run is due, if one is.

        What `start` raises beside StartFailed is passed on, and nothing has changed.
        """
        if self._process is not None or self.is_over:
            return None
        if self._end is not None and now < self._not_before:
            return self._not_before
        self._run()
        return self._not_before if self._wants_another_soon() else None

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        if (process := self._process) is not None:
            process.signal(signal.SIGTERM)

    def kill(self, reason: str = "") -> None:
        """End it at once (SIGKILL); `reason` is reported in place of Error."""
        if (process := self._process) is not None:
            self._reason_of_kill = reason
            process.signal(signal.SIGKILL)

    def status(self, waiting_for: str, message: str = "") -> Object:
        """Its status as the API wants it; `waiting_for` is the reason while it has not been started."""
        run_id = self._id(self.restarts)
        process, end = self._process, self._end
        if process is not None:
            state: Object = {"running": {"startedAt": instant(self._started)}}
        elif end is None:
            state = {"waiting": {"reason": waiting_for} | ({"message": message} if message else {})}
        elif not self._wants_another(end) or self._not_before <= time.monotonic():
            state = {"terminated": end.status(run_id)}
        else:
            state = {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": f"restarting failed container {self.name}",
                }
            }
        last = self._last
        if "waiting" in state and end is not None:
            last = {"terminated": end.status(run_id)}
        return {
            "name": self.name,
            "image": self._image,
            "imageID": "",
            "containerID": run_id if self.was_started else "",
            "restartCount": self.restarts,
            "ready": process is not None,
            "started": process is not None,
            "state": state,
            "lastState": last or {},
        }

    def _wants_another(self, end: End) -> bool:
        if self._policy is RestartPolicy.ALWAYS:
            return True
        return self._policy is RestartPolicy.ON_FAILURE and end.code != 0

    def _wants_another_soon(self) -> bool:
        return self._end is not None and self._wants_another(self._end)

    def _run(self) -> None:
        before = self._end
        run = self.restarts if before is None else self.restarts + 1
        started = datetime.now(UTC)
        failure = ""
        try:
            process = self._start(run)
        except StartFailed as error:
            process, failure = None, str(error)
        if before is not None:
            self._last = {"terminated": before.status(self._id(self.restarts))}
            self.restarts = run
        self._started, self._reason_of_kill = started, ""
        if process is None:
            self._ended(START_ERROR_CODE, "StartError", failure)
            return
        self._end, self._process = None, process
        threading.Thread(
            target=self._wait_for, args=(process,), name=f"wait-{self.name}", daemon=True
        ).start()

    def _wait_for(self, process: ContainerProcess) -> None:
        code = process.wait()
        self._ended(code, self._reason_of_kill or ("Completed" if code == 0 else "Error"))
        self._wake()

    def _ended(self, code: int, reason: str, message: str = "") -> None:
        finished = datetime.now(UTC)
        if finished - self._started >= self._backoff.forgiven_after:
            self._crashes = 0
        self._crashes += 1
        self._not_before = time.monotonic() + self._backoff.before(self._crashes).total_seconds()
        self._end = End(code, reason, self._started, finished, message)
        self._process = None

    def _take_up(self, known: Object) -> None:
        """What was running is gone: this kubelet was not there. What had ended stays as it was told."""
        self.restarts = known.get("restartCount", 0)
        self._last = known.get("lastState") or None
        ended = known.get("state", {}).get("terminated")
        now = datetime.now(UTC)
        if ended is None:
            self._end = End(KILLED_CODE, "ContainerStatusUnknown", now, now)
        else:
            began, finished = ended.get("startedAt"), ended.get("finishedAt")
            self._end = End(
                ended["exitCode"], ended.get("reason", ""), _parsed(began) or now, _parsed(finished) or now
            )


def instant(at: datetime) -> str:
    """A time as the API writes it: whole seconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _parsed(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
