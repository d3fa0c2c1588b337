"""What `benchmarks.isolation` measures on: hollow nodes, one watch of their taints, calls counted at the API server, and the bare side.

All taints are seen by one watch, so no side reports on itself; what relight calls is what the server says was called.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO, Final, cast

from confluent_kafka import Producer

from actuators.settings import ActuatorSettings
from benchmarks.bare_isolation import Work
from benchmarks.streams import PARTITIONS, Bench
from runtime import paths
from runtime.informer import Difference, Informer
from runtime.kubernetes import Cluster, Object
from sandbox import tied_process
from sandbox.control_plane import ControlPlane
from schemas import topics
from schemas.cluster import ISOLATED
from schemas.envelope import encode, make_event
from schemas.ids import derive_id, mailbox_key, node_subject
from schemas.signals import ChipFault, ChipRef, FaultState, NodeRef

HANDS: Final = 16
"""Threads that set the scene."""
AS_MANY: Final = int(ActuatorSettings.model_fields["subjects_at_once"].default)
"""Threads of the bare side: as many as the actuators have, with a connection each as they have."""
PATIENCE: Final = 120.0
SETTLED: Final = 1.5
BROKEN: Final = "80E18402"
"""Row isolation used up (ascend): isolate class."""
KINDS: Final = frozenset({"nodes", "pods", "events", "leases"})
OF_THE_SERVER: Final = frozenset({"PUT leases", "POST leases", "DELETE leases"})
"""It renews a Lease of its own."""
COUNTED: Final = re.compile(
    r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>[0-9.e+]+)$", re.MULTILINE
)
LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def name_of(node: Object) -> str:
    """Name of an object."""
    return str(node["metadata"]["name"])


class Taints:
    """When each node was first seen with our taint, by one watch; asked anew for each measurement."""

    def __init__(self, api: Cluster) -> None:
        self._seen: dict[str, float] = {}
        self._changed = threading.Condition()
        self._informer = Informer(api, paths.nodes(), self._take)
        threading.Thread(target=self._informer.run, name="taints", daemon=True).start()
        self._informer.synced.wait(PATIENCE)

    def forget(self) -> None:
        """Begin anew."""
        with self._changed:
            self._seen.clear()

    def all_of(self, names: Sequence[str]) -> dict[str, float]:
        """Wait for all of them; when each came. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._seen.keys() >= set(names), PATIENCE):
                missing = sorted(set(names) - self._seen.keys())
                raise TimeoutError(f"{len(missing)} of {len(names)} nodes were not isolated: {missing[:3]}")
            return {name: self._seen[name] for name in names}

    def stop(self) -> None:
        """End watching."""
        self._informer.stop()

    def _take(self, difference: Difference) -> None:
        node = difference.new
        if node is None or not any(taint["key"] == ISOLATED for taint in node["spec"].get("taints") or []):
            return
        with self._changed:
            self._seen.setdefault(str(node["metadata"]["name"]), time.monotonic())
            self._changed.notify_all()


class Calls:
    """What was called at the API server, counted by itself."""

    def __init__(self, plane: ControlPlane) -> None:
        self._request = urllib.request.Request(  # noqa: S310 - a server of our own, by https
            f"{plane.url}/metrics", headers={"Authorization": f"Bearer {plane.admin_token}"}
        )
        self._context = ssl.create_default_context(cafile=str(plane.ca_file))

    def now(self) -> Counter[str]:
        """Calls of each kind so far; watches, and what is no object of ours, are not among them."""
        with urllib.request.urlopen(self._request, context=self._context) as answer:  # noqa: S310
            text = answer.read().decode()
        found: Counter[str] = Counter()
        for match in COUNTED.finditer(text):
            labels = dict(LABEL.findall(match["labels"]))
            call = f"{labels['verb']} {labels['resource']}"
            if labels["resource"] in KINDS and labels["verb"] != "WATCH" and call not in OF_THE_SERVER:
                found[call] += int(float(match["count"]))
        return found


