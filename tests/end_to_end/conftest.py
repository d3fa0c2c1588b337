"""One stage for the whole session: tests take turns on it, each with a job and nodes of its own choosing, and leave it as they found it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from datetime import timedelta

import pytest

from sandbox import control_plane
from sandbox.control_plane import ControlPlane, NodeLifecycle, Options
from sandbox.kafka_server import KafkaBroker
from sandbox.kubelet.process import missing
from sandbox.stage.program import Program
from sandbox.stage.stage import Options as StageOptions
from sandbox.stage.stage import Stage, TimeUp
from sandbox.stage.training_job import TrainingJob
from tests.real import parts

QUICK_LIFE = NodeLifecycle(
    monitor_grace=timedelta(seconds=5),
    monitor_period=timedelta(seconds=1),
    startup_grace=timedelta(seconds=20),
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed on a stage tells what happened on it."""
    report = yield
    stage = getattr(item, "funcargs", {}).get("stage")
    told = call.excinfo is not None and isinstance(call.excinfo.value, TimeUp)
    if report.when == "call" and report.failed and isinstance(stage, Stage) and not told:
        report.sections.append(("what happened on the stage", stage.story()))
    return report


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of these tests' own: it gives up a silent node in seconds, and no other test's nodes are on it."""
    parts.need("Kubernetes", control_plane.missing())
    parts.need("containers", missing())
    made = ControlPlane(tmp_path_factory.mktemp("plane") / "cluster", Options(node_lifecycle=QUICK_LIFE))
    try:
        yield made.start()
    finally:
        made.kill()


@pytest.fixture(scope="session")
def whole_stage(
    kafka: KafkaBroker, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """The stage."""
    settings = {"RELIGHT_TOPICS__PREFIX": "end-to-end."}
    made = Stage(tmp_path_factory.mktemp("stage") / "s", kafka, plane, StageOptions(settings=settings))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def stage(whole_stage: Stage) -> Iterator[Stage]:
    """The stage, all of it at work before the test (it was started so, or mended after the one before); what the test made is gone then."""
    yield whole_stage
    whole_stage.mend()
    for job in list(whole_stage.jobs):
        whole_stage.forget(job)


@pytest.fixture
def relief(stage: Stage) -> Iterator[Callable[[str], Program]]:
    """Make a second process of a kind, not started yet; of the stage until the test is over, so that its story is told too."""
    made: list[Program] = []

    def make(part: str) -> Program:
        program = stage.twin(part)
        stage.programs[program.name] = program
        made.append(program)
        return program

    yield make
    for program in made:
        program.stop()  # in good order: it gives back at once what it holds
        del stage.programs[program.name]


@pytest.fixture
def job(stage: Stage, request: pytest.FixtureRequest) -> TrainingJob:
    """A job for this test, not submitted yet."""
    return stage.job(re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-"))
