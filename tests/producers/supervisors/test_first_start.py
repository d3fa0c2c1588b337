"""A pod that replaces one of its epoch waits; whoever cannot be told to be one starts."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from producers.own_pods import OwnPod, read_pod
from producers.supervisors.first_start import FirstStart
from runtime.errors import ApiAway, ApiForbidden, ApiNotFound
from schemas import cluster
from schemas.cluster import Desired, ProcessOrder
from tests.producers.supervisors.supervised import NOW, pod_object

JOB = {"kind": "Job", "name": "train", "uid": "job-1", "controller": True}


def pod_of_job(uid: str = "new", *, rank: str = "3", deleting: bool = False, **more: Any) -> dict[str, Any]:
    pod = pod_object(uid, **more)
    pod["metadata"]["ownerReferences"] = [JOB]
    pod["metadata"]["labels"] = {cluster.RANK_LABEL: rank, cluster.JOB_UID_LABEL: "job-1"}
    if deleting:
        pod["metadata"]["deletionTimestamp"] = "2026-03-01T11:30:00Z"
    return pod


def order(state: ProcessOrder, *, epoch: int = 1, attempt: int = 1) -> str:
    return Desired(epoch=epoch, attempt=attempt, state=state).to_text()


class Api:
    """A Job and its pods; answers what is asked and nothing else."""

    def __init__(self, *pods: dict[str, Any], uid: str = "job-1", **status: Any) -> None:
        self.job = {"metadata": {"uid": uid}, "status": status}
        self.pods = pods
        self.asked: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        if "/jobs/train?" in path:
            return self.job
        assert "/namespaces/team-a/pods?" in path
        assert "limit=" in path
        assert "controller-uid%3Djob-1" in path
        one_index = "completion-index%3D3" in path
        rank = cluster.RANK_LABEL
        return {"items": [p for p in self.pods if not one_index or p["metadata"]["labels"][rank] == "3"]}


def must_wait(api: Any, pod: OwnPod | None = None, within: float = 5.0) -> bool:
    async def ask() -> bool:
        first = FirstStart(api, timedelta(seconds=within))
        try:
            return await first.must_wait(pod or read_pod(pod_of_job(), NOW))
        finally:
            first.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("status", [{"failed": 1}, {"uncountedTerminatedPods": {"failed": ["old"]}}])
def test_a_job_that_counts_a_failed_pod_makes_replacements(status: dict[str, Any]) -> None:
    assert must_wait(Api(pod_of_job(), **status))


@pytest.mark.parametrize("old", [{"phase": "Failed"}, {"deleting": True}], ids=["failed", "going"])
def test_a_failure_that_is_not_counted_is_seen_in_the_pod_before(old: dict[str, Any]) -> None:
    assert must_wait(Api(pod_of_job(), pod_of_job("old", **old), failed=0))


@pytest.mark.parametrize(
    "other",
    [
        {"uid": "new", "phase": "Failed"},
        {"uid": "old", "phase": "Running"},
        {"uid": "old", "phase": "Succeeded"},
        {"uid": "old", "phase": "Failed", "rank": "4"},
        {"uid": "old", "phase": "Failed", "epoch": 2},
        {"uid": "old", "deleting": True, "epoch": 7},
    ],
)
def test_a_pod_of_a_new_issue_starts(other: dict[str, Any]) -> None:
    assert not must_wait(Api(pod_of_job(), pod_of_job(**other)))


def test_a_replacement_in_a_run_that_was_let_go_starts() -> None:
    released = pod_of_job("other", rank="0", desired=order(ProcessOrder.RELEASE))
    assert not must_wait(Api(pod_of_job(), released, failed=1))


@pytest.mark.parametrize(
    "desired",
    [
        order(ProcessOrder.RUN),
        order(ProcessOrder.RELEASE, epoch=1),  # of the epoch before
        "{",
    ],
)
def test_any_other_order_of_a_sibling_lets_nobody_go(desired: str) -> None:
    new = read_pod(pod_of_job(epoch=2), NOW)
    assert must_wait(Api(pod_of_job("other", rank="0", desired=desired), failed=1), new)


def test_an_order_after_the_release_takes_the_run_back() -> None:
    pods = [
        pod_of_job("a", rank="0", desired=order(ProcessOrder.RELEASE)),
        pod_of_job("b", rank="1", desired=order(ProcessOrder.RUN, attempt=2)),
    ]
    assert must_wait(Api(*pods, failed=1))


def test_a_new_pod_of_a_healthy_job_costs_two_small_questions() -> None:
    api = Api(pod_of_job())
    assert not must_wait(api)
    assert len(api.asked) == 2
    assert "resourceVersion=0" in api.asked[0]


class Broken:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def get(self, path: str) -> dict[str, Any]:
        assert path
        raise self.error


@pytest.mark.parametrize("error", [ApiAway("gone"), ApiNotFound("no job"), ApiForbidden("no right")])
def test_what_the_api_does_not_say_holds_nobody(error: Exception) -> None:
    assert not must_wait(Broken(error))


def test_an_api_that_is_slow_holds_nobody() -> None:
    let_go = threading.Event()

    class Slow:
        def get(self, path: str) -> dict[str, Any]:
            assert path
            let_go.wait(10)
            return Api(failed=1).job

    threading.Timer(0.5, let_go.set).start()
    assert not must_wait(Slow(), within=0.1)


def test_another_job_of_that_name_and_a_pod_of_no_job_say_nothing() -> None:
    assert not must_wait(Api(pod_of_job(), uid="job-2", failed=1))
    alone = Api(failed=1)
    assert not must_wait(alone, read_pod(pod_object("new"), NOW))
    assert alone.asked == []