@dataclass
class Scene:
    """All that measures, and what is measured."""

    bench: Bench
    api: Cluster
    plane: ControlPlane
    taints: Taints
    calls: Calls
    hands: ThreadPoolExecutor
    folder: Path

    def nodes(self, tag: str, count: int) -> list[Object]:
        """Hollow nodes, Ready."""

        def make(number: int) -> Object:
            path = paths.nodes(f"{tag}-{number}")
            self.api.create(paths.nodes(), {"metadata": {"name": f"{tag}-{number}"}})
            ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}
            self.api.patch(f"{path}/status", {"status": ready})
            # A new node is tainted until its lifecycle controller, of which there is none here, has seen it.
            return self.api.patch(path, {"spec": {"taints": None}})

        return list(self.hands.map(make, range(count)))

    def release(self, nodes: Sequence[Object]) -> None:
        """As they were."""
        clean = {"spec": {"taints": None, "unschedulable": None}, "metadata": {"annotations": None}}
        list(self.hands.map(lambda node: self.api.patch(paths.nodes(name_of(node)), clean), nodes))
        self.taints.forget()

    def remove(self, nodes: Sequence[Object]) -> None:
        """Gone: the next ones are others."""
        list(self.hands.map(lambda node: self.api.delete(paths.nodes(name_of(node))), nodes))

    def fault(self, node: Object, topic: str = "") -> None:
        """Append the signal of a fault that isolates it, to relight's signals where no other topic is named."""
        ref = NodeRef(uid=node["metadata"]["uid"], name=name_of(node))
        chip = ChipRef(id=f"{name_of(node)}-npu-0")
        signal = ChipFault(node=ref, chip=chip, namespace="ascend", code=BROKEN, state=FaultState.ONCE)
        event = make_event(
            signal, id=derive_id("bench", ref.uid), source="/bench", subject=node_subject(ref.uid),
            time=datetime.now(UTC), cluster="c",
        )  # fmt: skip
        self.producer.produce(
            topic or self.bench.name(topics.SIGNALS), encode(event), mailbox_key("c", event.subject)
        )
        self.producer.poll(0)

    def settled_calls(self) -> Counter[str]:
        """Once Events, which are written beside the work, are written too."""
        before, now = Counter[str](), self.calls.now()
        while now != before:
            time.sleep(SETTLED)
            before, now = now, self.calls.now()
        return now

    @cached_property
    def producer(self) -> Producer:
        """One for all signals."""
        return self.bench.clients.producer()

    @contextlib.contextmanager
    def bare(self, work: Work) -> Iterator[Callable[[], None]]:
        """The bare side, ready; what is given lets it go."""
        log = self.folder / "bare.log"
        command = [sys.executable, "-m", "benchmarks.bare_isolation"]
        with log.open("ab") as said:
            process = tied_process.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        asks, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)

        def tell(line: str) -> None:
            asks.write(line.encode() + b"\n")
            asks.flush()

        try:
            tell(json.dumps(asdict(work)))
            if answers.readline().strip() != b"ready":
                raise RuntimeError(f"the bare side did not start: {log.read_text(encoding='utf-8')}")
            yield lambda: tell("go")
            if process.wait(PATIENCE) != 0:
                raise RuntimeError(f"the bare side failed: {log.read_text(encoding='utf-8')}")
        finally:
            process.kill()
            process.wait()

    def work(self, mode: str, nodes: Sequence[Object], calls: Counter[str], topic: str = "") -> Work:
        """What the bare side is to do."""
        return Work(
            kubeconfig=str(self.plane.kubeconfig), mode=mode, nodes=[name_of(node) for node in nodes],
            calls=dict(calls), hands=AS_MANY, bootstrap=self.bench.env["RELIGHT_KAFKA__BOOTSTRAP"], topic=topic,
            partitions=PARTITIONS,
        )  # fmt: skip
