"""The real control plane keeps its promises: it serves when started, keeps data, does its controllers' work, ends with its owner."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from runtime import paths
from runtime.errors import ApiAway, ApiForbidden
from runtime.kubernetes import Cluster, Object
from runtime.settings import KubernetesSettings
from sandbox import control_plane, control_plane_build, ports
from sandbox.control_plane import ControlPlane, Options
from sandbox.errors import NotRunning, PartMissing, StartFailed
from tests.real import parts
from tests.real.kubernetes import client_of

REAL_PLANE_ONLY = "it is of the real one"

SECONDS = 20.0
API_ONLY = Options(controller_manager=False, scheduler=False)


@pytest.fixture(scope="module")
def of_this_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane for what no test of another file may see."""
    parts.need("Kubernetes", control_plane.missing())
    plane = ControlPlane(tmp_path_factory.mktemp("alone") / "cluster", API_ONLY)
    try:
        yield plane.start()
    finally:
        plane.kill()


@pytest.fixture
def alone(of_this_file: ControlPlane) -> ControlPlane:
    """It runs, whatever the test before did to it."""
    return of_this_file.start()


def indexed_job(completions: int) -> Object:
    container = {"name": "main", "image": "none", "command": ["true"]}
    return {
        "metadata": {"name": "training"},
        "spec": {
            "completions": completions,
            "parallelism": completions,
            "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def test_a_job_makes_its_pods_at_once(api: Cluster, namespace: str) -> None:
    api.create(paths.jobs(namespace), indexed_job(3))

    deadline = time.monotonic() + SECONDS
    pods: list[Object] = []
    while len(pods) < 3 and time.monotonic() < deadline:
        pods = api.list(paths.pods(namespace)).items

    indexes = [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods]
    assert sorted(indexes) == ["0", "1", "2"]
    assert {pod["status"]["phase"] for pod in pods} == {"Pending"}


def test_the_server_is_of_the_version_that_was_built(api: Cluster) -> None:
    assert api.get("/version")["gitVersion"] == control_plane_build.KUBERNETES_VERSION


def test_a_user_may_do_what_rbac_grants_and_nothing_else(
    cluster: ControlPlane, api: Cluster, namespace: str
) -> None:
    rules = "/apis/rbac.authorization.k8s.io/v1"
    reader = {
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    }
    binding = {
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    }
    api.create(f"{rules}/namespaces/{namespace}/roles", reader)
    api.create(f"{rules}/namespaces/{namespace}/rolebindings", binding)
    member = client_of(cluster, kubeconfig=cluster.kubeconfig_of("alice", ["readers"]))
    stranger = client_of(cluster, kubeconfig=cluster.kubeconfig_of("system:mallory"))

    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:  # the authorizer learns of a binding by its own watch
        with contextlib.suppress(ApiForbidden):
            member.list(paths.pods(namespace))
            break

    assert member.list(paths.pods(namespace)).items == []
    with pytest.raises(ApiForbidden, match="alice"):
        member.list(paths.nodes())
    with pytest.raises(ApiForbidden, match="mallory"):
        stranger.list(paths.pods(namespace))


def test_an_unknown_token_is_refused(cluster: ControlPlane, tmp_path: Path) -> None:
    forged = tmp_path / "kubeconfig"
    forged.write_text(cluster.kubeconfig.read_text("utf-8").replace(cluster.admin_token, "f" * 32), "utf-8")

    with pytest.raises(ApiForbidden):
        client_of(cluster, kubeconfig=forged).list(paths.nodes())


@pytest.mark.slow
@pytest.mark.real
def test_after_a_power_cut_it_comes_back_with_its_data_and_its_address(alone: ControlPlane) -> None:
    api, address = client_of(alone), alone.url
    api.create(paths.namespaces(), {"metadata": {"name": "kept"}})

    alone.kill()
    with pytest.raises(ApiAway):
        api.get(paths.namespaces("kept"))
    alone.start()

    assert alone.url == address
    assert api.get(paths.namespaces("kept"))["metadata"]["name"] == "kept"


@pytest.mark.slow
@pytest.mark.real
def test_while_etcd_is_frozen_writes_do_not_return_and_afterwards_they_do(alone: ControlPlane) -> None:
    hurried = Cluster(
        KubernetesSettings(kubeconfig=alone.kubeconfig, timeout=timedelta(seconds=1)), "hurried"
    )

    alone.etcd.suspend()
    with pytest.raises(ApiAway):
        hurried.create(paths.namespaces(), {"metadata": {"name": "late"}})
    alone.etcd.resume()

    assert client_of(alone).create(paths.namespaces(), {"metadata": {"name": "afterwards"}})["metadata"][
        "uid"
    ]


@pytest.mark.slow
@pytest.mark.real
def test_an_orderly_stop_leaves_no_process_also_of_frozen_parts(alone: ControlPlane) -> None:
    started = [psutil.Process(component.pid) for component in alone.components]
    alone.etcd.suspend()

    alone.stop()

    assert [process for process in started if process.is_running()] == []
    assert not any(component.is_running for component in alone.components)


@pytest.mark.slow
@pytest.mark.usefixtures("new_cluster")  # for its check that there is one to start
def test_a_runner_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from sandbox.control_plane import ControlPlane\n"
        "plane = ControlPlane(pathlib.Path(sys.argv[1])).start()\n"
        "print(*(component.pid for component in plane.components), flush=True)\n"
        "time.sleep(600)\n"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "cluster")], stdout=subprocess.PIPE, text=True
    )
    with runner:
        assert runner.stdout is not None
        started = [psutil.Process(int(pid)) for pid in runner.stdout.readline().split()]
        assert len(started) == 4
        os.kill(runner.pid, signal.SIGKILL)

    _, alive = psutil.wait_procs(started, timeout=SECONDS)
    assert alive == []


@pytest.mark.slow
@pytest.mark.usefixtures("new_cluster")
def test_a_port_that_somebody_took_meanwhile_is_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ports.free_ports
    with socket.create_server((ports.LOOPBACK, 0)) as somebody:
        taken = somebody.getsockname()[1]
        chosen = iter([[taken, *real(4)], real(5)])
        monkeypatch.setattr(ports, "free_ports", lambda _: next(chosen))
        plane = ControlPlane(tmp_path / "cluster", API_ONLY)
        try:
            assert client_of(plane.start()).get(paths.namespaces("default"))
        finally:
            plane.kill()


@pytest.mark.usefixtures("new_cluster")
def test_a_part_that_cannot_start_says_why_and_leaves_no_process(tmp_path: Path) -> None:
    wrong = Options(arguments={"kube-apiserver": ["--no-such-flag"]})
    plane = ControlPlane(tmp_path / "cluster", wrong)

    with pytest.raises(StartFailed, match="no-such-flag"):
        plane.start()

    inside = [each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(each.info["cmdline"])]
    assert inside == []


def test_a_control_plane_never_started_has_no_address(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        _ = ControlPlane(tmp_path).url


def test_a_machine_where_it_was_not_built_is_told_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(PartMissing, match="make real"):
        ControlPlane(tmp_path / "cluster").start()
