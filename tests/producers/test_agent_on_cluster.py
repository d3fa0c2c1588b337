"""The node agent as a process on a real control plane: a supervisor in a real pod obeys what stands on its pod; kills lose nothing."""

import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from runtime import paths
from runtime.kubernetes import Cluster
from sandbox import tied_process
from sandbox.control_plane import ControlPlane
from sandbox.kafka_server import KafkaBroker
from sandbox.kubelet import Kubelet
from sandbox.ports import free_ports
from schemas import cluster as words
from schemas.cluster import Desired, ProcessOrder, RepairAnswer, RepairOrder
from schemas.envelope import Event, decode
from schemas.signals import (
    ChipFault,
    Milestone,
    ProcessExit,
    ProcessState,
    ProcessStateName,
    RepairResult,
)
from supervisor.build import build
from tests.real.kubernetes import NewKubelet, stand_in_at_length

PATIENCE = 40.0
CHIPS = "huawei.com/Ascend910"
CODE = "xid:48"
TOOL = Path(__file__).resolve().parents[1] / "actuators" / "node_agent" / "simulated_chip.py"


class World:
    """A node with its agent, which is killed and started again."""

    def __init__(
        self,
        folder: Path,
        short: Path,
        plane: ControlPlane,
        api: Cluster,
        namespace: str,
        kubelet: Kubelet,
        kafka: KafkaBroker,
        topic: str,
    ) -> None:
        self.folder = folder
        self.short = short  # a socket's path has a hundred bytes
        self.api = api
        self.namespace = namespace
        self.kubelet = kubelet
        self.node = kubelet.name
        self.uid = str(api.get(paths.nodes(kubelet.name))["metadata"]["uid"])
        self.bootstrap = kafka.bootstrap
        self.prefix = f"{topic}."
        self.log = folder / "kern.log"
        self.log.touch()
        self.chip = short / "chip.json"
        self.chip.write_text(json.dumps({"ring-0": {"codes": [CODE], "on_reset": "heal", "resets": 0}}))
        units = short / "units.json"
        units.write_text(json.dumps({"ring-0": {"chips": ["chip-0"], "devices": [str(self.chip)]}}))
        tool = [sys.executable, str(TOOL), str(self.chip)]
        self.env = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "RELIGHT_CLUSTER": "test",
            "RELIGHT_NODE__NAME": self.node,
            "RELIGHT_NODE__UID": self.uid,
            "RELIGHT_ON_CLUSTER": "true",
            "RELIGHT_KUBERNETES__KUBECONFIG": str(plane.kubeconfig),
            "RELIGHT_KAFKA__BOOTSTRAP": self.bootstrap,
            "RELIGHT_TOPICS__PREFIX": self.prefix,
            "RELIGHT_SPOOL__FOLDER": str(folder / "state"),
            "RELIGHT_SOURCES__KERNEL_LOG": "false",
            "RELIGHT_SOURCES__KERNEL_LOG_FILES": json.dumps([str(self.log)]),
            "RELIGHT_SOURCES__LOOK_EVERY": "20ms",
            "RELIGHT_SUPERVISORS__SOCKET": str(short / "agent" / "s"),
            "RELIGHT_SUPERVISORS__PEERS_FROM": "namespaces",
            "RELIGHT_SUPERVISORS__PEERS_FOLDER": str(folder / "kubelets" / self.node / "process-namespaces"),
            "RELIGHT_REPAIR__COMMAND": json.dumps([*tool, "reset", "{unit}"]),
            "RELIGHT_REPAIR__CHECK": json.dumps([*tool, "codes", "{unit}"]),
            "RELIGHT_REPAIR__UNITS": str(units),
            "RELIGHT_REPAIR__MUST_SEE_ALL": "false",
        }
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        name = f"{self.prefix}signals.v1"
        made = NewTopic(name, num_partitions=1, replication_factor=1)
        admin.create_topics([made])[name].result(20)
        build(short / "supervisor.pyz")
        (short / "agent").mkdir()

    @contextlib.contextmanager
    def agent(self) -> Iterator[Any]:
        with (self.folder / "agent.log").open("ab") as log:
            process = tied_process.start(
                [sys.executable, "-m", "relight.cli", "node-agent"], env=self.env, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def pod(self, name: str, *, devices: int = 0) -> str:
        """A supervised pod on our node; its UID."""
        body = {"apiVersion": "v1", "kind": "Pod", **self._template(devices)}
        body["metadata"] |= {"name": name, "namespace": self.namespace, "labels": {words.RANK_LABEL: "5"}}
        return str(self.api.create(paths.pods(self.namespace), body)["metadata"]["uid"])

    def job(self, name: str, *command: str, size: int) -> None:
        """A Job whose supervised pods are on our node, and are made again when they fail."""
        spec = {
            "completionMode": "Indexed",
            "completions": size,
            "parallelism": size,
            "backoffLimit": 9,
            "template": self._template(0, command),
        }
        self.api.create(paths.jobs(self.namespace), {"metadata": {"name": name}, "spec": spec})

    def pods_of_rank(self, rank: int) -> list[Any]:
        """Oldest first."""
        found = self.api.list(paths.pods(self.namespace), labels=f"{words.RANK_LABEL}={rank}").items
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def phase_of(self, rank: int) -> str:
        """Of the first pod it had."""
        return str(self.pods_of_rank(rank)[0]["status"]["phase"])

    def _template(self, devices: int, command: Sequence[str] = ("sleep", "600")) -> dict[str, Any]:
        field = {"fieldRef": {"fieldPath": "metadata.uid"}}
        env = {
            "RELIGHT_HA": "on",
            "RELIGHT_RUN": "run-1",
            "RELIGHT_SOCKET": "/agent/s",
            "RELIGHT_VOLUME": "/volume",
            "RELIGHT_CHECK_ROOT_GIB": "0",
            "RELIGHT_CHECK_SHM_GIB": "0",
            "RELIGHT_CHECK_RDMA": "off",
        }
        return {
            "metadata": {"annotations": {words.RUN: "run-1", words.EPOCH: "1"}},
            "spec": {
                "nodeName": self.node,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "trainer",
                        "image": "ignored",
                        "command": [sys.executable, "/relight/supervisor.pyz", "--", *command],
                        "env": [
                            {"name": "RELIGHT_POD_UID", "valueFrom": field},
                            *({"name": name, "value": value} for name, value in env.items()),
                        ],
                        "resources": {"limits": {CHIPS: str(devices)}} if devices else {},
                        "volumeMounts": [
                            {"name": "agent", "mountPath": "/agent"},
                            {"name": "relight", "mountPath": "/relight"},
                            {"name": "volume", "mountPath": "/volume"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "agent", "hostPath": {"path": str(self.short / "agent")}},
                    {"name": "relight", "hostPath": {"path": str(self.short)}},
                    {"name": "volume", "emptyDir": {}},
                ],
            },
        }

    def want(self, name: str, state: ProcessOrder, attempt: int) -> None:
        until = datetime.now(UTC) + timedelta(minutes=5) if state is ProcessOrder.STOP else None
        order = Desired(epoch=1, attempt=attempt, state=state, until=until, otherwise="rerun", grace=1)
        body = {"metadata": {"annotations": {words.DESIRED: order.to_text()}}}
        self.api.patch(paths.pods(self.namespace, name), body)

    def events(self) -> list[Event]:
        """Everything told so far, once by origin."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "none", "fetch.wait.max.ms": 10}
        )
        at = TopicPartition(f"{self.prefix}signals.v1", 0, 0)
        _, high = consumer.get_watermark_offsets(at, timeout=10)
        consumer.assign([at])
        found: dict[str | None, Event] = {}
        for _ in range(high):
            message = consumer.poll(10)
            assert message is not None
            value = message.value()
            assert value is not None
            event = decode(value)
            found.setdefault(event.origin, event)
        consumer.close()
        return list(found.values())

    def states(self) -> set[tuple[ProcessStateName, int]]:
        return {
            (event.data.state, event.data.attempt)
            for event in self.events()
            if isinstance(event.data, ProcessState)
        }

    def comes(self, what: Callable[[], bool], said: str) -> None:
        ends = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < ends, f"{said}: " + (self.folder / "agent.log").read_text()[-4000:]
            time.sleep(0.1)


@pytest.fixture
def world(
    tmp_path: Path,
    cluster: ControlPlane,
    api: Cluster,
    namespace: str,
    new_kubelet: NewKubelet,
    kafka: KafkaBroker,
    topic_name: str,
) -> Iterator[World]:
    short = Path(tempfile.mkdtemp(prefix="relight-"))
    kubelet = new_kubelet(devices={CHIPS: 2})
    yield World(tmp_path, short, cluster, api, namespace, kubelet, kafka, topic_name[-40:])
    shutil.rmtree(short)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_desired_state_reaches_a_supervisor_and_its_answers_are_stamped_by_the_api(world: World) -> None:
    uid = world.pod("rank-5", devices=2)
    with world.agent():
        world.comes(lambda: (ProcessStateName.RUNNING, 0) in world.states(), "it runs")
        asked = time.monotonic()
        world.want("rank-5", ProcessOrder.STOP, 1)
        world.comes(lambda: (ProcessStateName.STOPPED, 1) in world.states(), "it is stopped")
        stopped = time.monotonic() - asked
        world.want("rank-5", ProcessOrder.RUN, 1)
        world.comes(lambda: (ProcessStateName.RUNNING, 1) in world.states(), "it runs again")
        line = f"{datetime.now(UTC).isoformat()} n kernel: NVRM: Xid (PCI:0000:05:00): 48, pid=1, name=x\n"
        with world.log.open("a") as log:
            log.write(line)
        world.comes(lambda: any(isinstance(one.data, ChipFault) for one in world.events()), "a fault")
    told = [one.data for one in world.events()]

    assert stopped < 10
    placements = [one.placement for one in told if isinstance(one, ProcessState | ProcessExit | Milestone)]
    assert {(p.run, p.pod_uid, p.pod, p.namespace, p.rank, p.epoch, p.container) for p in placements} == {
        ("run-1", uid, "rank-5", world.namespace, 5, 1, "trainer")
    }
    (fault,) = [one for one in told if isinstance(one, ChipFault)]
    assert fault.placement is not None  # the pod holds every chip of the node
    assert (fault.placement.run, fault.placement.pod_uid) == ("run-1", uid)
    (ended,) = [one for one in told if isinstance(one, ProcessExit)]
    assert (ended.signal, ended.start, ended.ordered_attempt) == (15, 1, 1)
    starts = [one.start for one in told if isinstance(one, ProcessState) and one.state == "running"]
    assert set(starts) == {1, 2}


@pytest.mark.slow
@pytest.mark.timeout(240)
@stand_in_at_length("processes that start and wait")
def test_an_agent_killed_at_any_moment_loses_no_report_and_tells_none_twice(world: World) -> None:
    moments = random.Random(4)
    rounds = 3
    world.pod("rank-5")
    for attempt in range(rounds + 1):
        with world.agent():
            world.comes(lambda a=attempt: (ProcessStateName.RUNNING, a) in world.states(), "runs")  # type: ignore[misc]
            if attempt == rounds:
                break
            world.want("rank-5", ProcessOrder.STOP, attempt + 1)
            time.sleep(moments.uniform(0.0, 1.5))
        with world.agent():
            world.comes(lambda a=attempt: (ProcessStateName.STOPPED, a + 1) in world.states(), "stopped")  # type: ignore[misc]
            world.want("rank-5", ProcessOrder.RUN, attempt + 1)
            time.sleep(moments.uniform(0.0, 0.5))

    events = world.events()
    assert [id_ for id_, count in Counter(event.id for event in events).items() if count > 1] == []
    exits = [event.data.start for event in events if isinstance(event.data, ProcessExit)]
    assert exits == list(range(1, rounds + 1))
    begun = [event.data for event in events if isinstance(event.data, Milestone)]
    assert len(begun) == rounds + 1


@pytest.mark.slow
@pytest.mark.timeout(120)
@stand_in_at_length("processes that start and wait")
def test_it_says_how_it_is_and_ends_in_good_order(world: World) -> None:
    (port,) = free_ports(1)
    world.env["RELIGHT_OBSERVE__PORT"] = str(port)
    world.pod("rank-5")

    def page(path: str) -> str:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return str(answer.read().decode())
        return ""

    with world.agent() as agent:
        world.comes(lambda: "relight_agent_supervisor_lines 1.0" in page("/metrics"), "a line is up")
        world.comes(lambda: "relight_agent_pods 1.0" in page("/metrics"), "its pod is known")
        world.comes(lambda: page("/healthz") == "ok\n", "all is well")
        agent.terminate()
        assert agent.wait(PATIENCE) == 0
    assert not (world.short / "agent" / "s").exists()


@pytest.mark.slow
@pytest.mark.timeout(120)
@stand_in_at_length("processes that start and wait")
def test_a_repair_order_on_the_node_is_carried_out_once_and_answered(world: World) -> None:
    order = RepairOrder(
        unit="ring-0",
        chips=("chip-0",),
        codes=(CODE,),
        incident="incident-1",
        attempt=1,
        run="run-1",
        until=datetime.now(UTC) + timedelta(minutes=2),
    )
    key = words.unit_key(words.REPAIR, "ring-0")
    world.api.patch(paths.nodes(world.node), {"metadata": {"annotations": {key: order.to_text()}}})

    def answer() -> RepairAnswer | None:
        annotations = world.api.get(paths.nodes(world.node))["metadata"]["annotations"]
        text = annotations.get(words.unit_key(words.REPAIRED, "ring-0"))
        return None if text is None else RepairAnswer.from_text(text)

    with world.agent():
        world.comes(lambda: (found := answer()) is not None and found.result == "healed", "healed")
    with world.agent():  # the next start finds it done
        world.comes(lambda: any(isinstance(one.data, RepairResult) for one in world.events()), "told")
        time.sleep(1.0)

    told = [one.data for one in world.events() if isinstance(one.data, RepairResult)]
    assert [(one.result, one.incident, one.attempt) for one in told] == [("healed", "incident-1", 1)]
    assert json.loads(world.chip.read_bytes())["ring-0"] == {"codes": [], "on_reset": "heal", "resets": 1}


@pytest.mark.slow
@pytest.mark.timeout(180)
@stand_in_at_length("processes that start and wait")
def test_the_replacement_of_an_oom_killed_pod_waits_for_an_order_or_for_as_long_as_is_set(
    world: World,
) -> None:
    waits = 8.0
    world.env["RELIGHT_SUPERVISORS__REPLACEMENT_WAITS"] = f"{waits:.0f}s"

    def runs(uid: str) -> list[ProcessState]:
        told = [one.data for one in world.events()]
        ours = [one for one in told if isinstance(one, ProcessState) and one.placement.pod_uid == uid]
        return [one for one in ours if one.state == "running"]

    def uid_of(pod: Any) -> str:
        return str(pod["metadata"]["uid"])

    def held(uid: str) -> bool:
        lines = (world.folder / "agent.log").read_text().splitlines()
        return any("its start waits" in line and uid in line for line in lines)

    # The Job controller waits before it makes pods anew, and forgets that once a pod of the Job succeeds: rank 2 is there for that.
    enough = world.short / "enough"
    train = f"[ $JOB_COMPLETION_INDEX = 2 ] || exec sleep 600; until [ -e {enough} ]; do sleep 0.05; done"

    with world.agent():
        world.job("train", "sh", "-c", train, size=3)
        world.comes(lambda: all(len(world.pods_of_rank(rank)) == 1 for rank in (0, 1, 2)), "pods")
        *first, third = [world.pods_of_rank(rank)[0] for rank in (0, 1, 2)]
        world.comes(lambda: all(runs(uid_of(pod)) for pod in (*first, third)), "all run")
        assert not any(held(uid_of(pod)) for pod in first)
        name = str(first[0]["metadata"]["name"])
        world.want(name, ProcessOrder.STOP, 1)
        world.comes(lambda: (ProcessStateName.STOPPED, 1) in world.states(), "stopped")
        world.want(name, ProcessOrder.RUN, 1)
        world.comes(lambda: (ProcessStateName.RUNNING, 1) in world.states(), "runs again, in place")
        for pod in first:
            world.kubelet.run_out_of_memory(world.namespace, pod["metadata"]["name"], "trainer")
        for rank in (0, 1):
            world.comes(lambda rank=rank: world.phase_of(rank) == "Failed", "it was killed")  # type: ignore[misc]
        enough.touch()

        world.comes(lambda: all(len(world.pods_of_rank(rank)) == 2 for rank in (0, 1)), "replacements")
        ordered, alone = (world.pods_of_rank(rank)[1] for rank in (0, 1))
        world.comes(lambda: held(uid_of(alone)) and held(uid_of(ordered)), "both are held")
        begun = time.monotonic()
        time.sleep(1.0)
        assert not runs(uid_of(ordered))
        world.want(ordered["metadata"]["name"], ProcessOrder.RUN, 2)
        world.comes(lambda: bool(runs(uid_of(ordered))), "the order lets it run")
        assert not runs(uid_of(alone))
        world.comes(lambda: bool(runs(uid_of(alone))), "it runs by itself")
        assert time.monotonic() - begun > waits / 2

    assert runs(uid_of(ordered))[0].attempt == 2
    assert runs(uid_of(alone))[0].attempt == 0
    told = [one.data for one in world.events() if isinstance(one.data, ProcessExit)]
    exits = [one for one in told if one.placement.pod_uid != uid_of(third)]
    killed = {(one.placement.pod_uid, one.start, one.exit_code) for one in exits if one.oom}
    assert killed == {(uid_of(first[0]), 2, 137), (uid_of(first[1]), 1, 137)}  # numbered by their supervisors
    assert len(exits) == 3  # with the one that was ordered
