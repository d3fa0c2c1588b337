"""The scene of steps on a real control plane."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime.kubernetes import Cluster
from tests.actuators.real_scene import RealScene


@pytest.fixture
def scene(api: Cluster) -> Iterator[RealScene]:
    """Steps on the shared control plane."""
    with ThreadPoolExecutor(8) as executor:
        yield RealScene(api, executor)
