"""Which broker and which cluster a world stands on: the real ones, or those that need nothing but Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from sandbox import control_plane, kafka_jars
from sandbox.cluster_standin.plane import ClusterStandIn
from sandbox.control_plane import ControlPlane, NodeLifecycle
from sandbox.control_plane import Options as PlaneOptions
from sandbox.embedded_broker import EmbeddedBroker
from sandbox.errors import PartMissing
from sandbox.kafka_server import KafkaBroker
from sandbox.stage.parts import Broker, Plane

QUICK_LIFE: Final = NodeLifecycle(
    monitor_grace=timedelta(seconds=20),
    monitor_period=timedelta(seconds=1),
    startup_grace=timedelta(seconds=20),
)
"""A node that says nothing is NotReady after 20 s, not the better part of a minute; sooner, and a busy laptop takes its own nodes for lost."""


@dataclass(frozen=True)
class Parts:
    """A broker and a cluster, not started yet."""

    told: str
    """What they are, in a few words."""
    broker: Broker
    plane: Plane
    start: tuple[Callable[[], object], ...]
    """What starts them; they do not need each other."""
    stop: tuple[Callable[[], object], ...]

    def end(self) -> None:
        """End them at once: nothing in them is of use any more."""
        for stop in self.stop:
            stop()


def _real(folder: Path) -> Parts:
    """Kafka and Kubernetes' control plane. Raises PartMissing with how to get what is missing."""
    lacking = [text for text in (kafka_jars.missing(), control_plane.missing()) if text is not None]
    if lacking:
        raise PartMissing("; ".join(lacking))
    broker = KafkaBroker(folder / "kafka")
    plane = ControlPlane(folder / "kubernetes", PlaneOptions(node_lifecycle=QUICK_LIFE))
    return Parts(
        "a real Kafka broker, a real Kubernetes control plane",
        broker,
        plane,
        (broker.start, plane.start),
        (broker.kill, plane.kill),
    )


def _embedded(folder: Path) -> Parts:
    """An in-process broker and a small API server: nothing but Python."""
    broker = EmbeddedBroker(folder / "kafka")
    plane = ClusterStandIn(folder / "kubernetes", PlaneOptions(node_lifecycle=QUICK_LIFE))
    return Parts(
        "the embedded broker, the embedded cluster",
        broker,
        plane,
        (broker.start, plane.start),
        (broker.kill, plane.kill),
    )


def choose(*, real: bool) -> Callable[[Path], Parts]:
    """What makes the parts in a folder."""
    return _real if real else _embedded
