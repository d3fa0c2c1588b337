"""The watcher before a real control plane, with nodes and processes of ours: what Kubernetes does is told as it is."""

from __future__ import annotations

import os
import signal
import time
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from runtime import paths
from runtime.kubernetes import Cluster, Object
from sandbox.control_plane import NodeLifecycle, Options
from sandbox.kubelet import Kubelet
from schemas.facts import IssueState, NodeGone, NodeSeen, PodBound, PodEnded, RunEnded, RunSeen
from schemas.signals import Eviction, EvictionReason, NodeCondition, ProcessExit
from tests.producers.cluster.looking import Looking
from tests.real.kubernetes import (
    NewCluster,
    NewKubelet,
    client_of,
    make_namespace,
    real_plane_only,
    stand_in_at_length,
)

CHIPS = "huawei.com/Ascend910"
QUICK = Options(
    node_lifecycle=NodeLifecycle(timedelta(seconds=4), timedelta(milliseconds=500), timedelta(seconds=20)),
    unreachable_toleration=timedelta(seconds=1),
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # a minute is short where much else runs


def job_of(name: str, *nodes: Kubelet, size: int, command: str = "sleep 600", **spec: object) -> Object:
    names = [node.name for node in nodes] or ["nowhere"]
    affinity = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [affinity]}}
    container = {
        "name": "train",
        "image": "none",
        "command": ["sh", "-c", command],
        "resources": {"limits": {CHIPS: "8"}},
    }
    pod: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "affinity": {"nodeAffinity": required},
        "containers": [container],
        **{key: spec.pop(key) for key in ("priorityClassName",) if key in spec},
    }
    return {
        "metadata": {"name": name, "annotations": {"fault-tolerance/job-retry-num": "3"}},
        "spec": {
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": pod},
            **spec,
        },
    }


def create(api: Cluster, namespace: str, job: Object) -> str:
    found = api.create(paths.jobs(namespace), job)
    return str(found["metadata"]["uid"])


def test_a_job_from_its_first_sight_to_its_end(api: Cluster, namespace: str, new_kubelet: NewKubelet) -> None:
    nodes = [new_kubelet(devices={CHIPS: 8}) for _ in range(2)]
    with Looking(api) as looking:
        run = create(api, namespace, job_of("train", *nodes, size=2, command="sleep 1"))
        seen = looking.until(RunSeen, run)
        assert (seen.run, seen.size, seen.namespace, seen.supported, seen.supervised) == (
            run,
            2,
            namespace,
            True,
            False,
        )
        assert seen.annotations == {"fault-tolerance/job-retry-num": "3"}
        assert looking.until(IssueState, run, lambda issue: issue.state == "complete").missing == 0
        ended = looking.until(RunEnded, run)
        assert ended.how == "succeeded"
        bound = looking.told(PodBound, run)
        assert sorted(fact.placement.rank or 0 for fact in bound) == [0, 1]
        assert {fact.node.name for fact in bound} == {node.name for node in nodes}
        pods = looking.told(PodEnded, run)
        assert [(fact.how, fact.processes_gone) for fact in pods] == [("succeeded", True)] * 2
        assert [found.exit_code for found in looking.told(ProcessExit, run)] == [0, 0]


@pytest.mark.parametrize(
    ("command", "code", "number"),
    [
        ("exit 7", 7, None),
        ("sh -c 'kill -SEGV $$$$'; exit $?", 139, 11),
        ("sh -c 'kill -KILL $$$$'; exit $?", 137, 9),
    ],
)
def test_a_job_that_fails_tells_the_exit_before_its_end(
    api: Cluster, namespace: str, new_kubelet: NewKubelet, command: str, code: int, number: int | None
) -> None:
    node = new_kubelet(devices={CHIPS: 8})
    with Looking(api) as looking:
        run = create(api, namespace, job_of("train", node, size=1, command=command))
        ended = looking.until(RunEnded, run)
        assert ended.how == "failed"
        assert "BackoffLimitExceeded" in (ended.detail or "")
        (found,) = looking.told(ProcessExit, run)
        assert (found.exit_code, found.signal, found.start, found.oom) == (code, number, 1, False)
        kinds = [type(event.data) for event in looking.events if run in event.data.model_dump_json()]
        assert kinds.index(ProcessExit) < kinds.index(PodEnded) < kinds.index(RunEnded)


