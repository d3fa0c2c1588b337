"""What a node can suffer, on the real control plane: silence, death, power cuts, another UID, sick devices."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from runtime import paths
from runtime.kubernetes import Cluster, Object
from sandbox.control_plane import ControlPlane, NodeLifecycle, Options
from sandbox.kubelet import Kubelet, NodeOptions
from tests.real.kubernetes import BRISK, NewCluster, NewKubelet, client_of, make_namespace
from tests.real.pods import CHIPS, FOREVER, SECONDS, Pods, container, until

REAL_PLANE_ONLY = "the kubelet's own, which test_kubelet runs on both; judging nodes is compared in test_nodes_beside_the_real_ones"

QUICK_TO_JUDGE = Options(
    node_lifecycle=NodeLifecycle(
        monitor_grace=timedelta(seconds=3),
        monitor_period=timedelta(milliseconds=500),
        startup_grace=timedelta(seconds=3),
    )
)

# An API server and nothing that acts by itself: no service accounts, so pods must do without.
ALONE = Options(
    controller_manager=False,
    scheduler=False,
    node_lifecycle=None,
    arguments={"kube-apiserver": ["--disable-admission-plugins=ServiceAccount"]},
)


def node_of(api: Cluster, kubelet: Kubelet) -> Object:
    return api.get(paths.nodes(kubelet.name))


def readiness(api: Cluster, kubelet: Kubelet) -> tuple[str, str]:
    conditions = node_of(api, kubelet)["status"]["conditions"]
    found = next(each for each in conditions if each["type"] == "Ready")
    return found["status"], found["reason"]


def taints(api: Cluster, kubelet: Kubelet) -> set[str]:
    return {each["key"] for each in node_of(api, kubelet)["spec"].get("taints", [])}


def test_a_node_is_ready_with_its_labels_and_devices(api: Cluster, new_kubelet: NewKubelet) -> None:
    kubelet = new_kubelet(devices={CHIPS: 8, "nvidia.com/gpu": 2}, labels={"rack": "r1"})

    node = node_of(api, kubelet)

    assert readiness(api, kubelet) == ("True", "KubeletReady")
    assert node["metadata"]["labels"]["rack"] == "r1"
    assert node["status"]["capacity"][CHIPS] == node["status"]["allocatable"][CHIPS] == "8"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"


@pytest.mark.slow
def test_heartbeats_go_on_by_themselves(api: Cluster, new_kubelet: NewKubelet) -> None:
    kubelet = new_kubelet()

    def renewed() -> str:
        return str(api.get(paths.leases("kube-node-lease", kubelet.name))["spec"]["renewTime"])

    first = renewed()
    until(renewed, lambda at: at > first)
    kubelet.stop_heartbeats()
    last = renewed()
    time.sleep(2 * BRISK.heartbeat.total_seconds())
    assert renewed() == last
    kubelet.resume_heartbeats()
    until(renewed, lambda at: at > last)


@pytest.mark.slow
def test_a_silent_node_becomes_unknown_while_its_pods_run_and_recovers(
    new_cluster: NewCluster, new_kubelet: NewKubelet
) -> None:
    plane = new_cluster(QUICK_TO_JUDGE)
    api = client_of(plane)
    kubelet = new_kubelet("silent", plane=plane)
    pods = Pods(api, make_namespace(api, "training"), kubelet)
    pods.run("goes-on", container(FOREVER))
    pods.in_phase("goes-on", "Running")
    process = psutil.Process(pods.pid("goes-on"))

    kubelet.stop_heartbeats()
    until(lambda: readiness(api, kubelet), lambda seen: seen == ("Unknown", "NodeStatusUnknown"))
    until(lambda: taints(api, kubelet), lambda seen: "node.kubernetes.io/unreachable" in seen)
    assert process.is_running()
    assert pods.phase("goes-on") == "Running"

    kubelet.resume_heartbeats()
    until(lambda: readiness(api, kubelet), lambda seen: seen[0] == "True")
    until(lambda: taints(api, kubelet), lambda seen: not seen)


def test_a_node_that_says_so_itself_is_not_ready(api: Cluster, new_kubelet: NewKubelet) -> None:
    kubelet = new_kubelet()

    kubelet.set_ready(ready=False, reason="ContainerRuntimeUnhealthy")

    until(lambda: readiness(api, kubelet), lambda seen: seen == ("False", "ContainerRuntimeUnhealthy"))


def test_a_node_that_comes_back_as_another_has_another_uid_and_its_pods_still_run(pods: Pods) -> None:
    pods.run("goes-on", container(FOREVER))
    pods.in_phase("goes-on", "Running")
    process, before = psutil.Process(pods.pid("goes-on")), node_of(pods.api, pods.node)["metadata"]["uid"]

    after = pods.node.come_back_as_another(pods.api)

    assert after == node_of(pods.api, pods.node)["metadata"]["uid"] != before
    assert readiness(pods.api, pods.node)[0] == "True"
    assert process.is_running()
    assert pods.pid("goes-on") == process.pid


@pytest.mark.slow
def test_a_deleted_node_stays_away_until_its_kubelet_starts_again(
    api: Cluster, new_kubelet: NewKubelet
) -> None:
    kubelet = new_kubelet()

    api.delete(paths.nodes(kubelet.name))
    time.sleep(2 * BRISK.heartbeat.total_seconds())

    assert kubelet.name not in {node["metadata"]["name"] for node in api.list(paths.nodes()).items}


@pytest.mark.slow
def test_while_a_kubelet_is_dead_nothing_is_reported_or_obeyed_and_afterwards_it_is(pods: Pods) -> None:
    for name in ("crashes", "deleted", "forced"):
        pods.run(name, container(FOREVER))
        pods.in_phase(name, "Running")
    crashing, deleted, forced = (psutil.Process(pods.pid(name)) for name in ("crashes", "deleted", "forced"))

    pods.node.die()
    crashing.kill()
    pods.api.delete(paths.pods(pods.namespace, "deleted"), grace=1)
    pods.api.delete(paths.pods(pods.namespace, "forced"), grace=0)
    time.sleep(1.5)
    assert pods.phase("crashes") == "Running"
    assert deleted.is_running()
    assert forced.is_running()
    assert not pods.is_gone("deleted")

    pods.node.start()
    pods.in_phase("crashes", "Failed")
    assert pods.status("crashes")["state"]["terminated"]["exitCode"] == 137
    until(lambda: pods.is_gone("deleted"))
    _, alive = psutil.wait_procs([deleted, forced], timeout=SECONDS)
    assert alive == []


@pytest.mark.slow
def test_after_a_power_cut_what_ran_is_lost_and_started_again_only_where_its_policy_says_so(
    pods: Pods,
) -> None:
    pods.run("never", container(FOREVER))
    pods.run("always", container(FOREVER), restartPolicy="Always")
    processes = []
    for name in ("never", "always"):
        pods.in_phase(name, "Running")
        processes.append(psutil.Process(pods.pid(name)))
    boot = node_of(pods.api, pods.node)["status"]["nodeInfo"]["bootID"]

    pods.node.cut_power()
    _, alive = psutil.wait_procs(processes, timeout=SECONDS)
    assert alive == []
    assert pods.phase("never") == "Running"  # nobody is there to say otherwise

    pods.node.start()
    pods.in_phase("never", "Failed")
    until(lambda: pods.status("always")["restartCount"], lambda count: count == 1)
    lost = pods.status("never")["state"]["terminated"]
    assert (lost["exitCode"], lost["reason"]) == (137, "ContainerStatusUnknown")
    assert node_of(pods.api, pods.node)["status"]["nodeInfo"]["bootID"] != boot


def test_another_kubelet_on_the_same_node_starts_nothing_twice_that_must_not_run_twice(
    pods: Pods, new_kubelet: NewKubelet
) -> None:
    pods.run("never", container(FOREVER))
    pods.in_phase("never", "Running")
    pods.node.stop()

    pods.node = new_kubelet(pods.node.name)

    pods.in_phase("never", "Failed")
    assert pods.status("never")["state"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_a_sick_device_is_no_longer_allocatable_and_given_to_nobody(pods: Pods) -> None:
    def allocatable() -> str:
        return str(node_of(pods.api, pods.node)["status"]["allocatable"][CHIPS])

    pods.node.set_device_health(CHIPS, 1, healthy=False)
    until(allocatable, lambda seen: seen == "7")
    assert node_of(pods.api, pods.node)["status"]["capacity"][CHIPS] == "8"

    pods.run("two", container(["sh", "-c", "echo $ASCEND_VISIBLE_DEVICES"], resources={"limits": {CHIPS: 2}}))
    pods.in_phase("two", "Succeeded")
    assert pods.log("two") == "0,2\n"

    pods.node.set_device_health(CHIPS, 1, healthy=True)
    until(allocatable, lambda seen: seen == "8")


def test_a_pod_bound_to_a_node_without_enough_devices_is_refused(pods: Pods) -> None:
    pods.run("first", container(FOREVER, resources={"limits": {CHIPS: 8}}))
    pods.in_phase("first", "Running")
    assert pods.node.devices_of(pods.namespace, "first", "main") == {CHIPS: list(range(8))}

    # Bound by hand: the scheduler would have let it wait.
    pods.run("second", container(["true"], resources={"limits": {CHIPS: 1}}), nodeName=pods.node.name)

    status = pods.in_phase("second", "Failed")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert CHIPS in status["message"]


def test_devices_are_free_again_when_their_pod_is_over(pods: Pods) -> None:
    for name in ("first", "second"):
        pods.run(name, container(["true"], resources={"limits": {CHIPS: 8}}))
        pods.in_phase(name, "Succeeded")


@pytest.mark.slow
def test_what_happened_while_the_api_server_was_away_is_reported_when_it_is_back(
    new_cluster: NewCluster, new_kubelet: NewKubelet
) -> None:
    plane = new_cluster(ALONE)
    api = client_of(plane)
    kubelet = new_kubelet("patient", plane=plane)
    pods = Pods(api, "default", kubelet)
    for name in ("ends", "stays"):
        pods.run(name, container(FOREVER), nodeName="patient")
        pods.in_phase(name, "Running")
    stays = psutil.Process(pods.pid("stays"))

    plane.api_server.kill()
    psutil.Process(pods.pid("ends")).kill()
    time.sleep(1)
    plane.api_server.start()

    assert (
        pods.in_phase("ends", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        == 137
    )
    assert stays.is_running()
    pods.api.delete(paths.pods("default", "stays"), grace=1)
    until(lambda: pods.is_gone("stays"))
    assert not stays.is_running()


@pytest.mark.slow
@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_runner_that_ends_leaves_no_process_of_any_pod(
    cluster: ControlPlane, api: Cluster, namespace: str, tmp_path: Path, end: signal.Signals
) -> None:
    name = f"node-{namespace[-8:]}"  # the random part
    user = cluster.kubeconfig_of(f"system:node:{name}", ["system:nodes"])
    command = [sys.executable, "-m", "sandbox.kubelet", "--kubeconfig", str(user), "--name", name]
    with subprocess.Popen([*command, "--folder", str(tmp_path)], stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert name in runner.stdout.readline()
        pods = Pods(api, namespace, Kubelet(user, NodeOptions(name), tmp_path / "unused"))
        pods.run("orphan", container(["sh", "-c", "sleep 600 & exec sleep 600"]))
        pods.in_phase("orphan", "Running")
        started = until(
            lambda: psutil.Process(runner.pid).children(recursive=True),
            lambda seen: sum(each.name() == "sleep" for each in seen) == 2,
        )
        os.kill(runner.pid, end)

    _, alive = psutil.wait_procs(started, timeout=SECONDS)
    api.delete(paths.nodes(name))
    assert alive == []
    assert runner.returncode == (0 if end is signal.SIGTERM else -end)
