"""Jobs that ended long enough ago, by their own `ttlSecondsAfterFinished`, are deleted with their pods. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import reading
from sandbox.cluster_standin.controllers.copies import Copies
from sandbox.cluster_standin.controllers.loop import Decision, earliest
from sandbox.cluster_standin.controllers.writes import Batch, Delete, Kind


def goes_at(job: Object) -> datetime | None:
    """When its time is over; None: never, or not yet known."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    ended = [
        one
        for one in reading.conditions(job)
        if one["type"] in {"Complete", "Failed"} and one["status"] == "True"
    ]
    if seconds is None or not ended or reading.is_leaving(job):
        return None
    at = reading.time_of(ended[0].get("lastTransitionTime"))
    return None if at is None else at + timedelta(seconds=int(seconds))


class FinishedJobs:
    """Keeps nothing."""

    name = "finished jobs"
    watches = frozenset({Kind.JOBS})

    def decide(self, copies: Copies, now: datetime) -> Decision:
        """Whom to delete now, and when the next one's time is over."""
        batches: list[Batch] = []
        times: list[datetime] = []
        for job in copies.all(Kind.JOBS):
            at = goes_at(job)
            if at is not None and at <= now:
                batches.append((Delete(Kind.JOBS, job, propagation="Foreground"),))
            elif at is not None:
                times.append(at)
        return Decision(tuple(batches), earliest(times))
