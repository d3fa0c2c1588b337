"""Many nodes fault: from the signal to the taint, through router, recovery and actuators, beside bare loops that make the same calls.

Real Kafka, real API server, hollow nodes (objects without a kubelet), guards and the client's rate opened. All taints are seen by one watch, so
no side reports on itself. What relight calls is counted at the API server, and the bare side makes as many of each kind, with the same
client and as many threads, in a process of its own (`benchmarks.bare_isolation`):

- *at once*: the signals of all nodes are appended together; the loop has its work list already.
- *one by one*: signals at a steady rate; the bare chain is two Faust agents that pass each event on and a consumer that makes the calls.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from confluent_kafka.cimpl import NewTopic

from benchmarks.bare_isolation import CHAIN, LEASE, LOOP, NAMESPACE, PATCH
from benchmarks.hollow_nodes import HANDS, PATIENCE, Calls, Scene, Taints, name_of
from benchmarks.report import Row
from benchmarks.streams import PARTITIONS, Bench
from runtime import paths
from runtime.kubernetes import Cluster, Object
from runtime.settings import KubernetesSettings
from sandbox import kafka_jars
from sandbox.control_plane import ControlPlane, Options
from sandbox.kafka_server import KafkaBroker

AT_ONCE: Final = 200
ROUNDS: Final = 3
RATE: Final = 50
SECONDS: Final = 5
AIM_AT_ONCE: Final = "1.5"
AIM_ONE_BY_ONE: Final = "2"
OPENED: Final = {
    "RELIGHT_CONSUMER__COMMIT_INTERVAL": "200ms",
    "RELIGHT_KUBERNETES__RATE": "100000",
    "RELIGHT_KUBERNETES__BURST": "100000",
    "RELIGHT_ACTING__ISOLATION__MOST": "100000",
    "RELIGHT_ACTING__ISOLATION__SHARE": "1",
    "RELIGHT_ACTING__ISOLATION__FEWEST_LEFT": "0",
    "RELIGHT_ACTING__ISOLATION__MOST_AN_HOUR": "0",
    "RELIGHT_ACTING__ISOLATION__MOST_RUNS": "0",
}

# ------------------------------------------------------------------ at once


def at_once(scene: Scene) -> list[Row]:
    """Fault of all nodes to the last taint, three times, each beside the same calls and beside the write alone."""
    took: dict[str, list[float]] = {"relight": [], LOOP: [], PATCH: []}
    calls: Counter[str] = Counter()
    for number in range(ROUNDS):
        nodes = scene.nodes(f"once-{number}", AT_ONCE)
        before = scene.calls.now()
        took["relight"].append(_fault_all(scene, nodes))
        calls = scene.settled_calls() - before
        for mode in (LOOP, PATCH):
            scene.release(nodes)
            took[mode].append(_bare_all(scene, nodes, mode, calls))
        scene.remove(nodes)
    ours, loop, patch = (statistics.median(each) for each in took.values())
    same = f"the same {sum(calls.values()):,} calls: {loop:.2f} s"
    what = f"{AT_ONCE} nodes fault, to the last taint"
    return [
        Row("isolation", what, ours, "s", same, ours / loop, AIM_AT_ONCE),
        Row("isolation", what, ours, "s", f"the PATCHes alone: {patch:.2f} s", ours / patch),
    ]


def _fault_all(scene: Scene, nodes: Sequence[Object]) -> float:
    began = time.monotonic()
    for node in nodes:
        scene.fault(node)
    scene.producer.flush(PATIENCE)
    return max(scene.taints.all_of([name_of(node) for node in nodes]).values()) - began


def _bare_all(scene: Scene, nodes: Sequence[Object], mode: str, calls: Counter[str]) -> float:
    with scene.bare(scene.work(mode, nodes, calls)) as let_go:
        began = time.monotonic()
        let_go()
        return max(scene.taints.all_of([name_of(node) for node in nodes]).values()) - began


# ------------------------------------------------------------------ one by one


def one_by_one(scene: Scene) -> list[Row]:
    """Signal appended to node tainted at a steady rate: both sides in turn, three times, so that what else the machine does weighs on both."""
    ours: list[float] = []
    bare: list[float] = []
    with _chain(scene) as (begin, end):
        for number in range(ROUNDS):
            nodes = scene.nodes(f"one-{number}", RATE * SECONDS)
            before = scene.calls.now()
            ours += _steadily(scene, nodes)
            calls = scene.settled_calls() - before
            scene.release(nodes)
            with scene.bare(scene.work(CHAIN, nodes, calls, end)):
                bare += _steadily(scene, nodes, begin)
    what = f"signal to taint at {RATE}/s"
    return [
        Row(
            "isolation",
            f"{what}, {name}",
            mine,
            "ms",
            f"bare chain: {theirs:.0f} ms",
            mine / theirs,
            AIM_ONE_BY_ONE,
        )
        for name, mine, theirs in (
            ("P50", statistics.median(ours), statistics.median(bare)),
            ("P99", _p99(ours), _p99(bare)),
        )
    ]


def _p99(waits: Sequence[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)]


def _steadily(scene: Scene, nodes: Sequence[Object], topic: str = "") -> list[float]:
    """Milliseconds from each signal to its taint."""
    asked: dict[str, float] = {}
    began = time.monotonic()
    for number, node in enumerate(nodes):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        asked[name_of(node)] = time.monotonic()
        scene.fault(node, topic)
    scene.producer.flush(PATIENCE)
    seen = scene.taints.all_of(list(asked))
    return [(seen[name] - at) * 1000 for name, at in asked.items()]


# ------------------------------------------------------------------ what is measured


@contextlib.contextmanager
def _chain(scene: Scene) -> Iterator[tuple[str, str]]:
    """Two bare agents behind each other; the topics where it begins and ends."""
    names = ["bench.passed-never", "bench.passed-once", "bench.passed-twice"]
    admin = scene.bench.clients.admin()
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        future.result(20)
    agents = [
        scene.bench.start(
            ["benchmarks.bare_agent", "worker", "--without-web"],
            {"BARE_GROUP": f"bench.bare-{target}", "BARE_FROM": source, "BARE_TO": target},
        )
        for source, target in itertools.pairwise(names)
    ]
    try:
        first = scene.nodes("chain", 2 * PARTITIONS)
        for node in first:
            scene.fault(node, names[0])
        scene.producer.flush(PATIENCE)
        _until_it_passes(scene, names)
        scene.remove(first)
        yield names[0], names[-1]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()


def _until_it_passes(scene: Scene, names: Sequence[str]) -> None:
    """Both have their partitions, and all that stood at the beginning is through."""
    deadline = time.monotonic() + PATIENCE
    while scene.bench.ends(names[-1]) != scene.bench.ends(names[0]):
        if time.monotonic() > deadline:
            raise TimeoutError("the bare agents do not pass anything on")
        time.sleep(0.2)


@contextlib.contextmanager
def _relight(bench: Bench, plane: ControlPlane) -> Iterator[None]:
    """Its three processes."""
    more = {**OPENED, "RELIGHT_KUBERNETES__KUBECONFIG": str(plane.kubeconfig), "RELIGHT_CLUSTER": "c"}
    made = [bench.start(["relight.cli", name], more) for name in ("router", "recovery", "actuators")]
    try:
        yield
    finally:
        for process in made:
            process.kill()
            process.wait()


def rows() -> list[Row]:
    """Both ways of faulting."""
    kafka_jars.fetch()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(KafkaBroker(folder / "kafka"))
        options = Options(controller_manager=False, scheduler=False)
        plane = stack.enter_context(ControlPlane(folder / "cluster", options))
        bench = Bench(broker, "isolation.")
        bench.release()
        settings = KubernetesSettings(
            kubeconfig=plane.kubeconfig, rate=100_000, burst=100_000, connections=HANDS
        )
        api = Cluster(settings, "bench")
        api.create(paths.namespaces(), {"metadata": {"name": NAMESPACE}})
        api.create(paths.leases(NAMESPACE), {"metadata": {"name": LEASE}})
        taints = Taints(api)
        stack.callback(taints.stop)
        hands = stack.enter_context(ThreadPoolExecutor(HANDS))
        scene = Scene(bench, api, plane, taints, Calls(plane), hands, folder)
        stack.enter_context(_relight(bench, plane))
        _warm_up(scene)
        return [*at_once(scene), *one_by_one(scene)]


def _warm_up(scene: Scene) -> None:
    """All three work: a first node of each partition's was isolated."""
    nodes = scene.nodes("first", 2 * PARTITIONS)
    for node in nodes:
        scene.fault(node)
    scene.producer.flush(PATIENCE)
    scene.taints.all_of([name_of(node) for node in nodes])
    scene.remove(nodes)