def test_a_container_that_runs_out_of_memory_says_so(
    api: Cluster, namespace: str, new_kubelet: NewKubelet
) -> None:
    node = new_kubelet(devices={CHIPS: 8})
    with Looking(api) as looking:
        run = create(api, namespace, job_of("train", node, size=1))
        pod = looking.until(PodBound, run).placement.pod or ""
        _until_it_runs(api, namespace, pod)
        node.run_out_of_memory(namespace, pod, "train")
        found = looking.until(ProcessExit, run)
        assert (found.exit_code, found.oom) == (137, True)


def test_an_eviction_by_the_api_is_told_with_its_reason_and_the_pod_is_replaced(
    api: Cluster, namespace: str, new_kubelet: NewKubelet, tmp_path: Path
) -> None:
    node = new_kubelet(devices={CHIPS: 16})
    # The Job controller waits before it makes a pod anew, and forgets that once a pod of the Job succeeds: rank 1 is there for that.
    enough = tmp_path / "enough"
    command = f"[ $JOB_COMPLETION_INDEX = 1 ] || exec sleep 600; until [ -e {enough} ]; do sleep 0.05; done"
    job = job_of("train", node, size=2, command=command, backoffLimit=0)
    job["spec"]["podFailurePolicy"] = {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    }
    with Looking(api) as looking:
        run = create(api, namespace, job)
        first = looking.until(PodBound, run, lambda fact: fact.placement.rank == 0).placement
        looking.until(IssueState, run, lambda issue: issue.state == "complete")
        _until_it_runs(api, namespace, first.pod or "")
        _evict(api, namespace, first.pod or "")
        found = looking.until(Eviction, run)
        assert (found.reason, found.ours, found.draining) == (EvictionReason.EVICTION_API, False, False)
        assert found.placement.pod_uid == first.pod_uid
        ended = looking.until(PodEnded, run)
        assert ended.placement.pod_uid == first.pod_uid
        assert ended.processes_gone  # the kubelet's word, before the object went
        enough.touch()
        known = {fact.placement.pod_uid for fact in looking.told(PodBound, run)}
        second = looking.until(PodBound, run, lambda fact: fact.placement.pod_uid not in known)
        assert second.placement.rank == 0
        assert not looking.told(ProcessExit, first.pod_uid or "")
        states = [issue.state for issue in looking.told(IssueState, run)]
        looking.until(IssueState, run, lambda issue: issue.state == "incomplete")
        assert states[:2] == ["incomplete", "complete"]


def test_a_drained_node_evicts_as_a_drain(api: Cluster, namespace: str, new_kubelet: NewKubelet) -> None:
    node = new_kubelet(devices={CHIPS: 8})
    with Looking(api) as looking:
        run = create(api, namespace, job_of("train", node, size=1))
        pod = looking.until(PodBound, run).placement.pod or ""
        api.patch(paths.nodes(node.name), {"spec": {"unschedulable": True}}, manager="kubectl-cordon")
        looking.until(NodeSeen, node.name, lambda seen: seen.cordoned)
        _evict(api, namespace, pod)
        assert looking.until(Eviction, run).draining


@real_plane_only("priorities are the real scheduler's own")
def test_a_pod_preempted_by_the_scheduler_says_so(
    api: Cluster, namespace: str, new_kubelet: NewKubelet
) -> None:
    name = f"high-{uuid.uuid4().hex[:8]}"
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    node = new_kubelet(devices={CHIPS: 8})
    try:
        with Looking(api) as looking:
            run = create(api, namespace, job_of("low", node, size=1))
            looking.until(PodBound, run)
            create(api, namespace, job_of("high", node, size=1, priorityClassName=name))
            assert looking.until(Eviction, run).reason is EvictionReason.SCHEDULER
    finally:
        api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def test_suspend_and_resume_is_one_run_with_two_issues(
    api: Cluster, namespace: str, new_kubelet: NewKubelet
) -> None:
    node = new_kubelet(devices={CHIPS: 8})
    job_path = paths.jobs(namespace, "train")
    with Looking(api) as looking:
        run = create(api, namespace, job_of("train", node, size=1))
        looking.until(IssueState, run, lambda issue: issue.state == "complete")
        api.patch(job_path, {"spec": {"suspend": True}})
        looking.until(RunSeen, run, lambda seen: seen.suspended)
        looking.until(PodEnded, run)
        _until_suspended(api, job_path)
        marks = {"relight.dev/epoch": "2"}
        resume = {"metadata": {"annotations": marks}, "spec": {"suspend": False}}
        api.patch(job_path, resume)
        assert (
            looking.until(RunSeen, run, lambda seen: seen.epoch == 2 and not seen.suspended).object_uid == run
        )
        looking.until(IssueState, run, lambda issue: (issue.epoch, issue.state) == (2, "complete"))
        assert not looking.told(RunEnded, run)
        api.delete(job_path)
        assert looking.until(RunEnded, run).how == "deleted"


