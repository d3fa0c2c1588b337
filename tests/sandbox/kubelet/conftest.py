"""A node of the test's own on the shared control plane, and pods on it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import paths
from runtime.errors import ApiError
from runtime.kubernetes import Cluster
from sandbox.control_plane import ControlPlane
from sandbox.kubelet import Kubelet, NodeOptions, Way
from tests.real.kubernetes import BRISK, NewKubelet
from tests.real.pods import CHIPS, Pods


@pytest.fixture
def pods(api: Cluster, namespace: str, new_kubelet: NewKubelet) -> Pods:
    return Pods(api, namespace, new_kubelet(devices={CHIPS: 8}))


@pytest.fixture
def plain_pods(api: Cluster, cluster: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Pods]:
    """Of a kubelet that runs containers as plain processes, as it does for a user without root."""
    name = f"plain-{uuid.uuid4().hex[:8]}"
    kubeconfig = cluster.kubeconfig_of(f"system:node:{name}", ["system:nodes"])
    node = NodeOptions(name, devices={CHIPS: 8})
    with Kubelet(kubeconfig, node, tmp_path / "plain", BRISK, way=Way.PLAIN) as kubelet:
        yield Pods(api, namespace, kubelet)
    with contextlib.suppress(ApiError):
        api.delete(paths.nodes(name))
