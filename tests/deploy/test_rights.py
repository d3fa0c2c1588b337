"""The rights of deploy/kubernetes on a real API server: each part does its work with them, and what it was given is what it uses.

Each part works with a token of its own service account, so a right that is missing fails it; what is granted and was not used has its reason
here. All of it within the bounds of deploy/kubernetes/bounds.yaml, which are in force. Admission of the objects themselves is asked of the same
server.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actuators.nodes.silent_nodes import KUBELET_LEASES
from actuators.settings import ActingSettings, IsolationSettings, SilentNodeSettings
from producers.cluster.lease import Lease
from producers.cluster.settings import LeaseSettings
from producers.own_node import OwnNode, uid_of
from producers.own_pods import OwnPods, read_pod
from producers.presence import Presence
from producers.settings import NodeSettings, PresenceSettings
from producers.supervisors.first_start import FirstStart
from runtime import paths
from runtime.errors import ApiForbidden, ApiNotFound
from runtime.kubernetes import Cluster
from schemas.cluster import HOLD, REPAIRED, agent_lease
from schemas.commands import OutcomeResult, StepName
from tests.actuators.real_job import make_job, pods_of, wait_until
from tests.actuators.real_scene import RealScene, command
from tests.actuators.real_steps import a_node, bind, fail, resume, run_all, set_phase, suspend, until_it_ends
from tests.deploy.manifests import Object, collection, granted, renamed, template_of, workloads
from tests.deploy.site import Right, Site, Watched, make_asking_job
from tests.producers.cluster.looking import Looking
from tests.real.kubernetes import make_namespace

REAL_PLANE_ONLY = "rights and admission are Kubernetes' own: the stand-in lets everybody do everything"

KEPT_FOR_LATER: dict[str, dict[Right, str]] = {
    "actuators": {
        ("patch", "jobs/status", "cluster"): "servers before 1.36: startTime is taken off before a resume",
        ("get", "pods", "cluster"): "a pod that somebody else wrote meanwhile is read again",
    },
    "node-agent": {},
    "watcher": {},
}
"""Granted and not seen in these tests, each with its reason."""


@pytest.mark.parametrize("item", workloads(), ids=lambda item: f"{item['kind']}-{item['metadata']['name']}")
def test_the_server_takes_each_workload_and_knows_every_field(site: Site, item: Object) -> None:
    ours = renamed(item, site.namespace)

    taken = site.api.create(collection(ours), ours, dryRun="All", fieldValidation="Strict")

    assert taken["metadata"]["uid"]


def unexplained(account: str, used: set[Right]) -> set[Right]:
    """Given, not used, and nobody said why."""
    return granted(account) - used - set(KEPT_FOR_LATER[account])


@pytest.mark.slow
def test_the_watcher_sees_a_whole_run_with_its_rights_and_uses_all_of_them(
    site: Site, namespace: str
) -> None:
    api = site.acting_as("watcher")
    lease = Lease(api, LeaseSettings(namespace=site.namespace), "me")

    assert lease.try_once()
    assert lease.try_once()
    with Looking(api) as looking:
        job = make_job(site.api, namespace, 1)
        wait_until(lambda: "pods" in {right[1] for right in api.used if right[0] == "watch"})
        assert looking.failed is None
    lease.let_go()

    assert api.used <= granted("watcher")
    assert unexplained("watcher", api.used) == set()
    with pytest.raises(ApiForbidden):
        api.patch(paths.jobs(namespace, job["metadata"]["name"]), {"metadata": {"annotations": {"a": "b"}}})


@pytest.mark.slow
def test_actuators_do_all_their_steps_with_their_rights_and_use_all_of_them(
    site: Site, namespace: str
) -> None:
    api = site.acting_as("actuators")
    admin = site.api
    with ExitStack() as stack:
        scene = RealScene(api, stack.enter_context(ThreadPoolExecutor(4)))
        nodes = [stack.enter_context(a_node(admin, f"{letter}-{site.namespace}")) for letter in "ab"]
        for name in nodes:
            admin.patch(paths.nodes(name), {"metadata": {"labels": {"test": namespace}}})
        scene.settings = ActingSettings(
            isolation=IsolationSettings(
                namespace=site.namespace,
                fewest_left=0,
                pool=f"test={namespace}",
                protected_namespaces=(site.namespace,),
            ),
            silent_node=SilentNodeSettings(
                namespace=site.namespace, after=timedelta(seconds=1), heard_within=timedelta(seconds=1)
            ),
        )
        _processes(scene, admin, namespace)
        _job_made_anew(scene, admin, namespace)
        _node(scene, admin, nodes[0])
        _pod_of_a_node_that_is_off(scene, admin, namespace, nodes[1])

    assert api.used <= granted("actuators")
    assert unexplained("actuators", api.used) == set()


def _ends(scene: RealScene, order: Any, result: OutcomeResult = OutcomeResult.DONE) -> None:
    outcome = until_it_ends(scene, order)
    assert outcome.result is result, outcome
    assert outcome.cause != "rights", outcome


def _processes(scene: RealScene, admin: Cluster, namespace: str) -> None:
    job = make_asking_job(admin, namespace, 2, name="told")
    until = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    stop = {"until": until, "grace_seconds": 30, "otherwise": "rerun"}
    _ends(scene, command(job, StepName.STOP_PROCESSES, arguments=stop))
    _ends(scene, command(job, StepName.START_PROCESSES))
    _ends(scene, command(job, StepName.FIND_SPARE, arguments={"keep_off": []}))
    _ends(scene, command(job, StepName.NOTIFY, arguments={"about": "test"}))
    _ends(scene, command(job, StepName.RELEASE_JOB))
    nowhere = {"namespace": "", "name": ""}  # a run that is nowhere is looked for everywhere
    gone = scene.perform(command(job, StepName.RELEASE_JOB, subject="run/none", arguments=nowhere))
    assert gone.cause == "gone", gone


def _job_made_anew(scene: RealScene, admin: Cluster, namespace: str) -> None:
    job = make_asking_job(admin, namespace, 2, backoffLimit=0)
    set_phase(admin, pods_of(admin, job)[0], "Failed")
    wait_until(lambda: "Failed" in _conditions(admin, job))
    _ends(scene, suspend(job))
    order = resume(job)
    scene.perform(order)
    wait_until(lambda: _made_anew(scene, admin, job, order))
    new = admin.get(paths.jobs(namespace, job["metadata"]["name"]))
    run_all(admin, new, 2)
    _ends(scene, order)
    late = fail(job, seconds=1, attempt=2)
    scene.perform(late.model_copy(update={"epoch": 2, "subject": f"run/{job['metadata']['uid']}"}))


def _made_anew(scene: RealScene, admin: Cluster, job: Object, order: Any) -> bool:
    outcome = scene.perform(order.model_copy(update={"action": "look"}))
    assert outcome.cause != "rights", outcome
    try:
        now = admin.get(paths.jobs(job["metadata"]["namespace"], job["metadata"]["name"]))
    except ApiNotFound:
        return False
    return now["metadata"]["uid"] != job["metadata"]["uid"] and bool(pods_of(admin, now))


def _conditions(admin: Cluster, job: Object) -> set[str]:
    now = admin.get(paths.jobs(job["metadata"]["namespace"], job["metadata"]["name"]))
    return {one["type"] for one in (now.get("status") or {}).get("conditions") or []}


def _node(scene: RealScene, admin: Cluster, name: str) -> None:
    metadata = admin.get(paths.nodes(name))["metadata"]
    hold = {"cause": "xid/79", "chip": "GPU-1", "class": "isolate", "evidence": "e", "reason": "off the bus"}
    about = {"metadata": {**metadata, "namespace": ""}}

    def order(step: StepName, holds: list[Any]) -> Any:
        arguments = {"node": metadata["uid"], "node_name": name, "holds": holds}
        return command(about, step, subject=f"node/{metadata['uid']}", epoch=0, arguments=arguments)

    _ends(scene, order(StepName.ISOLATE_NODE, [hold]))
    assert any(key.startswith(HOLD) for key in admin.get(paths.nodes(name))["metadata"]["annotations"])
    _ends(scene, order(StepName.RELEASE_NODE, []))


def _pod_of_a_node_that_is_off(scene: RealScene, admin: Cluster, namespace: str, node: str) -> None:
    """Asked for first whether the node is silent, then forced off because a human says that it is off."""
    job = make_asking_job(admin, namespace, 1, name="stuck")
    (pod,) = pods_of(admin, job)
    bind(admin, pod, node)
    set_phase(admin, pod, "Running")
    unknown = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}]
    admin.patch(paths.status(paths.nodes(node)), {"status": {"conditions": unknown}}, manager="test")
    for folder, name in ((KUBELET_LEASES, node), (scene.settings.silent_node.namespace, agent_lease(node))):
        admin.create(paths.leases(folder), {"metadata": {"name": name}})
    try:
        order = suspend(job)
        wait_until(lambda: _others_were_asked_for(scene, order))
        off = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        taints = [*(admin.get(paths.nodes(node))["spec"].get("taints") or []), off]
        admin.patch(paths.nodes(node), {"spec": {"taints": taints}}, manager="test")
        _ends(scene, order)
    finally:
        admin.delete(paths.leases(KUBELET_LEASES, node))


def _others_were_asked_for(scene: RealScene, order: Any) -> bool:
    """The node is silent by both Leases, and the pod waits all the same: no other node is heard here."""
    outcome = scene.perform(order)
    assert outcome.cause == "terminating", outcome
    assert isinstance(scene.api, Watched)
    return ("list", "leases", KUBELET_LEASES) in scene.api.used


# ------------------------------------------------------------ the node agent


@pytest.fixture
def nodes(site: Site) -> Iterator[tuple[str, str]]:
    with ExitStack() as stack:
        names = [stack.enter_context(a_node(site.api, f"{letter}-{uuid.uuid4().hex[:6]}")) for letter in "mn"]
        yield names[0], names[1]
        for name in names:
            try:
                site.api.delete(f"{paths.pods(site.namespace)}/node-agent-{name}", grace=0)
            except ApiNotFound:
                continue


@pytest.mark.slow
def test_the_agent_does_its_work_with_its_rights_and_uses_all_of_them(
    site: Site, namespace: str, nodes: tuple[str, str]
) -> None:
    mine, _ = nodes
    api = site.acting_as("node-agent", site.pod_on(mine))
    uid = uid_of(api, mine)
    presence = Presence(
        api,
        PresenceSettings(namespace=site.namespace),
        NodeSettings(name=mine, uid=uid),
        lambda: datetime.now(UTC),
    )
    presence.renew()
    presence.renew()
    assert site.api.get(paths.leases(site.namespace, agent_lease(mine)))["spec"]["holderIdentity"] == mine

    node, pods = OwnNode(api, mine, uid), OwnPods(api, mine, lambda: datetime.now(UTC))
    _followed(node.informer, lambda: node.object is not None)
    _followed(pods.informer, pods.informer.synced.is_set)
    job = make_job(site.api, namespace, 1)
    (pod,) = pods_of(site.api, job)
    first = FirstStart(api, timedelta(seconds=10))
    try:
        assert asyncio.run(first.must_wait(read_pod(pod, datetime.now(UTC)))) is False
    finally:
        first.close()
    answer = {"metadata": {"uid": uid, "annotations": {f"{REPAIRED}ring-0": "{}"}}}
    api.patch(paths.nodes(mine), answer, manager="relight")

    assert api.used <= granted("node-agent")
    assert unexplained("node-agent", api.used) == set()


def _followed(informer: Any, holds: Callable[[], bool]) -> None:
    thread = threading.Thread(target=informer.run, daemon=True)
    thread.start()
    try:
        wait_until(holds)
    finally:
        informer.stop()
        thread.join(10)


def test_the_namespace_admits_the_node_agent_and_it_is_the_only_one_that_needs_that(site: Site) -> None:
    """Under Pod Security's `restricted` every other workload's pods are admitted as well."""
    strict = make_namespace(site.api, f"strict-{uuid.uuid4().hex[:8]}")
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    site.api.patch(paths.namespaces(strict), label)
    admitted = {}
    try:
        for workload in workloads():
            template = template_of(workload)
            pod = {
                "metadata": {"name": "try", "labels": template["metadata"]["labels"]},
                "spec": {
                    **template["spec"],
                    "serviceAccountName": "default",
                    "priorityClassName": "",
                    "restartPolicy": template["spec"].get("restartPolicy", "Always"),
                },
            }
            try:
                site.api.create(paths.pods(strict), pod, dryRun="All")
                admitted[workload["metadata"]["name"]] = True
            except ApiForbidden:
                admitted[workload["metadata"]["name"]] = False
    finally:
        site.api.delete(paths.namespaces(strict))

    assert [name for name, taken in admitted.items() if not taken] == ["node-agent"]
