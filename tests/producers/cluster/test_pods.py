"""What is told of pods: where they are bound, how they end, whose word it is that their processes are gone, and exits in the kubelet's words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from producers.cluster.exits import UNNUMBERED
from producers.told_ends import container_end_id
from runtime.informer import Difference
from runtime.kubernetes import Object
from schemas.cluster import EVICTED_FOR, INJECTED
from schemas.facts import NodeGone, PodBound, PodEnded, RunSeen
from schemas.signals import Eviction, EvictionReason, PreemptionNotice, ProcessExit
from tests.producers.cluster.objects import (
    START,
    FakeCluster,
    make_job,
    make_node,
    make_pod,
    stamp,
    terminated,
)

Edit = Callable[[Object], None]


def running(*, supervised: bool = False, job: Object | None = None) -> FakeCluster:
    """A run of one pod on node n1."""
    cluster = FakeCluster()
    job = job or make_job("t", "j", size=1)
    if supervised:
        job["spec"]["template"]["metadata"]["annotations"][INJECTED] = "1"
    cluster.put(make_node("n1", "node-1"), make_node("n2", "node-2"), job, make_pod(job, "p", node="n1"))
    return cluster


def ends(cluster: FakeCluster) -> list[tuple[str, bool]]:
    return [(fact.how, fact.processes_gone) for fact in cluster.of(PodEnded)]


def status(phase: str, *containers: Object, **more: object) -> Edit:
    return lambda pod: pod["status"].update(phase=phase, containerStatuses=list(containers), **more)


def deleting(pod: Object) -> None:
    pod["metadata"]["deletionTimestamp"] = stamp(START)


def disrupted(reason: str, at: str = stamp(START)) -> Edit:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": at}
    return lambda pod: pod["status"]["conditions"].append(condition)


# ------------------------------------------------------------ bound


def test_a_pod_is_bound_once_with_its_run_rank_epoch_and_the_nodes_uid() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j", metadata={"annotations": {"relight.dev/run": "r"}})
    cluster.put(make_node("n1", "node-1"), job)
    at = START + timedelta(seconds=7)
    cluster.put(make_pod(job, "p", node="n1", rank=5, epoch="2", at=at))
    cluster.change("p", lambda pod: pod["metadata"]["annotations"].update({"relight.dev/epoch": "3"}))
    (telling,) = [told for told in cluster.told if isinstance(told.payload, PodBound)]
    fact = telling.payload
    assert isinstance(fact, PodBound)
    assert (fact.placement.run, fact.placement.rank, fact.placement.epoch) == ("r", 5, 2)
    assert (fact.node.uid, fact.placement.pod_uid, telling.time) == ("node-1", "p", at)


def test_a_pod_waits_for_its_node_and_for_its_run() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j")
    cluster.put(make_pod(job, "p", node="n1"))
    cluster.put(make_node("n1", "node-1"))
    assert not cluster.of(PodBound)
    cluster.put(job)
    assert len(cluster.of(PodBound)) == 1
    cluster.put(make_pod(job, "q", node="n2", rank=1))
    assert len(cluster.of(PodBound)) == 1
    cluster.put(make_node("n2", "node-2"))
    assert [fact.node.uid for fact in cluster.of(PodBound)] == ["node-1", "node-2"]


def test_a_pod_that_was_bound_before_the_node_was_made_lived_on_another_of_that_name() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j")
    node = make_node("n1", "node-9")
    node["metadata"]["creationTimestamp"] = stamp(START + timedelta(minutes=5))
    cluster.put(job, node, make_pod(job, "p", node="n1", at=START))
    assert not cluster.of(PodBound)


def test_a_node_that_comes_back_under_another_uid_inherits_no_pod() -> None:
    cluster = running()
    cluster.remove("node-1")
    node = make_node("n1", "node-9")
    node["metadata"]["creationTimestamp"] = stamp(START + timedelta(minutes=5))
    cluster.put(node)
    cluster.remove("p")
    assert [fact.node.uid for fact in cluster.of(PodBound)] == ["node-1"]
    assert [fact.node.uid for fact in cluster.of(PodEnded)] == ["node-1"]
    assert [fact.node.uid for fact in cluster.of(NodeGone)] == ["node-1"]


def test_a_pod_of_no_job_we_know_is_not_told() -> None:
    cluster = FakeCluster()
    cluster.put(make_node("n1", "node-1"), make_pod(make_job("other", "unknown"), "p", node="n1"))
    assert not cluster.of(PodBound)


# ------------------------------------------------------------ ended


def test_the_kubelets_word_on_every_container_is_proof() -> None:
    cluster = running()
    cluster.change("p", status("Succeeded", terminated(0, reason="Completed")))
    assert ends(cluster) == [("succeeded", True)]


@pytest.mark.parametrize(
    "containers",
    [
        [],
        [{"name": "train", "state": {"running": {}}}],
        [{"name": "train", "state": {"waiting": {"reason": "ContainerCreating"}}}],
        [terminated(1), {"name": "sidecar", "state": {"running": {}}}],
    ],
    ids=["nothing said", "said to run", "said to wait", "one of two"],
)
def test_a_phase_the_control_plane_wrote_proves_nothing(containers: list[Object]) -> None:
    cluster = running()
    cluster.change("p", status("Failed", *containers))
    assert ends(cluster) == [("failed", False)]


def test_a_sidecar_that_still_runs_is_a_process() -> None:
    cluster = running()
    sidecar = {"name": "log", "state": {"running": {}}}
    cluster.change("p", status("Failed", terminated(1), initContainerStatuses=[sidecar]))
    assert ends(cluster) == [("failed", False)]


def test_proof_that_comes_later_is_told() -> None:
    cluster = running()
    cluster.change("p", status("Failed"))
    cluster.change("p", status("Failed", terminated(137)))
    cluster.change("p", lambda pod: pod["metadata"].update(annotations={"x": "y"}))
    cluster.remove("p")
    assert ends(cluster) == [("failed", False), ("failed", True)]


def test_an_object_that_vanished_proves_nothing() -> None:
    cluster = running()
    cluster.remove("p")
    assert ends(cluster) == [("lost", False)]


def test_a_pod_that_is_being_deleted_has_not_ended() -> None:
    cluster = running()
    cluster.change("p", deleting)
    assert ends(cluster) == []
    cluster.remove("p")
    assert ends(cluster) == [("deleted", False)]


def test_a_pod_collected_with_its_node_was_lost() -> None:
    cluster = running()
    cluster.change("p", disrupted("DeletionByPodGC"))
    cluster.change("p", status("Failed"))
    assert ends(cluster) == [("lost", False)]


def test_a_pod_ends_on_the_node_it_was_bound_to_although_the_node_is_gone() -> None:
    cluster = running()
    cluster.remove("node-1")
    cluster.remove("p")
    assert [fact.node.uid for fact in cluster.of(PodEnded)] == ["node-1"]


def test_a_pod_that_was_never_bound_ends_unsaid() -> None:
    cluster = FakeCluster()
    job = make_job("t", "j")
    cluster.put(job, make_pod(job, "p"))
    cluster.remove("p")
    assert not cluster.of(PodEnded)


# ------------------------------------------------------------ exits


def exits(cluster: FakeCluster) -> list[tuple[int, int, int | None, bool]]:
    return [(each.start, each.exit_code, each.signal, each.oom) for each in cluster.of(ProcessExit)]


def test_an_exit_of_an_unsupervised_process_is_the_kubelets_word() -> None:
    cluster = running()
    at = START + timedelta(seconds=3)
    cluster.change("p", status("Failed", terminated(139, at=at)))
    assert exits(cluster) == [(1, 139, 11, False)]
    order = [type(told.payload) for told in cluster.told]
    assert order.index(ProcessExit) < order.index(PodEnded)
    (told,) = [told for told in cluster.told if isinstance(told.payload, ProcessExit)]
    assert told.time == at
    assert told.payload.placement.container == "train"  # type: ignore[attr-defined]


def test_each_start_of_a_container_has_an_end_of_its_own() -> None:
    cluster = running()
    first = {**terminated(1), "restartCount": 0}
    cluster.change("p", status("Running", first))
    again = {"name": "train", "restartCount": 1, "state": {"running": {}}, "lastState": first["state"]}
    cluster.change("p", status("Running", again))
    cluster.change("p", status("Running", {**terminated(2), "restartCount": 1, "lastState": first["state"]}))
    assert exits(cluster) == [(1, 1, None, False), (2, 2, None, False)]


def test_a_restart_nobody_saw_is_told_from_what_the_kubelet_remembers() -> None:
    cluster = running()
    before = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": stamp(START)}}
    cluster.change(
        "p",
        status(
            "Running", {"name": "train", "restartCount": 4, "state": {"running": {}}, "lastState": before}
        ),
    )
    assert exits(cluster) == [(4, 137, 9, True)]


@pytest.mark.parametrize(
    "edit", [deleting, disrupted("EvictionByEvictionAPI")], ids=["being deleted", "being evicted"]
)
def test_the_end_of_a_pod_that_is_taken_away_is_no_exit_of_its_own(edit: Edit) -> None:
    cluster = running()
    cluster.change("p", edit)
    cluster.change("p", status("Failed", terminated(143)))
    assert exits(cluster) == []


def test_a_supervised_exit_is_left_to_the_supervisor() -> None:
    cluster = running(supervised=True)
    cluster.change("p", status("Failed", terminated(1)))
    assert exits(cluster) == []


@pytest.mark.parametrize("reason", ["OOMKilled", "Error"])
def test_what_kills_the_supervisor_with_its_child_is_the_kubelets_word(reason: str) -> None:
    cluster = running(supervised=True)
    cluster.change("p", status("Failed", terminated(137, reason=reason)))
    assert exits(cluster) == [(1, 137, 9, reason == "OOMKilled")]


def agent_pod(*, ready: str, since: datetime) -> Object:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": stamp(since)}
    return {"metadata": {"uid": "a"}, "spec": {"nodeName": "n1"}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("ready", "silent_for", "told"),
    [
        ("True", timedelta(hours=1), []),
        ("False", timedelta(seconds=30), []),  # it is being replaced, and tells what it missed
        ("False", timedelta(seconds=61), [(UNNUMBERED + 1, 137, 9, True)]),
        ("Unknown", timedelta(seconds=61), [(UNNUMBERED + 1, 137, 9, True)]),
    ],
)
def test_beside_an_agent_what_kills_a_supervisor_is_the_agents_to_tell_unless_it_is_silent(
    ready: str, silent_for: timedelta, told: list[tuple[int, int, int, bool]]
) -> None:
    cluster = running(supervised=True)
    agent = agent_pod(ready=ready, since=cluster.now - silent_for)
    cluster.translator.agent(Difference(None, agent))
    cluster.change("p", status("Running", terminated(137, reason="OOMKilled")))
    cluster.change("p", status("Failed", terminated(137, reason="OOMKilled")))
    assert exits(cluster) == told


def test_beside_a_silent_agent_each_end_of_a_container_is_told_once() -> None:
    cluster = running(supervised=True)
    cluster.translator.agent(Difference(None, agent_pod(ready="False", since=START - timedelta(hours=1))))
    killed = terminated(137)
    again = {**killed, "restartCount": 1, "lastState": killed["state"]}
    for container in (killed, again, {**again, "image": "other"}):
        cluster.change("p", status("Running", container))
    assert [start for start, *_ in exits(cluster)] == [UNNUMBERED + 1, UNNUMBERED + 2]


def test_an_agent_that_went_is_not_known_to_speak() -> None:
    cluster = running(supervised=True)
    agent = agent_pod(ready="True", since=START)
    cluster.translator.agent(Difference(None, agent))
    cluster.translator.agent(Difference(agent, None))
    cluster.change("p", status("Failed", terminated(137)))
    assert exits(cluster) == [(1, 137, 9, False)]


def test_whoever_tells_the_end_of_a_supervised_container_tells_one_event() -> None:
    cluster = running(supervised=True)
    cluster.change("p", status("Failed", terminated(137)))
    (told,) = [each for each in cluster.told if isinstance(each.payload, ProcessExit)]
    assert told.id == container_end_id("test", "p", 0)


def test_the_end_of_a_sidecar_is_not_the_runs() -> None:
    job = make_job("t", "j", size=1)
    cluster = running(job=job)
    pod = make_pod(job, "q", node="n1")
    pod["spec"]["containers"].insert(0, {"name": "proxy", "resources": {"limits": {"cpu": "1"}}})
    cluster.put(pod)
    cluster.change("q", status("Running", {**terminated(3), "name": "proxy"}))
    assert exits(cluster) == []


def test_an_exit_is_the_same_event_after_a_restart_of_the_watcher() -> None:
    cluster = running()
    cluster.change("p", status("Running", terminated(1)))
    before = [told.id for told in cluster.told if isinstance(told.payload, ProcessExit)]
    again = cluster.restart(remembers=False)
    assert [told.id for told in again if isinstance(told.payload, ProcessExit)] == before
    assert not [told for told in cluster.restart() if isinstance(told.payload, ProcessExit)]


# ------------------------------------------------------------ evictions


@pytest.mark.parametrize(
    "reason", [reason for reason in EvictionReason if reason is not EvictionReason.QUEUE]
)
def test_an_eviction_has_the_reason_kubernetes_wrote_once(reason: EvictionReason) -> None:
    cluster = running()
    cluster.change("p", disrupted(reason.value))
    cluster.change("p", deleting)
    cluster.remove("p")
    (found,) = cluster.of(Eviction)
    assert (found.reason, found.ours, found.draining, found.requeued) == (reason, False, False, False)
    assert (found.placement.run, found.node.uid) == ("j", "node-1")
    order = [type(told.payload) for told in cluster.told]
    assert order.index(Eviction) < order.index(PodEnded)


def test_a_reason_of_somebody_else_is_no_eviction_we_know() -> None:
    cluster = running()
    cluster.change("p", disrupted("ScaledDownByTeam"))
    assert not cluster.of(Eviction)


def test_a_deletion_by_a_user_is_no_eviction() -> None:
    cluster = running()
    cluster.change("p", deleting)
    cluster.remove("p")
    assert not cluster.of(Eviction)


def test_our_mark_makes_an_eviction_ours() -> None:
    cluster = running()
    cluster.change("p", lambda pod: pod["metadata"]["annotations"].update({EVICTED_FOR: "incident"}))
    cluster.change("p", disrupted("EvictionByEvictionAPI"))
    assert [found.ours for found in cluster.of(Eviction)] == [True]


@pytest.mark.parametrize(
    ("spec", "annotations", "draining"),
    [
        ({"unschedulable": True}, {}, True),
        ({"unschedulable": True}, {"relight.dev/isolated": "x"}, False),
        (
            {"unschedulable": True, "taints": [{"key": "relight.dev/isolated", "effect": "NoSchedule"}]},
            {},
            False,
        ),
        ({}, {}, False),
    ],
    ids=["cordoned by somebody", "our mark", "our taint", "open"],
)
def test_an_eviction_from_a_node_somebody_else_cordoned_is_a_drain(
    spec: Object, annotations: Object, draining: bool
) -> None:
    cluster = running()
    cluster.change("node-1", lambda node: node.update(spec=spec))
    cluster.change("node-1", lambda node: node["metadata"].update(annotations=annotations))
    cluster.change("p", disrupted("EvictionByEvictionAPI"))
    assert [found.draining for found in cluster.of(Eviction)] == [draining]


def test_a_queue_that_suspends_its_job_preempts_its_pods_and_puts_it_back() -> None:
    job = make_job("t", "j", size=1, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
    cluster = running(job=job)
    cluster.change("j", lambda item: item["spec"].update(suspend=True))
    cluster.change("p", deleting)
    (found,) = cluster.of(Eviction)
    assert (found.reason, found.requeued) == (EvictionReason.QUEUE, True)


def test_a_suspend_without_a_queue_is_no_preemption() -> None:
    cluster = running()
    cluster.change("j", lambda item: item["spec"].update(suspend=True))
    cluster.change("p", deleting)
    assert not cluster.of(Eviction)


# ------------------------------------------------------------ preemption

SPOT = "aws-node-termination-handler/spot-itn"


def _taint(*, since: bool = True) -> Edit:
    taint = {"key": SPOT, "effect": "NoSchedule", **({"timeAdded": stamp(START)} if since else {})}
    return lambda node: node["spec"].update(taints=[taint])


@pytest.mark.parametrize("since", [True, False])
def test_a_node_the_cloud_takes_away_is_told_to_its_runs_once_with_the_deadline(*, since: bool) -> None:
    cluster = running()
    cluster.change("node-1", _taint(since=since))
    cluster.pass_time(5)
    cluster.change("node-1", lambda node: node["metadata"]["labels"].update(x="y"))
    (found,) = cluster.of(PreemptionNotice)
    assert found.placement is not None
    assert found.node is not None
    assert (found.placement.run, found.node.uid, found.by) == ("j", "node-1", "cloud")
    assert found.deadline == START + timedelta(minutes=2)


def test_a_run_that_comes_to_such_a_node_is_told_too_and_an_empty_one_tells_nobody() -> None:
    cluster = running()
    cluster.change("node-2", _taint())
    assert not cluster.of(PreemptionNotice)
    job = make_job("u", "j2", size=1)
    cluster.put(job, make_pod(job, "q", node="n2"))
    assert [found.placement.run for found in cluster.of(PreemptionNotice)] == ["j2"]


def test_a_notice_withdrawn_and_given_again_is_a_second_one() -> None:
    cluster = running()
    cluster.change("node-1", _taint())
    cluster.change("node-1", lambda node: node["spec"].update(taints=[]))
    cluster.pass_time(60)
    cluster.change("node-1", _taint())
    assert len(cluster.of(PreemptionNotice)) == 2


def test_an_odd_object_is_read_as_far_as_it_goes() -> None:
    cluster = running()
    cluster.change("p", lambda pod: pod["status"].update(containerStatuses="none", conditions=[None, "x"]))
    cluster.change("p", lambda pod: pod["metadata"].update(annotations=None))
    cluster.change("j", lambda job: job.update(status={"conditions": {}}))
    cluster.change("node-1", lambda node: node.update(status=None))
    assert len(cluster.of(RunSeen)) == 1
    assert not cluster.of(PodEnded)
