"""Scenarios played three times: on the real API server with Kubernetes' own controllers, on it with ours in their place, and on the stand-in.

One control plane for both, one after the other: starting it is most of the time. All scenarios of a file are played beside one another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.kubernetes import Cluster
from runtime.settings import KubernetesSettings
from sandbox import control_plane
from sandbox.cluster_standin import ClusterStandIn, controllers
from sandbox.control_plane import ControlPlane, NodeLifecycle, Options
from tests.real import parts
from tests.sandbox.cluster_standin.controllers.play import Outcomes, Scenario, play

LIFE = NodeLifecycle(
    monitor_grace=timedelta(seconds=3),
    monitor_period=timedelta(milliseconds=500),
    startup_grace=timedelta(seconds=3),
)
OPTIONS = Options(
    node_lifecycle=LIFE, unreachable_toleration=timedelta(seconds=1), patience=timedelta(seconds=120)
)


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What came of each scenario of the tests that are run."""
    parts.need("Kubernetes", control_plane.missing())
    wanted: dict[str, list[Scenario]] = {}
    for item in request.session.items:
        module = getattr(item, "module", None)
        known = (
            getattr(module, "SCENARIOS", {}).get(item.name)
            if "outcomes" in getattr(item, "fixturenames", ())
            else None
        )
        if known is not None:
            wanted.setdefault(str(item.path), []).append(known)
    files = list(wanted.values())
    found = Outcomes()
    folder = tmp_path_factory.mktemp("three")
    plane = ControlPlane(folder / "real", OPTIONS)
    try:
        plane.start()
        play(files, client(plane.kubeconfig), "theirs", found)
        for replaced in (plane.controller_manager, plane.scheduler):
            if replaced is not None:
                replaced.kill()
        with ours_on(client(plane.kubeconfig)):
            play(files, client(plane.kubeconfig), "ours", found)
    finally:
        plane.kill()
    with ClusterStandIn(folder / "standin", OPTIONS) as standin:
        play(files, client(standin.kubeconfig), "standin", found)
    return found


@contextmanager
def ours_on(api: Cluster) -> Iterator[None]:
    """Our controllers at work."""
    stop = threading.Event()
    working = threading.Thread(target=controllers.run, args=(api, LIFE, stop), name="ours")
    working.start()
    try:
        yield
    finally:
        stop.set()
        working.join()


def client(kubeconfig: Path) -> Cluster:
    return Cluster(
        KubernetesSettings(kubeconfig=kubeconfig, rate=1000, burst=1000, connections=40), "scenarios"
    )
