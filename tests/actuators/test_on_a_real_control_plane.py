"""What the scripted API believes of the real one, and the steps on it: conditions of writes, identity by UID, Events."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actuators.world import Budget, TimedApi
from runtime import paths
from runtime.errors import ApiConflict, ApiInvalid
from runtime.kubernetes import Cluster, Object
from schemas.cluster import DESIRED, REPAIRED, Desired, ProcessOrder, RepairAnswer, unit_key
from schemas.commands import Command, OutcomeResult, StepName
from tests.actuators.real_job import make_job, pods_of, wait_until
from tests.actuators.real_scene import RealScene, command


def stop(job: Object, **given: Any) -> Command:
    until = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    return command(
        job,
        StepName.STOP_PROCESSES,
        arguments={"until": until, "grace_seconds": 30, "otherwise": "rerun"},
        **given,
    )


def desired(pod: Object) -> Desired | None:
    text = (pod["metadata"].get("annotations") or {}).get(DESIRED)
    return None if text is None else Desired.from_text(text)


def test_stop_start_and_release_stand_on_every_pod_of_a_real_job(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 3)

    for order, state in (
        (stop(job), ProcessOrder.STOP),
        (command(job, StepName.START_PROCESSES), ProcessOrder.RUN),
        (command(job, StepName.RELEASE_JOB), ProcessOrder.RELEASE),
    ):
        outcome = scene.perform(order)
        assert (outcome.result, outcome.cause) == (OutcomeResult.DONE, None), outcome
        assert [told.state for pod in pods_of(api, job) if (told := desired(pod))] == [state] * 3

    assert scene.perform(stop(job)).cause == "superseded"


def test_the_same_command_twice_writes_nothing_the_second_time(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 3)
    # The scheduler's word on them is a write as well.
    wait_until(lambda: all(pod["status"].get("conditions") for pod in pods_of(api, job)))
    order = stop(job)
    scene.perform(order)
    before = {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in pods_of(api, job)}

    assert scene.perform(order).told == 3
    after = {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in pods_of(api, job)}
    assert after == before


@pytest.mark.parametrize("wrong", [("resourceVersion",), ("uid", "resourceVersion")])
def test_a_merge_patch_of_what_is_another_version_or_object_by_now_is_a_conflict_and_writes_nothing(
    api: Cluster, namespace: str, wrong: tuple[str, ...]
) -> None:
    job = make_job(api, namespace, 1)
    path = paths.jobs(namespace, "train")
    seen = api.get(path)["metadata"]
    conditions = {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
    conditions |= dict.fromkeys(wrong, "12345")

    with pytest.raises(ApiConflict):
        api.patch(path, {"metadata": {**conditions, "annotations": {"a": "b"}}}, manager="relight")

    assert "a" not in (api.get(path)["metadata"].get("annotations") or {})
    assert job["metadata"]["uid"] == seen["uid"]


def test_with_the_uid_alone_wrong_nothing_is_written_either(api: Cluster, namespace: str) -> None:
    make_job(api, namespace, 1)
    path = paths.jobs(namespace, "train")
    version = api.get(path)["metadata"]["resourceVersion"]
    change = {"metadata": {"uid": "12345", "resourceVersion": version, "annotations": {"a": "b"}}}

    with pytest.raises((ApiConflict, ApiInvalid)):  # jobs say invalid: the version is what tells them apart
        api.patch(path, change, manager="relight")

    assert "a" not in (api.get(path)["metadata"].get("annotations") or {})


def say_it_ended(api: Cluster, pod: Object, at: datetime) -> None:
    """As its kubelet would; the Job controller makes it anew ten seconds after that."""
    terminated = {"exitCode": 1, "reason": "Error", "finishedAt": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    main = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Failed", "containerStatuses": [{**main, "state": {"terminated": terminated}}]}
    path = paths.status(paths.pods(pod["namespace"], pod["name"]))
    api.patch(path, {"status": status}, manager="kubelet")


def bare_pod(name: str) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"},
    }


def test_a_pod_made_anew_under_its_name_is_not_told(scene: RealScene, api: Cluster, namespace: str) -> None:
    path = paths.pods(namespace, "twin")
    first = api.create(paths.pods(namespace), bare_pod("twin"))
    api.delete(path, uid=first["metadata"]["uid"], grace=0)
    second = api.create(paths.pods(namespace), bare_pod("twin"))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    timed = TimedApi(scene.api, Budget(5, time.monotonic))

    with pytest.raises(ApiConflict):
        timed.merge(first, path, {"metadata": {"annotations": {DESIRED: "{}"}}})

    assert desired(api.get(path)) is None


def test_a_job_made_anew_under_its_name_is_not_told(scene: RealScene, api: Cluster, namespace: str) -> None:
    first = make_job(api, namespace, 1)
    order = stop(first)
    api.delete(paths.jobs(namespace, "train"))
    wait_until(lambda: not pods_of(api, first))
    second = make_job(api, namespace, 1)

    assert scene.perform(order).cause == "other_object"
    assert [desired(pod) for pod in pods_of(api, second)] == [None]


@pytest.mark.slow
def test_a_pod_that_joined_later_is_told_by_a_look(scene: RealScene, api: Cluster, namespace: str) -> None:
    job = make_job(api, namespace, 2)
    scene.perform(stop(job))
    victim = pods_of(api, job)[0]["metadata"]
    say_it_ended(api, victim, datetime.now(UTC) - timedelta(minutes=1))
    api.delete(paths.pods(namespace, victim["name"]), uid=victim["uid"], grace=0)
    wait_until(lambda: len({pod["metadata"]["uid"] for pod in pods_of(api, job)} - {victim["uid"]}) == 2)
    wait_until(lambda: len(pods_of(api, job)) == 2)

    outcome = scene.perform(stop(job, action="look", look=1))

    assert (outcome.result, outcome.told) == (OutcomeResult.DONE, 2)
    assert all(desired(pod) for pod in pods_of(api, job))


def test_an_event_is_there_once_for_whoever_describes_the_job(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1)
    order = stop(job)
    scene.perform(order)
    scene.perform(order)

    events = api.list(paths.events(namespace), fields=f"involvedObject.uid={job['metadata']['uid']}").items
    ours = [event for event in events if event["reason"] == "StoppingProcesses"]
    assert [event["message"] for event in ours] == [
        "Stopping the processes of 1 pod, containers stay: a test"
    ]
    assert scene.announcer.lost == 0


def test_a_repair_is_ordered_and_answered_on_a_real_node(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1)
    name = f"node-{namespace}"[:60].rstrip("-")
    node = api.create(paths.nodes(), {"metadata": {"name": name}})
    uid = node["metadata"]["uid"]
    unit = "0000:05:00.0"
    chips = [{"node": uid, "node_name": name, "chip": "c", "unit": unit, "code": "xid/48", "heal": "reset"}]
    order = command(job, StepName.HEAL_CHIPS, arguments={"chips": chips})
    try:
        assert scene.perform(order).cause == "not_stopped"
        scene.perform(stop(job))
        assert scene.perform(order).cause == "repairing"
        answer = RepairAnswer(unit=unit, incident="incident-1", attempt=1, result="healed").to_text()
        api.patch(
            paths.nodes(name),
            {"metadata": {"annotations": {unit_key(REPAIRED, unit): answer}}},
            manager="agent",
        )
        assert scene.perform(order.model_copy(update={"action": "look"})).result is OutcomeResult.DONE

        api.delete(paths.nodes(name), uid=uid)
        api.create(paths.nodes(), {"metadata": {"name": name}})
        assert scene.perform(order).cause == "other_node"
    finally:
        api.delete(paths.nodes(name))
