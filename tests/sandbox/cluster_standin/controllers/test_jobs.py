"""The Job controller in virtual time: what it counts, when it waits, and what it refuses to do half."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import job_pods
from sandbox.cluster_standin.controllers.finished_jobs import FinishedJobs
from sandbox.cluster_standin.controllers.job_failures import judge
from sandbox.cluster_standin.controllers.jobs import Jobs
from sandbox.cluster_standin.controllers.writes import Create, Delete, Kind, Patch
from tests.sandbox.cluster_standin.controllers.objects import World, at, ended, job, pod, stamp


def conditions(item: Object) -> dict[str, str]:
    return {
        one["type"]: one["reason"] for one in item["status"].get("conditions", []) if one["status"] == "True"
    }


def made(world: World) -> list[Object]:
    return world.all(Kind.PODS)


def numbers(item: Object, *names: str) -> dict[str, Any]:
    return {name: item["status"].get(name, 0) for name in names}


def test_a_job_has_one_pod_for_each_index() -> None:
    item = job(3)
    world = World(jobs=[item])

    world.turn(Jobs())

    assert [job_pods.index_of(one) for one in made(world)] == [0, 1, 2]
    assert item["status"]["active"] == 3
    assert item["status"]["startTime"] == stamp(0)


def test_a_job_that_is_as_it_should_be_is_left_alone() -> None:
    controller, world = Jobs(), World(jobs=[job(3)])
    world.turn(controller)
    world.written.clear()

    assert world.turn(controller, 100) is None
    assert world.written == []


def test_a_pod_is_counted_before_it_is_let_go() -> None:
    item = job(1, backoffLimit=3)
    controller, world = Jobs(), World(jobs=[item])
    world.turn(controller)
    ended(made(world)[0], "Failed")
    world.written.clear()

    world.turn(controller, 5)

    changes = [(write.kind, write.change) for write in world.written if isinstance(write, Patch)]
    assert changes[0][0] is Kind.JOBS
    assert changes[0][1]["status"]["uncountedTerminatedPods"]["failed"] == [made(world)[0]["metadata"]["uid"]]
    assert changes[1] == (Kind.PODS, {"metadata": {"finalizers": None}})
    assert item["status"]["failed"] == 1


@pytest.mark.parametrize(("failures", "waits"), [(1, 10), (2, 20), (3, 40)])
def test_the_successor_of_a_failed_pod_waits_longer_each_time(failures: int, waits: int) -> None:
    controller, world = Jobs(), World(jobs=[job(1, backoffLimit=9)])
    second, again = 0.0, None
    for number in range(failures):
        world.turn(controller, second)
        ended(made(world)[-1], "Failed", second=second)
        again = world.turn(controller, second)
        assert again is not None
        if number < failures - 1:
            second = (again - at(0)).total_seconds()

    assert again == at(second + waits)
    assert len(made(world)) == failures  # the successor is not there
    world.turn(controller, second + waits)
    assert len(made(world)) == failures + 1


def test_a_success_ends_the_wait() -> None:
    item = job(2, backoffLimit=9)
    controller, world = Jobs(), World(jobs=[item])
    world.turn(controller)
    first, second = made(world)
    ended(first, "Failed", second=1)
    world.turn(controller, 1)
    ended(second, "Succeeded", 0, second=2)

    assert world.turn(controller, 2) is None
    assert [job_pods.index_of(one) for one in made(world) if job_pods.is_active(one)] == [0]


def test_a_job_that_failed_waits_for_pods_that_end() -> None:
    item = job(2)
    controller, world = Jobs(), World(jobs=[item])
    world.turn(controller)
    for one in made(world):
        one["spec"]["nodeName"] = "node"
    ended(made(world)[0], "Failed")
    world.turn(controller)
    before = conditions(item)
    left = made(world)[1]
    ended(left, "Failed", 143)

    world.turn(controller)

    assert before == {"FailureTarget": "BackoffLimitExceeded"}
    assert conditions(item) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert item["status"]["failed"] == 2  # the one that was deleted counts as well


def test_pods_of_a_suspended_job_are_counted_nowhere() -> None:
    item = job(2)
    controller, world = Jobs(), World(jobs=[item])
    world.turn(controller)
    for one in made(world):
        one["spec"]["nodeName"] = "node"
    item["spec"]["suspend"] = True

    world.turn(controller)

    assert conditions(item) == {"Suspended": "JobSuspended"}
    assert numbers(item, "active", "terminating", "failed") == {"active": 0, "terminating": 2, "failed": 0}
    assert "startTime" not in item["status"]


def test_a_resumed_job_counts_its_deadline_from_then() -> None:
    item = job(1, activeDeadlineSeconds=10, suspend=True)
    controller, world = Jobs(), World(jobs=[item])
    world.turn(controller)
    item["spec"]["suspend"] = False

    again = world.turn(controller, 100)

    assert again == at(110)
    world.turn(controller, 110)
    assert conditions(item)["Failed"] == "DeadlineExceeded"


@pytest.mark.parametrize("field", ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"])
def test_a_field_that_is_not_served_fails_the_job_by_name(field: str) -> None:
    item = job(2)
    item["spec"][field] = 1
    world = World(jobs=[item])

    world.turn(Jobs())

    assert conditions(item)["Failed"] == "NotServedByStandIn"
    assert field in item["status"]["conditions"][-1]["message"]
    assert not [write for write in world.written if isinstance(write, Create)]


def test_a_job_of_another_controller_is_left_to_it() -> None:
    world = World(jobs=[job(2, managedBy="example.com/other")])

    world.turn(Jobs())

    assert world.written == []


def test_a_pod_whose_job_is_gone_is_let_go() -> None:
    item = job(1)
    controller, world = Jobs(), World(jobs=[item])
    world.turn(controller)
    world.objects[Kind.JOBS] = []

    world.turn(controller)

    assert made(world)[0]["metadata"].get("finalizers") is None


def test_a_second_pod_of_an_index_goes_the_younger_first() -> None:
    item = job(1)
    controller, world = Jobs(), World(jobs=[item])
    world.turn(controller)
    (first,) = made(world)
    twin = job_pods.new_pod(item, 0)
    twin["metadata"] |= {"name": "twin", "namespace": "ns", "uid": "twin", "resourceVersion": "99"}
    twin["metadata"]["creationTimestamp"] = stamp(9)
    world.objects[Kind.PODS].append(twin | {"status": {"phase": "Pending"}})

    world.turn(controller, 10)

    assert made(world) == [first]


def test_a_plain_job_is_complete_with_enough_successes() -> None:
    item = job(2, indexed=False, parallelism=2)
    controller, world = Jobs(), World(jobs=[item])
    world.turn(controller)
    for one in made(world):
        ended(one, "Succeeded", 0)

    world.turn(controller)

    assert conditions(item) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert item["status"]["succeeded"] == 2


def test_a_finished_job_goes_when_its_time_is_over() -> None:
    item = job(1, ttlSecondsAfterFinished=60)
    item["status"]["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": stamp(10)}]
    world = World(jobs=[item])

    assert world.turn(FinishedJobs(), 20) == at(70)
    world.turn(FinishedJobs(), 70)

    assert [type(write) for write in world.written] == [Delete]


@pytest.mark.parametrize(
    ("indexes", "text"),
    [({0}, "0"), ({0, 1}, "0,1"), ({0, 1, 2}, "0-2"), ({5, 0, 2, 3, 4}, "0,2-5"), (set(), "")],
)
def test_indexes_are_written_as_kubernetes_writes_them(indexes: set[int], text: str) -> None:
    assert job_pods.indexes_text(indexes) == text
    assert job_pods.indexes_in(text, 10) == indexes


def test_indexes_beyond_the_job_are_left_out() -> None:
    assert job_pods.indexes_in("0-9,x,12", 4) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("code", "counts", "fails"), [(1, True, False), (42, True, True), (7, False, False), (0, True, False)]
)
def test_the_first_rule_that_matches_says_what_an_exit_means(code: int, counts: bool, fails: bool) -> None:
    def on(action: str, *values: int) -> Object:
        return {"action": action, "onExitCodes": {"operator": "In", "values": list(values)}}

    policy = {"rules": [on("Ignore", 7), on("FailJob", 42, 7), on("Count", 1)]}
    one = pod()
    ended(one, "Failed", code)

    found = judge(policy, one)

    assert (found.counts, bool(found.fails_job)) == (counts, fails)


def test_a_long_name_leaves_room_for_the_index_and_the_servers_letters() -> None:
    item = job(1)
    item["metadata"]["name"] = "x" * 63

    prefix = job_pods.new_pod(item, 11)["metadata"]["generateName"]

    assert len(prefix) == 58
    assert prefix.endswith("-11-")
