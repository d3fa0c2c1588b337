"""A real Kubernetes control plane for tests: `cluster` shared by the session, `new_cluster` for a test that stops or configures it.

The shared one is left as it is found by giving each test a `namespace` of its own. Nodes belong to no namespace: a test that makes
some takes names and labels of its own.
"""

import contextlib
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest

from runtime import paths
from runtime.errors import ApiError, ApiNotFound
from runtime.kubernetes import Cluster
from runtime.settings import KubernetesSettings
from sandbox import control_plane
from sandbox.control_plane import ControlPlane, Options
from sandbox.kubelet import Backoff, Kubelet, NodeOptions, Timing, process
from tests.real import parts

LONGEST_NAMESPACE = 63  # a DNS label
ACCOUNT_SECONDS = 20.0
BRISK = Timing(heartbeat=timedelta(seconds=1), backoff=Backoff(base=timedelta(milliseconds=200)))


class NewCluster(Protocol):
    """Starts a control plane of the test's own; it ends with the test."""

    def __call__(self, options: Options | None = None) -> ControlPlane:
        """`options` say what it consists of and how it judges nodes."""


class NewKubelet(Protocol):
    """Starts a node of the test's own; kubelet, processes and Node object end with the test."""

    def __call__(
        self,
        name: str | None = None,
        *,
        plane: ControlPlane | None = None,
        devices: Mapping[str, int] | None = None,
        labels: Mapping[str, str] | None = None,
        timing: Timing = BRISK,
    ) -> Kubelet:
        """`plane` is the shared one when it is not given; there the name is to be unique, as one made up is."""


def client_of(plane: ControlPlane, name: str = "test", kubeconfig: Path | None = None) -> Cluster:
    """Connect as `admin`, or as whoever `kubeconfig` says."""
    return Cluster(KubernetesSettings(kubeconfig=kubeconfig or plane.kubeconfig), name)


def make_namespace(api: Cluster, name: str) -> str:
    """Make a namespace in which pods can be created at once: its default service account is there."""
    api.create(paths.namespaces(), {"metadata": {"name": name}})
    deadline = time.monotonic() + ACCOUNT_SECONDS
    while True:
        try:
            api.get(f"{paths.namespaces(name)}/serviceaccounts/default")
        except ApiNotFound:
            assert time.monotonic() < deadline, f"no default service account in {name}"
            time.sleep(0.02)
        else:
            return name


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for the whole session, nodes judged as Kubernetes does by default. Never stop any part of it."""
    parts.need("Kubernetes", control_plane.missing())
    plane = ControlPlane(tmp_path_factory.mktemp("kubernetes") / "cluster")
    try:
        yield plane.start()
    finally:
        plane.kill()  # nothing of it is of use any more: no orderly end


@pytest.fixture(scope="session")
def api(cluster: ControlPlane) -> Cluster:
    """The shared control plane's client, as user `admin`."""
    return client_of(cluster)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, api: Cluster) -> Iterator[str]:
    """A namespace nobody else uses, on the shared control plane; what is in it goes with the test."""
    told = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = make_namespace(api, f"{told[: LONGEST_NAMESPACE - 9].rstrip('-')}-{uuid.uuid4().hex[:8]}")
    yield name
    api.delete(paths.namespaces(name))


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[NewCluster]:
    """Make control planes of the test's own, started; each ends with the test, whatever the test did to it."""
    parts.need("Kubernetes", control_plane.missing())
    planes: list[ControlPlane] = []

    def make(options: Options | None = None) -> ControlPlane:
        plane = ControlPlane(tmp_path / f"cluster-{len(planes)}", options)
        planes.append(plane)
        return plane.start()

    yield make
    for plane in planes:
        plane.kill()


@pytest.fixture(scope="session")
def containers() -> None:
    """Containers can be run on this machine: by root, where the kernel permits it."""
    parts.need("A container", process.missing())


@pytest.fixture
def new_kubelet(request: pytest.FixtureRequest, tmp_path: Path, containers: None) -> Iterator[NewKubelet]:
    """Make nodes of the test's own, Ready when returned. Talks to the API as a node, with a node's rights."""
    parts.need("Kubernetes", control_plane.missing())
    del containers  # they can be run
    running: list[tuple[ControlPlane, Kubelet]] = []

    def make(
        name: str | None = None,
        *,
        plane: ControlPlane | None = None,
        devices: Mapping[str, int] | None = None,
        labels: Mapping[str, str] | None = None,
        timing: Timing = BRISK,
    ) -> Kubelet:
        of: ControlPlane = plane or request.getfixturevalue("cluster")
        node = NodeOptions(name or f"node-{uuid.uuid4().hex[:8]}", labels=labels or {}, devices=devices or {})
        user = of.kubeconfig_of(f"system:node:{node.name}", ["system:nodes"])
        kubelet = Kubelet(user, node, tmp_path / "kubelets" / node.name, timing)
        running.append((of, kubelet))
        return kubelet.start()

    yield make
    for of, kubelet in running:
        kubelet.stop()
        with contextlib.suppress(ApiError):  # gone already, or its control plane is
            client_of(of).delete(paths.nodes(kubelet.name))