def test_a_user_who_deletes_in_the_foreground_ends_the_run_before_its_pods(
    api: Cluster, namespace: str, new_kubelet: NewKubelet
) -> None:
    node = new_kubelet(devices={CHIPS: 8})
    with Looking(api) as looking:
        run = create(
            api,
            namespace,
            job_of("train", node, size=1, command="trap 'exit 3' TERM; while true; do sleep 0.1; done"),
        )
        pod = looking.until(PodBound, run).placement.pod or ""
        _until_it_runs(api, namespace, pod)
        api.delete(paths.jobs(namespace, "train"), propagation="Foreground")
        assert looking.until(RunEnded, run).how == "deleted"
        looking.until(PodEnded, run)
        assert not looking.told(ProcessExit, run)


@pytest.mark.parametrize(
    ("manager", "others", "by"),
    [
        ("kubectl-taint", True, "kubectl-taint"),
        ("kubectl-taint", False, "unknown"),
        ("relight", True, None),
        ("kube-controller-manager", True, None),
    ],
    ids=["human, another taint left", "human, none left", "we", "controller"],
)
def test_who_took_our_taint_off_is_read_from_the_object(
    api: Cluster, manager: str, others: bool, by: str | None
) -> None:
    """Of a Node object alone: no kubelet, so that nobody else writes it."""
    name = f"taint-{uuid.uuid4().hex[:8]}"
    ours, other = (
        {"key": "relight.dev/isolated", "effect": "NoSchedule"},
        {"key": "team/x", "effect": "NoSchedule"},
    )
    path = paths.nodes(name)
    api.create(paths.nodes(), {"metadata": {"name": name}, "spec": {"taints": [other] if others else []}})
    try:
        with Looking(api) as looking:
            taints = [*_taints(api, path), ours]
            isolate = {
                "metadata": {"annotations": {"relight.dev/isolated": "cause"}},
                "spec": {"taints": taints},
            }
            api.patch(path, isolate, manager="relight")
            looking.until(NodeSeen, name, lambda seen: seen.our_taint)
            _until_the_next_second()  # times of managers have whole ones
            left = [taint for taint in _taints(api, path) if taint["key"] != ours["key"]] if others else None
            api.patch(path, {"spec": {"taints": left}}, manager=manager)
            looking.until(NodeSeen, name, lambda seen: seen.our_taint)
            last = looking.until(
                NodeSeen, name, lambda seen: not seen.our_taint and seen in _after(looking, name)
            )
            assert last.released_by == by
    finally:
        api.delete(path)


@stand_in_at_length("a cluster of its own, and the times of nodes")
def test_a_node_that_falls_silent_takes_its_pods_with_it(
    new_cluster: NewCluster, new_kubelet: NewKubelet
) -> None:
    plane = new_cluster(QUICK)
    admin = client_of(plane)
    namespace = make_namespace(admin, "team")
    nodes = [new_kubelet(name, plane=plane, devices={CHIPS: 8}) for name in ("a", "b")]
    with Looking(admin) as looking:
        run = create(admin, namespace, job_of("train", *nodes, size=2))
        looking.until(IssueState, run, lambda issue: issue.state == "complete")
        silent = nodes[0]
        silent.cut_power()
        signal_ = looking.until(NodeCondition, silent.name)
        assert (signal_.condition, signal_.state.value) == ("unreachable", "asserted")
        looking.until(NodeSeen, silent.name, lambda seen: not seen.ready)
        found = looking.until(Eviction, run)
        assert (found.reason, found.node.name) == (EvictionReason.TAINT_MANAGER, silent.name)
        assert not [fact for fact in looking.told(PodEnded, run) if fact.node.name == silent.name]
        admin.delete(paths.nodes(silent.name))
        assert looking.until(NodeGone, silent.name).node.uid == signal_.node.uid
        looking.until(NodeCondition, silent.name, lambda found: found.condition == "gone")
        where = (
            found.placement
        )  # its object stays for a minute; somebody sure of himself takes it away by force
        admin.delete(paths.pods(namespace, where.pod or ""), uid=where.pod_uid or "", grace=0)
        ended = looking.until(PodEnded, run, lambda fact: fact.node.name == silent.name)
        assert (ended.how, ended.processes_gone) == ("deleted", False)


