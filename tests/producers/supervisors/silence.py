"""A node whose agent listens to a training pod, in virtual time."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from producers.own_pods import OwnPod
from producers.settings import HangSettings
from producers.supervisors import line as words
from producers.supervisors.reports import Peer
from producers.supervisors.standstills import Edge, Standstills
from tests.producers.supervisors.supervised import own_pod

MINUTE = 60.0
HOUR = 60 * MINUTE
DEFAULT = 30 * MINUTE
DEVICES = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}


class Ear:
    """One line; who it is matters, nothing else."""

    def acknowledge(self, seq: int) -> None:
        raise AssertionError(seq)

    def end(self) -> None:
        raise AssertionError


class Scene:
    """One node's standstills; `pod` trains, and its line is up."""

    def __init__(self, **settings: Any) -> None:
        self.settings = HangSettings(**settings)
        self.clock = 5000.0
        self.wall = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.pods: dict[str, OwnPod] = {}
        self.pod = own_pod(container=DEVICES)
        self.pods["pod-1"] = self.pod
        self.heard = Standstills(self.settings, self.find, lambda: self.clock, lambda: self.wall)
        self.line = Ear()
        self.seq = 0

    def find(self, uid: str) -> OwnPod | None:
        return self.pods.get(uid)

    def peer(self, uid: str = "pod-1") -> Peer:
        pod = self.pods.get(uid, self.pod)
        placement = pod.placement("ab" * 32)
        assert placement is not None
        return Peer(pod, placement, "s")

    def change(self, **fields: Any) -> None:
        """The API says something new of the pod."""
        self.pods["pod-1"] = replace(self.pods["pod-1"], **fields)

    def hello(self, **fields: Any) -> None:
        """A new line."""
        said = {"state": "running", "ha": True, "launch": 1, "spool": "s", "hang_minutes": None, **fields}
        message = words.parse(json.dumps({"v": 1, "type": "hello", **said}).encode())
        assert isinstance(message, words.Hello), message
        self.line = Ear()
        self.heard.opened(self.line, self.peer(), message)

    def says(self, kind: str, *, line: Ear | None = None, uid: str = "pod-1", **fields: Any) -> None:
        """The supervisor of a pod, on this line."""
        said = {"v": 1, "type": kind, "launch": 1, **fields}
        if kind not in ("progress", "refused"):
            self.seq += 1
            said = {"seq": self.seq, **said}
        self.heard.heard(line or self.line, self.peer(uid), words.parse(json.dumps(said).encode()))

    def step(self, number: int = 1, **fields: Any) -> None:
        self.says("progress", step=number, **fields)

    def passes(self, seconds: float, *, looking: bool = True) -> list[Edge]:
        """Time, on both clocks; what the looks found."""
        found: list[Edge] = []
        ends = self.clock + seconds
        while self.clock < ends:
            passed = min(10.0, ends - self.clock)
            self.clock += passed
            self.wall += timedelta(seconds=passed)
            if looking:
                found += self.heard.look()
        return found

    def again(self) -> "Scene":
        """The agent was killed and starts anew, with what it kept."""
        kept = json.loads(json.dumps(self.heard.state()))
        self.heard = Standstills(self.settings, self.find, lambda: self.clock, lambda: self.wall)
        self.heard.restore(kept)
        return self


def training(**settings: Any) -> Scene:
    """It told its first step just now."""
    scene = Scene(**settings)
    scene.hello()
    scene.step()
    return scene


def states(edges: list[Edge]) -> list[str]:
    return [edge.state for edge in edges]
