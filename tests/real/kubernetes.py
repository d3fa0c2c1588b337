"""A Kubernetes cluster for tests: `cluster` shared by the session, `new_cluster` for a test that stops or configures it.

A test that asks for one runs twice: on the real control plane, and on the sandbox's stand-in, which needs neither Go nor root. What it says of
the first it says of the second; a difference is mended in the stand-in, never in the test. What only the real one can be asked says so beside
the test, by `real_plane_only`, with the reason, and what is dear there by `stand_in_at_length`. What the stand-in does not do it answers 501.

The shared one is left as it is found by giving each test a `namespace` of its own. Nodes belong to no namespace: a test that makes
some takes names and labels of its own.
"""

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from runtime import paths
from runtime.errors import ApiError, ApiNotFound
from runtime.kubernetes import Cluster
from runtime.settings import KubernetesSettings
from sandbox import control_plane
from sandbox.cluster_standin import ClusterStandIn
from sandbox.control_plane import ControlPlane, Options
from sandbox.kubelet import Backoff, Kubelet, NodeOptions, Timing, process
from tests.real import parts

Plane = ControlPlane | ClusterStandIn
Test = TypeVar("Test", bound=Callable[..., Any])
REAL, STAND_IN = "control-plane", "stand-in"
REAL_PLANE_ONLY = "REAL_PLANE_ONLY"
"""A module that sets this name, and says with it why, has no test that the stand-in can serve."""
STAND_IN_AT_LENGTH = "STAND_IN_AT_LENGTH"
"""Of a module that sets this name, and says with it why, no test runs on the stand-in but in `make soak`."""
LONGEST_NAMESPACE = 63  # a DNS label
ACCOUNT_SECONDS = 20.0
BRISK = Timing(heartbeat=timedelta(seconds=1), backoff=Backoff(base=timedelta(milliseconds=200)))


class NewCluster(Protocol):
    """Starts a control plane of the test's own; it ends with the test."""

    def __call__(self, options: Options | None = None) -> Plane:
        """`options` say what it consists of and how it judges nodes."""


class NewKubelet(Protocol):
    """Starts a node of the test's own; kubelet, processes and Node object end with the test."""

    def __call__(
        self,
        name: str | None = None,
        *,
        plane: Plane | None = None,
        devices: Mapping[str, int] | None = None,
        labels: Mapping[str, str] | None = None,
        timing: Timing = BRISK,
    ) -> Kubelet:
        """`plane` is the shared one when it is not given; there the name is to be unique, as one made up is."""


def client_of(plane: Plane, name: str = "test", kubeconfig: Path | None = None) -> Cluster:
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


def real_plane_only(why: str) -> Callable[[Test], Test]:
    """Keep a test off the stand-in. `why` is for who reads the test: what of Kubernetes itself it looks at."""

    def keep(test: Test) -> Test:
        setattr(test, REAL_PLANE_ONLY, why)
        return test

    return keep


def stand_in_at_length(why: str) -> Callable[[Test], Test]:
    """Let a test run on the stand-in in `make soak` only. `why` is for who reads the test: what makes it dear, or what it looks at first."""

    def keep(test: Test) -> Test:
        setattr(test, STAND_IN_AT_LENGTH, why)
        return test

    return keep


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let what asks for a cluster run on both kinds."""
    if any(hasattr(where, REAL_PLANE_ONLY) for where in (metafunc.module, metafunc.function)):
        return
    at_length = any(hasattr(where, STAND_IN_AT_LENGTH) for where in (metafunc.module, metafunc.function))
    for fixture in ("cluster", "new_cluster"):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(
                fixture,
                [REAL, pytest.param(STAND_IN, marks=pytest.mark.soak if at_length else ())],
                indirect=True,
                scope="session" if fixture == "cluster" else "function",
            )


@pytest.hookimpl(tryfirst=True)  # before -m selects by these marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `real` what runs on the real one."""
    for item in items:
        if isinstance(item, pytest.Function) and {"cluster", "new_cluster"}.intersection(item.fixturenames):
            chosen = item.callspec.params if hasattr(item, "callspec") else {}
            if STAND_IN not in (chosen.get("cluster"), chosen.get("new_cluster")):
                item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def shared_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The real one of the session."""
    parts.need("Kubernetes", control_plane.missing())
    plane = ControlPlane(tmp_path_factory.mktemp("kubernetes") / "cluster")
    try:
        yield plane.start()
    finally:
        plane.kill()  # nothing of it is of use any more: no orderly end


@pytest.fixture(scope="session")
def shared_stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterStandIn]:
    """The stand-in of the session."""
    plane = ClusterStandIn(tmp_path_factory.mktemp("stand-in") / "cluster")
    try:
        yield plane.start()
    finally:
        plane.kill()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Plane:
    """One cluster for the whole session, nodes judged as Kubernetes does by default. Never stop any part of it.

    The real control plane; each test runs a second time on the stand-in where it can.
    """
    kind = getattr(request, "param", REAL)
    found: Plane = request.getfixturevalue("shared_stand_in" if kind == STAND_IN else "shared_control_plane")
    return found


@pytest.fixture(scope="session")
def api(cluster: Plane) -> Cluster:
    """The shared cluster's client, as user `admin`."""
    return client_of(cluster)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, api: Cluster) -> Iterator[str]:
    """A namespace nobody else uses, on the shared control plane; what is in it goes with the test."""
    told = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = make_namespace(api, f"{told[: LONGEST_NAMESPACE - 9].rstrip('-')}-{uuid.uuid4().hex[:8]}")
    yield name
    api.delete(paths.namespaces(name))


@pytest.fixture
def new_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewCluster]:
    """Make clusters of the test's own, started; each ends with the test, whatever the test did to it. Of both kinds, as `cluster`."""
    is_stand_in = getattr(request, "param", REAL) == STAND_IN
    if not is_stand_in:
        parts.need("Kubernetes", control_plane.missing())
    planes: list[Plane] = []

    def make(options: Options | None = None) -> Plane:
        folder = tmp_path / f"cluster-{len(planes)}"
        plane: Plane = ClusterStandIn(folder, options) if is_stand_in else ControlPlane(folder, options)
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
    del containers  # they can be run
    running: list[tuple[Plane, Kubelet]] = []

    def make(
        name: str | None = None,
        *,
        plane: Plane | None = None,
        devices: Mapping[str, int] | None = None,
        labels: Mapping[str, str] | None = None,
        timing: Timing = BRISK,
    ) -> Kubelet:
        of: Plane = plane or request.getfixturevalue("cluster")
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
