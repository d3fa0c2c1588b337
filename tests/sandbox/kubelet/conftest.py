"""A node of the test's own and pods on it: enclosed on the shared control plane, plain on the stand-in, which need neither Go nor root."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import paths
from runtime.kubernetes import Cluster
from sandbox.cluster_standin.plane import ClusterStandIn
from sandbox.kubelet import Kubelet, NodeOptions, Way
from tests.real.kubernetes import BRISK, NewKubelet, client_of, make_namespace
from tests.real.pods import CHIPS, Pods


@pytest.fixture
def pods(api: Cluster, namespace: str, new_kubelet: NewKubelet) -> Pods:
    return Pods(api, namespace, new_kubelet(devices={CHIPS: 8}))


@pytest.fixture
def plain_pods(shared_stand_in: ClusterStandIn, tmp_path: Path) -> Iterator[Pods]:
    name = f"plain-{uuid.uuid4().hex[:8]}"
    kubeconfig = shared_stand_in.kubeconfig_of(f"system:node:{name}", ["system:nodes"])
    api = client_of(shared_stand_in)
    make_namespace(api, name)
    node = NodeOptions(name, devices={CHIPS: 8})
    with Kubelet(kubeconfig, node, tmp_path / "plain", BRISK, way=Way.PLAIN) as kubelet:
        yield Pods(api, name, kubelet)
    api.delete(paths.namespaces(name))
    api.delete(paths.nodes(name))
