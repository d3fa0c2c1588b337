"""The zipapp, built once; an agent and a container per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.build import build
from tests.supervisor.container import Agent, Container


@pytest.fixture(scope="session")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("zipapp") / "supervisor.pyz"
    build(out)
    return out


@pytest.fixture
def container(zipapp: Path, tmp_path: Path) -> Iterator[Container]:
    started = Container(zipapp, tmp_path)
    yield started
    started.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    listening = Agent(tmp_path / "agent.sock")
    yield listening
    listening.close()
