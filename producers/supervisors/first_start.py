"""Whether a pod that has started nothing may start, or its group is about to restart (findings Q20, Q28).

A pod the Job controller made anew, in place of one that failed, has an empty volume and cannot know that its epoch ran before: alone in a dead
group, its command would wait for peers or start from a state nobody shares. The API knows. A pod replaces another of its epoch when its Job
counts a failed pod (a suspended Job counts none, and a Job with failed pods is rebuilt by us, never resumed, so the count is of this epoch), or
when a pod of the same index and epoch failed or is being deleted (failures a policy ignores are not counted). A run that was let go is
Kubernetes' own again: some of its pods still carry the release, and nobody is waited for.

Whatever is not known - no Job, the API away or slow - holds nobody: the run goes on as it would without relight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from producers.own_pods import OwnPod, read_epoch, read_order
from runtime import logs, paths
from runtime.errors import ApiError
from runtime.kubernetes import Object
from schemas.cluster import JOB_UID_LABEL, RANK_LABEL, Desired, ProcessOrder

CACHED: Final = "0"
"""Resource version of a read that the API server answers from memory; what counts here happened seconds ago."""
PREDECESSORS: Final = 16
SIBLINGS: Final = 32
"""Pods of the run that are looked at for a release: a release is written on all that live."""
AT_ONCE: Final = 4
"""Questions under way: pods of a whole node may begin together."""
_log = logs.get(__name__)


class Reader(Protocol):
    """Reads objects of the cluster."""

    def get(self, path: str) -> Object:
        """One object, or one page. Raises ApiError."""
        ...


def counts_failed_pods(job: Object) -> bool:
    """Its controller saw pods fail in this epoch."""
    status: dict[str, Any] = job.get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("failed") or ()
    return bool(status.get("failed")) or bool(uncounted)


def follows(pod: OwnPod, others: Iterable[Object]) -> bool:
    """One of these, which have its index, ran in its epoch before it."""
    return any(
        str(other["metadata"]["uid"]) != pod.uid
        and read_epoch(other) == pod.epoch
        and ((other.get("status") or {}).get("phase") == "Failed" or "deletionTimestamp" in other["metadata"])
        for other in others
    )


def was_let_go(pod: OwnPod, siblings: Iterable[Object]) -> bool:
    """The last order anybody of the run was given in this epoch is the release."""
    orders = (read_order(sibling) for sibling in siblings)
    last = max(
        (order for order in orders if order and order.epoch >= pod.epoch), key=Desired.rank, default=None
    )
    return last is not None and last.state is ProcessOrder.RELEASE


class FirstStart:
    """Asks the API, in threads of its own, and never longer than `within`."""

    def __init__(self, reader: Reader, within: timedelta) -> None:
        self._reader = reader
        self._within = within.total_seconds()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="first-start")

    def close(self) -> None:
        """Ask no more; an answer that is still to come is waited for by nobody."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def must_wait(self, pod: OwnPod) -> bool:
        """The pod replaces one of its epoch, in a run that is ours to restart."""
        if pod.job is None or pod.rank is None:
            return False
        asked = asyncio.get_running_loop().run_in_executor(self._threads, self._ask, pod)
        try:
            return await asyncio.wait_for(asked, self._within)
        except (ApiError, TimeoutError) as error:
            _log.warning(
                "not known whether a pod replaces another, it starts", pod=pod.uid, error=repr(error)
            )
            return False

    def _ask(self, pod: OwnPod) -> bool:
        assert pod.job is not None  # noqa: S101 - asked of pods of Jobs
        job = self._reader.get(f"{paths.jobs(pod.namespace, pod.job.name)}?resourceVersion={CACHED}")
        if job["metadata"]["uid"] != pod.job.uid:
            return False  # another one of that name: nothing is known of this pod's
        of_run = f"{JOB_UID_LABEL}={pod.job.uid}"
        if not counts_failed_pods(job) and not follows(
            pod, self._pods(pod.namespace, f"{of_run},{RANK_LABEL}={pod.rank}", PREDECESSORS)
        ):
            return False
        return not was_let_go(pod, self._pods(pod.namespace, of_run, SIBLINGS))

    def _pods(self, namespace: str, labels: str, most: int) -> list[Object]:
        """At most so many, and no further page."""
        query = urlencode({"labelSelector": labels, "limit": most})
        found: list[Object] = self._reader.get(f"{paths.pods(namespace)}?{query}").get("items") or []
        return found
