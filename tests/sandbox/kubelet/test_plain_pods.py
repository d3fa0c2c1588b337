"""Pods of plain containers: reported as enclosed ones are, and an injected job's supervisor runs in them unmodified."""

from __future__ import annotations

import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from actuators.injection.inject import inject
from actuators.injection.options import InjectionOptions
from runtime import paths
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings
from runtime.topic_tail import tail
from sandbox.cluster_standin.plane import ClusterStandIn
from sandbox.embedded_broker import EmbeddedBroker
from sandbox.kubelet import Kubelet, NodeOptions, Way, identity
from sandbox.stage.program import ROOT, Program
from schemas.envelope import decode
from schemas.signals import ProcessExit, ProcessState, ProcessStateName
from supervisor.wrapper import WRAPPER
from tests.real.kubernetes import BRISK, client_of, make_namespace
from tests.real.pods import CHIPS, OBEYS, SECONDS, Pods, container, until

OPTIONS = InjectionOptions(wrapper=WRAPPER)
SOCKET = OPTIONS.socket
TRAINER = "import os, time; print('rank', os.environ['JOB_COMPLETION_INDEX'], flush=True); time.sleep(0.5); raise SystemExit(7)"


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        (["true"], 0, "Completed"),
        (["sh", "-c", "exit 7"], 7, "Error"),
        (["/no/such/program"], 128, "StartError"),
    ],
)
def test_exit_codes_are_reported_as_they_were(
    plain_pods: Pods, command: list[str], code: int, reason: str
) -> None:
    plain_pods.run("once", container(command))

    plain_pods.in_phase("once", "Succeeded" if code == 0 else "Failed")

    ended = plain_pods.status("once")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


def test_a_container_out_of_memory_takes_everything_of_it_along(plain_pods: Pods) -> None:
    plain_pods.run("greedy", container(["sh", "-c", "sleep 600 & sleep 600"]))
    plain_pods.in_phase("greedy", "Running")
    first = psutil.Process(plain_pods.pid("greedy"))
    until(lambda: len(first.children()), lambda n: n == 2)
    every = [first, *first.children()]

    plain_pods.node.run_out_of_memory(plain_pods.namespace, "greedy", "main")
    plain_pods.in_phase("greedy", "Failed")

    ended = plain_pods.status("greedy")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert psutil.wait_procs(every, timeout=SECONDS)[1] == []


