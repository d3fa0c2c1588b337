"""Scenarios played on the real API server with Kubernetes' own controllers and on the stand-in with ours; at length also with ours on the first.

One control plane for both, one after the other: starting it is most of the time. All scenarios of a file are played beside one another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
    items = [item for item in request.session.items if "outcomes" in getattr(item, "fixturenames", ())]
    files = _scenarios(items)
    found = Outcomes()
    folder = tmp_path_factory.mktemp("three")

    def on_the_real_one() -> None:
        plane = ControlPlane(folder / "real", OPTIONS)
        try:
            api = client(plane.start().kubeconfig)
            play(files, api, "theirs", found)
            if any(item.get_closest_marker("soak") for item in items):
                for replaced in (plane.controller_manager, plane.scheduler):
                    if replaced is not None:
                        replaced.kill()
                with ours_on(api):
                    play(files, api, "ours", found)
        finally:
            plane.kill()

    def on_the_stand_in() -> None:
        with ClusterStandIn(folder / "standin", OPTIONS) as standin:
            play(files, client(standin.kubeconfig), "standin", found)

    with ThreadPoolExecutor(2, "clusters") as pool:
        for played in [pool.submit(on_the_real_one), pool.submit(on_the_stand_in)]:
            played.result()
    return found


def _scenarios(items: list[pytest.Item]) -> list[list[Scenario]]:
    """Those of the tests that are run, by the file they are from: scenarios with nodes do not share a cluster with others."""
    files: dict[str, list[Scenario]] = {}
    for item in items:
        scenario = getattr(getattr(item, "module", None), "SCENARIOS", {}).get(item.name)
        if scenario is not None and scenario not in files.setdefault(scenario.__module__, []):
            files[scenario.__module__].append(scenario)
    return list(files.values())


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