@stand_in_at_length("a cluster of its own, and the times of nodes")
def test_a_node_that_comes_back_is_cleared_and_one_with_another_uid_is_another(
    new_cluster: NewCluster, new_kubelet: NewKubelet
) -> None:
    plane = new_cluster(QUICK)
    admin = client_of(plane)
    node = new_kubelet("a", plane=plane, devices={CHIPS: 8})
    with Looking(admin) as looking:
        node.stop_heartbeats()
        looking.until(NodeCondition, "unreachable")
        node.resume_heartbeats()
        cleared = looking.until(NodeCondition, "cleared")
        assert cleared.condition == "unreachable"
        uid = node.come_back_as_another(admin)
        assert looking.until(NodeGone, "a").node.uid == cleared.node.uid
        assert looking.until(NodeSeen, uid).node.name == "a"


@real_plane_only("the stand-in keeps nothing when it dies")
def test_an_api_server_that_stops_and_one_that_dies_hide_nothing(
    new_cluster: NewCluster, new_kubelet: NewKubelet
) -> None:
    plane = new_cluster(QUICK)
    admin = client_of(plane)
    namespace = make_namespace(admin, "team")
    node = new_kubelet("a", plane=plane, devices={CHIPS: 16})
    with Looking(admin) as looking:
        first = create(admin, namespace, job_of("one", node, size=1))
        looking.until(IssueState, first, lambda issue: issue.state == "complete")
        api_pid = plane.api_server.pid
        os.kill(api_pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(api_pid, signal.SIGCONT)
        second = create(admin, namespace, job_of("two", node, size=1))
        looking.until(IssueState, second, lambda issue: issue.state == "complete")
        plane.api_server.kill()
        time.sleep(1)
        plane.api_server.start()
        admin.delete(paths.jobs(namespace, "one"))
        assert looking.until(RunEnded, first).how == "deleted"
        looking.until(PodEnded, first)
        assert not looking.told(RunEnded, second)
        assert not looking.told(PodEnded, second)


def test_what_happened_while_no_watcher_lived_is_told_by_the_next(
    api: Cluster, namespace: str, new_kubelet: NewKubelet
) -> None:
    node = new_kubelet(devices={CHIPS: 16})
    with Looking(api) as looking:
        gone = create(api, namespace, job_of("gone", node, size=1))
        stays = create(api, namespace, job_of("stays", node, size=1))
        for run in (gone, stays):
            looking.until(IssueState, run, lambda issue: issue.state == "complete")
        pod = looking.told(PodBound, gone)[0].placement
    api.delete(paths.jobs(namespace, "gone"))
    _until_gone(api, namespace, pod.pod or "")
    with Looking(api, looking) as successor:
        assert successor.until(PodEnded, gone).how == "lost"
        assert successor.until(RunEnded, gone).how == "deleted"
        assert not [event for event in successor.events if stays in event.data.model_dump_json()]
        assert successor.book().runs[stays].ended is None


# ------------------------------------------------------------ looks


def _until_the_next_second() -> None:
    began = int(time.time())
    while int(time.time()) == began:
        time.sleep(0.02)


def _after(looking: Looking, name: str) -> list[NodeSeen]:
    """What was told of a node after it was isolated."""
    seen = looking.told(NodeSeen, name)
    first = next(place for place, each in enumerate(seen) if each.our_taint)
    return seen[first:]


def _taints(api: Cluster, path: str) -> list[Object]:
    return list(api.get(path)["spec"].get("taints") or [])


def _evict(api: Cluster, namespace: str, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    api.create(paths.eviction(namespace, pod), body)


def _until_it_runs(api: Cluster, namespace: str, pod: str) -> None:
    ends = time.monotonic() + 20
    while api.get(paths.pods(namespace, pod))["status"]["phase"] != "Running":
        assert time.monotonic() < ends
        time.sleep(0.05)


def _until_suspended(api: Cluster, path: str) -> None:
    ends = time.monotonic() + 20
    while api.get(path)["status"].get("active") or api.get(path)["status"].get("terminating"):
        assert time.monotonic() < ends
        time.sleep(0.05)


def _until_gone(api: Cluster, namespace: str, pod: str) -> None:
    ends = time.monotonic() + 20
    while any(item["metadata"]["name"] == pod for item in api.list(paths.pods(namespace)).items):
        assert time.monotonic() < ends
        time.sleep(0.05)