def test_volumes_downward_files_and_devices_are_those_of_an_enclosed_one(plain_pods: Pods) -> None:
    mounts = [
        {"name": "work", "mountPath": "/relight/work"},
        {"name": "about", "mountPath": "/relight/about"},
    ]
    about = {"items": [{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]}
    plain_pods.run(
        "ordered",
        container(
            ["sh", "-c", "cat order ../about/annotations $ABOUT; echo; echo $ASCEND_VISIBLE_DEVICES"],
            workingDir="/relight/work",
            env=[{"name": "ABOUT", "value": "/relight/about/annotations"}],
            volumeMounts=mounts,
            resources={"limits": {CHIPS: 2}},
        ),
        initContainers=[
            container(["sh", "-c", "echo one >> /relight/work/order"], "one", volumeMounts=mounts)
        ],
        volumes=[{"name": "work", "emptyDir": {}}, {"name": "about", "downwardAPI": about}],
    )

    plain_pods.in_phase("ordered", "Succeeded")

    assert plain_pods.log("ordered") == 'one\nsay="hello"say="hello"\n0,1\n'
    assert not Path("/relight").exists()


def test_a_pod_that_is_deleted_has_its_grace_and_is_gone(plain_pods: Pods) -> None:
    plain_pods.run("obeys", container(OBEYS), terminationGracePeriodSeconds=30)
    until(lambda: plain_pods.log("obeys"))

    plain_pods.api.delete(paths.pods(plain_pods.namespace, "obeys"))

    until(lambda: plain_pods.is_gone("obeys"))


@pytest.fixture
def short() -> Iterator[Path]:
    """A socket's path has a hundred bytes."""
    folder = Path(tempfile.mkdtemp(prefix="relight-"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_the_supervisor_of_an_injected_job_tells_the_agent_of_its_node(
    shared_stand_in: ClusterStandIn, short: Path, tmp_path: Path
) -> None:
    name = f"injected-{uuid.uuid4().hex[:8]}"
    api = client_of(shared_stand_in)
    namespace = make_namespace(api, name)
    kubeconfig = shared_stand_in.kubeconfig_of(f"system:node:{name}", ["system:nodes"])
    options = NodeOptions(
        name,
        host_paths={str(SOCKET.parent): short / "agent"},
        environment={"PYTHONPATH": str(ROOT)},  # relight's image has relight in it
    )
    job = inject(training_job(name), OPTIONS)
    assert job.untouched is None
    with (
        EmbeddedBroker(tmp_path / "broker") as broker,
        Kubelet(kubeconfig, options, tmp_path / "kubelet", BRISK, way=Way.PLAIN) as kubelet,
    ):
        agent = Program(
            "agent", ["node-agent"], folder=tmp_path,
            environment={
                **broker.environment,
                "RELIGHT_KAFKA__BOOTSTRAP": broker.bootstrap,
                "RELIGHT_CLUSTER": "lab",
                "RELIGHT_KUBERNETES__KUBECONFIG": str(shared_stand_in.kubeconfig),
                "RELIGHT_ON_CLUSTER": "true",
                "RELIGHT_NODE__NAME": name,
                "RELIGHT_NODE__UID": api.get(paths.nodes(name))["metadata"]["uid"],
                "RELIGHT_SPOOL__FOLDER": str(tmp_path / "spool"),
                "RELIGHT_SOURCES__KERNEL_LOG": "false",
                "RELIGHT_SUPERVISORS__SOCKET": str(short / "agent" / SOCKET.name),
                "RELIGHT_SUPERVISORS__PEERS_FROM": "namespaces",
                "RELIGHT_SUPERVISORS__PEERS_FOLDER": str(kubelet.folder / identity.FOLDER),
                "RELIGHT_PRESENCE__ENABLED": "false",
            },
        )  # fmt: skip
        agent.launch()  # the supervisor waits for its socket
        try:
            run = api.create(paths.jobs(namespace), job.manifest)["metadata"]["uid"]
            started, ended = told(broker.bootstrap)
            log = kubelet.log(namespace, kubelet_pod(kubelet, namespace), "trainer")
        finally:
            agent.kill()
    api.delete(paths.namespaces(namespace))
    api.delete(paths.nodes(name))

    assert started.placement is not None
    assert (started.placement.run, started.placement.container, started.placement.rank) == (run, "trainer", 0)
    assert ended.placement == started.placement
    assert (ended.exit_code, ended.start) == (7, 1)
    assert "rank 0" in log


def training_job(node: str) -> dict[str, object]:
    quick = {"RELIGHT_CHECK_ROOT_GIB": "0", "RELIGHT_CHECK_SHM_GIB": "0", "RELIGHT_CHECK_RDMA": "off"}
    trainer = container(
        [sys.executable, "-c", TRAINER], "trainer", env=[{"name": k, "value": v} for k, v in quick.items()]
    )
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 1,
        "containers": [trainer],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "training", "annotations": {"fault-tolerance/job-retry-num": "3"}},
        "spec": {"completionMode": "Indexed", "completions": 1, "template": {"spec": pod}},
    }


def told(bootstrap: str) -> tuple[ProcessState, ProcessExit]:
    """The first start and the first exit that stand in the topic."""
    started: ProcessState | None = None
    clients = KafkaClients(KafkaSettings(bootstrap=bootstrap), "test")
    for message in tail(clients, "signals.v1", from_start=True, lasting=timedelta(seconds=100)):
        data = decode(message.value() or b"").data
        if isinstance(data, ProcessState) and data.state is ProcessStateName.RUNNING:
            started = started or data
        if isinstance(data, ProcessExit) and started is not None:
            return started, data
    raise AssertionError(f"no exit was told; started: {started}")


def kubelet_pod(kubelet: Kubelet, namespace: str) -> str:
    (found,) = [name for where, name in kubelet.pods() if where == namespace]
    return found
