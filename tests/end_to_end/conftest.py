"""One stage for the whole session: tests take turns on it, each with a job and nodes of its own choosing, and leave it as they found it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from relight.rulebook_release import Releases
from rules.check import check, released
from rules.loader import DEFAULT
from rules.model import RulebookDocument
from runtime.kafka import KafkaClients
from sandbox import control_plane
from sandbox.control_plane import ControlPlane, NodeLifecycle, Options
from sandbox.kafka_server import KafkaBroker
from sandbox.kubelet.process import missing
from sandbox.stage.program import Program
from sandbox.stage.stage import QUICK, Stage, TimeUp
from sandbox.stage.stage import Options as StageOptions
from sandbox.stage.training_job import TrainingJob
from tests.real import parts

SHORT_WAITS = Path(__file__).parent / "rulebooks" / "short_waits"
"""Laid over the stage's own rulebook."""
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
    settings = {"RELIGHT_TOPICS__PREFIX": "end-to-end.", "RELIGHT_ACTING__LOOK_AGAIN": "500ms"}
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


def _document(*folders: Path) -> RulebookDocument:
    today = datetime.now(UTC).date()
    document, _ = released(check([DEFAULT, *folders], names=["default"], today=today))
    return document


@pytest.fixture(scope="session")
def switch(whole_stage: Stage) -> Callable[[RulebookDocument], None]:
    """Let all that is told from here on be decided by a rulebook."""
    settings = whole_stage.settings()
    clients = KafkaClients(settings.kafka, "end-to-end")
    releases = Releases(settings, clients, settings.cluster or "", timedelta(seconds=30))

    def release(document: RulebookDocument) -> None:
        # The switch stands in each mailbox before whatever is routed to it afterwards: there is nothing to wait for.
        now = datetime.now(UTC)
        told = releases.switch(releases.publish(document, by="a test", now=now), by="a test", now=now)
        assert not told.missing, told

    return release


@pytest.fixture
def short_waits(stage: Stage, switch: Callable[[RulebookDocument], None]) -> Iterator[None]:
    """Steps are given up, and orders end by themselves, sooner than otherwise: in all that is told until the test is over."""
    del stage  # at work
    switch(_document(QUICK, SHORT_WAITS))
    yield
    switch(_document(QUICK))


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
    """A job for this test, not submitted yet. It saves often: tests begin with its first checkpoint."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    return stage.job(name, save_every=10)
