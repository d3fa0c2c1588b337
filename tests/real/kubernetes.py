"""A Kubernetes cluster for tests: `cluster` shared by the session, `new_cluster` for a test that stops or configures it.

It is the real control plane. Tests of the modules in `ON_BOTH` run on the sandbox's stand-in as well, which needs neither Go nor root: what
they say of the real one they say of it. A difference is mended in the stand-in, never in the test.

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
from sandbox.cluster_standin import ClusterStandIn
from sandbox.control_plane import ControlPlane, Options
from sandbox.kubelet import Backoff, Kubelet, NodeOptions, Timing, process
from tests.real import parts

Plane = ControlPlane | ClusterStandIn
REAL, STAND_IN = "control-plane", "stand-in"
ON_BOTH: Mapping[str, frozenset[str]] = {
    "test_on_a_real_control_plane": frozenset(),
    "test_isolating_nodes": frozenset(),
    "test_guards_of_isolating": frozenset(),
    "test_presence": frozenset(),
    "test_injection_on_a_real_control_plane": frozenset(
        # levels of pod security
        {"test_a_namespace_that_enforces_a_level_refuses_injected_pods_which_is_why_we_stay_out"}
    ),
    "test_job_steps_on_a_real_control_plane": frozenset(),
    "test_rebuild_on_a_real_control_plane": frozenset(
        # quotas and admission policies
        {
            "test_a_job_that_would_not_be_admitted_again_is_not_deleted",
            "test_a_refusal_to_create_is_waited_out_then_failed_with_its_cause_and_the_manifest_is_kept",
            "test_failing_a_job_of_which_only_the_manifest_is_left_gives_it_back_failed_without_a_pod",
        }
    ),
    "test_rebuild_told_by_the_watcher": frozenset(),
    "test_watcher_on_kubernetes": frozenset(),
    "test_kubelet": frozenset(
        # a client in a pod speaks TLS with a token of its account
        {"test_a_pods_own_client_reaches_the_api_with_its_service_account"}
    ),
}
"""Modules whose tests run on both, each with the tests in it that only the real one can serve. Those marked `slow` run on the real one alone."""
SLOW_ON_BOTH = frozenset(
    {
        "test_a_job_from_its_first_sight_to_its_end",
        "test_an_eviction_by_the_api_is_told_with_its_reason_and_the_pod_is_replaced",
        "test_suspend_and_resume_is_one_run_with_two_issues",
        "test_who_took_our_taint_off_is_read_from_the_object",
    }
)
"""But these: what they look at, the stand-in has made for them."""
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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let what asks for a cluster run on both kinds, where its module is listed."""
    only_real = ON_BOTH.get(metafunc.module.__name__.rpartition(".")[2])
    name = metafunc.function.__name__
    if only_real is None or name in only_real:
        return
    if metafunc.definition.get_closest_marker("slow") is not None and name not in SLOW_ON_BOTH:
        return
    for fixture in ("cluster", "new_cluster"):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(
                fixture,
                [REAL, STAND_IN],
                indirect=True,
                scope="session" if fixture == "cluster" else "function",
            )


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

    The real control plane; in modules of `ON_BOTH` each test runs a second time on the stand-in.
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
