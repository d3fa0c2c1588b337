"""A node of the test's own on the shared control plane, and pods on it."""

import pytest

from runtime.kubernetes import Cluster
from tests.real.kubernetes import NewKubelet
from tests.real.pods import CHIPS, Pods


@pytest.fixture
def pods(api: Cluster, namespace: str, new_kubelet: NewKubelet) -> Pods:
    return Pods(api, namespace, new_kubelet(devices={CHIPS: 8}))
