"""The bare side of `benchmarks.isolation`: the same calls with the same client and as many threads, and nothing decided.

`python -m benchmarks.bare_isolation`, its work as JSON on standard input; says `ready`, and in the modes that have a work list waits for a line.
The writes are as relight's: the same marks, conditional on UID and version of the node it read. Events are written by a thread of their own,
as relight's are.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from actuators.nodes.isolation_marks import Hold, isolating
from runtime import paths
from runtime.kubernetes import Cluster, Object
from runtime.settings import KubernetesSettings
from schemas.cluster import FIELD_MANAGER

LOOP: Final = "loop"
"""All calls, for all nodes of a list."""
PATCH: Final = "patch"
"""The write alone; what is written was read before."""
CHAIN: Final = "chain"
"""All calls, for each node that comes in a topic."""
NAMESPACE: Final = "relight"
LEASE: Final = "bare-isolation"
PLACES: Final = "x" * 2_000
"""Some twenty reservations in the ledger: those whose taint was not seen yet."""
HOLD: Final = Hold("ascend/80E18402", "npu-0", "x" * 300)


@dataclass(frozen=True)
class Work:
    """What it is to do.

    Args:
        kubeconfig: way to the API server.
        mode: `LOOP`, `PATCH` or `CHAIN`.
        nodes: names; of a chain, as many as will come.
        calls: how many of each kind for all of them together, as ``"GET nodes"``.
        hands: threads.
        bootstrap, topic, partitions: what a chain reads, from its present end.
    """

    kubeconfig: str
    mode: str
    nodes: Sequence[str]
    calls: Mapping[str, int]
    hands: int
    bootstrap: str = ""
    topic: str = ""
    partitions: int = 0


@dataclass
class Caller:
    """Makes the calls; the n-th node's share of each kind comes with the n-th node."""

    api: Cluster
    work: Work
    events: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def shares(self, number: int) -> Iterator[str]:
        """Kinds of call that are due with this node, the write last."""
        every = len(self.work.nodes)
        for kind, count in sorted(self.work.calls.items(), key=lambda each: each[0] == "PATCH nodes"):
            due = (number + 1) * count // every - number * count // every
            yield from [kind] * due

    def isolate(self, number: int, name: str) -> None:
        """All that is due with one node."""
        node: Object = {}
        for kind in self.shares(number):
            match kind:
                case "GET nodes":
                    node = self.api.get(paths.nodes(name))
                case "LIST nodes":
                    self.api.list(paths.nodes())
                case "LIST pods":
                    self.api.list(paths.pods(NAMESPACE), fields=f"spec.nodeName={name}")
                case "GET leases":
                    self.api.get(paths.leases(NAMESPACE, LEASE))
                case "PATCH leases":
                    body = {"metadata": {"annotations": {"places": f"{number}{PLACES}"}}}
                    self.api.patch(paths.leases(NAMESPACE, LEASE), body, manager=FIELD_MANAGER)
                case "POST events":
                    self.events.submit(self._say, name, number)
                case "PATCH nodes":
                    self.write(node or self.api.get(paths.nodes(name)))
                case _:
                    raise ValueError(f"relight makes a call that the bare loop does not know: {kind}")

    def write(self, node: Object) -> None:
        """What isolates it."""
        metadata = node["metadata"]
        change = isolating(node, [HOLD])
        if change is None:
            raise ValueError(f"{metadata['name']} is isolated already")
        conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        change["metadata"] = {**change.get("metadata", {}), **conditions}
        self.api.patch(paths.nodes(metadata["name"]), change, manager=FIELD_MANAGER)

    def _say(self, name: str, number: int) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "name": name}
        event = {"metadata": {"name": f"{name}.{time.time_ns()}.{number}"}, "involvedObject": node}
        text = {"reason": "Isolated", "message": "Isolated for a benchmark" * 4, "type": "Warning"}
        self.api.create(paths.events("default"), {**event, **text})


def names_that_come(work: Work, consumer: Consumer) -> Iterator[str]:
    """Nodes of the events in the topic."""
    for _ in work.nodes:
        while (message := consumer.poll(1.0)) is None or message.error() is not None:
            pass
        told: Any = json.loads(message.value() or b"")
        yield told["data"]["node"]["name"]


def at_the_end(work: Work) -> Consumer:
    """Who reads what comes from now on."""
    consumer = Consumer(
        {"bootstrap.servers": work.bootstrap, "group.id": "bare", "enable.auto.commit": False}
    )
    places = [TopicPartition(work.topic, number, OFFSET_END) for number in range(work.partitions)]
    consumer.assign(places)
    consumer.poll(1.0)
    return consumer


def main() -> None:
    """Do what standard input asks for."""
    work = Work(**json.loads(sys.stdin.readline()))
    settings = KubernetesSettings(
        kubeconfig=Path(work.kubeconfig), rate=100_000, burst=100_000, connections=work.hands
    )
    caller = Caller(Cluster(settings, "bench"), work)
    names: Iterable[str] = work.nodes
    read: list[Object] = []
    if work.mode == CHAIN:
        names = names_that_come(work, at_the_end(work))
    if work.mode == PATCH:
        read = [caller.api.get(paths.nodes(name)) for name in work.nodes]
    print("ready", flush=True)
    if work.mode != CHAIN:
        sys.stdin.readline()
    with ThreadPoolExecutor(work.hands) as hands:
        if read:
            done = [hands.submit(caller.write, node) for node in read]
        else:
            done = [hands.submit(caller.isolate, number, name) for number, name in enumerate(names)]
        for each in done:
            each.result()
    caller.events.shutdown()


if __name__ == "__main__":
    main()
