"""The stop barrier and the start over 64 pods, from the command that begins it to the word that all have done it.

The whole of relight on a real Kafka and a real control plane, four nodes with a kubelet and an agent each, 64 supervised pods whose process
ends at once when it is told to, so that what is measured is beyond the processes' own time. A run that hangs is restarted, so that there is
nothing between stop and start. Times are the broker's. Beside stand the PATCHes alone, on the same pods in the same run.
"""

from __future__ import annotations

import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from benchmarks.report import Row
from runtime import paths
from runtime.kubernetes import Object
from sandbox.control_plane import ControlPlane
from sandbox.kafka_server import KafkaBroker
from sandbox.stage.stage import Options, Stage
from schemas.commands import Command, StepName
from schemas.envelope import Event
from schemas.facts import PodBound
from schemas.ids import run_subject
from schemas.records import Incident, IncidentState
from schemas.signals import ProcessState, ProcessStateName
from schemas.topics import COMMANDS, INCIDENTS, SIGNALS

PODS: Final = 64
HANDS: Final = 16
NAME: Final = "wide"
UNDER_WAY: Final = 240.0
DONE: Final = 120.0
AIM: Final = "2 s"


def rows() -> list[Row]:
    """One run: stop and start."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with KafkaBroker(root / "kafka") as broker, ControlPlane(root / "plane") as plane:
            settings = {"RELIGHT_TOPICS__PREFIX": "barrier."}
            with Stage(root / "stage", broker, plane, Options(chips=0, settings=settings)) as stage:
                return _measure(stage)


def _measure(stage: Stage) -> list[Row]:
    run = _submit(stage)
    stage.wait(f"{PODS} pods to run", lambda: _running(stage) == PODS, UNDER_WAY)
    stage.wait("all pods to be told", lambda: _bound(stage, run) == PODS, UNDER_WAY)
    _hang(stage, run)
    stable = stage.wait("the processes to run again", lambda: _stabilising(stage, run), DONE)
    stop, start = (_begun(stage, run, step) for step in (StepName.STOP_PROCESSES, StepName.START_PROCESSES))
    if stop is None or start is None or stable is None:
        raise RuntimeError(f"it was not a restart of all: {stage.story()}")
    bare = _bare(stage)
    beside = f"the same PATCHes alone: {bare:.2f} s"
    took = {"stop": (start - stop).total_seconds(), "start": (stable - start).total_seconds()}
    return [
        Row("barrier", f"{what} {PODS} pods", each, "s", beside, each / bare, AIM)
        for what, each in took.items()
    ]


def _bare(stage: Stage) -> float:
    """Seconds to write an annotation on each pod, as often at once as actuators do: watched by the same agents, and obeyed by nobody."""
    pods = [pod["metadata"]["name"] for pod in stage.api.list(paths.pods("default")).items]
    change = {"metadata": {"annotations": {"bench.relight.dev/told": "x" * 200}}}
    begun = time.monotonic()
    with ThreadPoolExecutor(HANDS) as hands:
        list(hands.map(lambda name: stage.api.patch(paths.pods("default", name), change), pods))
    return time.monotonic() - begun


def _submit(stage: Stage) -> str:
    script = 'trap "exit 143" TERM; while :; do sleep 1 & wait $!; done'
    small = {f"RELIGHT_CHECK_{what}_GIB": "0" for what in ("ROOT", "SHM", "CACHE")}
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", script],
        "env": [{"name": name, "value": value} for name, value in small.items()],
    }
    annotations = {"fault-tolerance/job-retry-num": "3", "fault-tolerance/hang-retry": "true"}
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": NAME,
            "namespace": "default",
            "annotations": {**annotations, "relight.dev/container": "main"},
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": PODS,
            "parallelism": PODS,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    injected = json.loads(stage.run("inject", "--strict", "-", given=json.dumps(job)))
    created = stage.api.create(paths.jobs("default"), injected)
    return str(created["metadata"]["uid"])


def _running(stage: Stage) -> int:
    stage.records.refresh()
    told = stage.records.of(ProcessState, SIGNALS)
    return len({each.placement.pod_uid for each in told if each.state is ProcessStateName.RUNNING})


def _bound(stage: Stage, run: str) -> int:
    stage.records.refresh()
    told = stage.records.of(PodBound, SIGNALS)
    return len({each.placement.pod_uid for each in told if each.placement.run == run})


def _hang(stage: Stage, run: str) -> None:
    bound = next(each for each in stage.records.of(PodBound, SIGNALS) if each.placement.run == run)
    last = datetime.now(UTC) - timedelta(minutes=31)
    stalled = {
        "type": "hang",
        "data": {
            "node": bound.node.model_dump(mode="json"),
            "placement": bound.placement.model_dump(mode="json"),
            "state": "stalled",
            "method": "all-instances",
            "last_progress": last.isoformat(),
            "start": 1,
        },
    }
    stage.run("publish", "--topic", SIGNALS.name, "--file", "-", given=json.dumps(stalled))


def _stabilising(stage: Stage, run: str) -> datetime | None:
    stage.records.refresh()
    for event in stage.records.events(INCIDENTS):
        data = event.data
        if (
            isinstance(data, Incident)
            and data.state is IncidentState.STABILISING
            and _is_of(stage, data, run)
        ):
            return data.updated_at
    return None


def _is_of(stage: Stage, incident: Incident, run: str) -> bool:
    return any(each.incident == incident.incident for each in stage.records.commands(run))


def _begun(stage: Stage, run: str, step: StepName) -> datetime | None:
    for event in stage.records.events(COMMANDS):
        if event.subject == run_subject(run) and _begins(event, step):
            return event.time
    return None


def _begins(event: Event, step: StepName) -> bool:
    data = event.data
    return isinstance(data, Command) and (data.step, data.action) == (step, "begin")
