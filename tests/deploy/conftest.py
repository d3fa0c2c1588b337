"""relight's objects on the real control plane, one site a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.kubernetes import Cluster
from sandbox.control_plane import ControlPlane
from tests.deploy.site import Site


@pytest.fixture(scope="module")
def site(cluster: ControlPlane, api: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """What `deploy/kubernetes` says, workloads apart, its bounds in force."""
    made = Site(cluster, api, tmp_path_factory.mktemp("site"))
    made.install()
    yield made
    made.remove()
