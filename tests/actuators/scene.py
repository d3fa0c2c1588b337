"""A job with its pods and nodes on the scripted API, and the commands a core would send."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from actuators.lots import Lots
from actuators.perform import perform
from actuators.settings import ActingSettings
from actuators.world import Budget, TimedApi, Words, World
from runtime import paths
from runtime.kubernetes import Object
from schemas.cluster import DESIRED, EPOCH, INJECTED, JOB_UID_LABEL, Desired
from schemas.commands import Command, Outcome, StepName
from tests.actuators.scripted_api import NOW, ScriptedApi

NAMESPACE = "team-a"
JOB = "train"
RUN = "job-uid-1"
JOB_PATH = paths.jobs(NAMESPACE, JOB)

EXECUTOR = ThreadPoolExecutor(4)


class Said:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.words: list[Words] = []

    def say(self, words: Words) -> None:
        self.words.append(words)


def job(**metadata: Any) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": JOB, "namespace": NAMESPACE, "uid": RUN, "annotations": {}, **metadata},
        "spec": {"parallelism": 4, "completions": 4, "backoffLimit": 6, "completionMode": "Indexed"},
        "status": {},
    }


def pod(
    number: int, *, epoch: int = 1, uid: str = "", injected: bool = True, phase: str = "Running"
) -> Object:
    annotations = {EPOCH: str(epoch)}
    if injected:
        annotations[INJECTED] = "1"
    return {
        "metadata": {
            "name": pod_name(number),
            "namespace": NAMESPACE,
            "uid": uid or f"pod-uid-{number}",
            "labels": {JOB_UID_LABEL: RUN},
            "annotations": annotations,
        },
        "status": {"phase": phase},
    }


def pod_name(number: int) -> str:
    return f"{JOB}-{number}"


def pod_path(number: int) -> str:
    return paths.pods(NAMESPACE, pod_name(number))


@dataclass
class Scene:
    """The cluster, the clock, and what a step may use."""

    api: ScriptedApi = field(default_factory=ScriptedApi)
    said: Said = field(default_factory=Said)
    settings: ActingSettings = field(default_factory=ActingSettings)
    now: datetime = NOW
    seconds: Callable[[], float] = lambda: 0.0
    lots: Lots[Any] = field(default_factory=Lots)

    def with_pods(self, count: int = 4, **more: Any) -> Scene:
        whole = job()
        whole["spec"] |= {"parallelism": count, "completions": count}
        self.api.put(JOB_PATH, whole)
        for number in range(count):
            self.api.put(pod_path(number), pod(number, **more))
        return self

    def perform(self, command: Command) -> Outcome:
        budget = Budget(self.settings.time_limit.total_seconds(), self.seconds)
        world = World(
            api=TimedApi(self.api, budget),
            budget=budget,
            now=lambda: self.now,
            executor=EXECUTOR,
            voice=self.said,
            settings=self.settings,
            lots=self.lots,
            looks=command.look,
        )
        return perform(command, world)

    def desired(self, number: int) -> Desired | None:
        text = self.api.annotations(pod_path(number)).get(DESIRED)
        return None if text is None else Desired.from_text(text)

    def pod_writes(self) -> int:
        return sum(write.path.startswith("/api/v1/namespaces/team-a/pods/") for write in self.api.writes)


def command(step: StepName, **given: Any) -> Command:
    arguments = {"namespace": NAMESPACE, "name": JOB, "workload": "Job", **given.pop("arguments", {})}
    values: dict[str, Any] = {
        "command": f"command-{step.value}",
        "incident": "incident-1",
        "attempt": 3,
        "step": step,
        "index": 0,
        "subject": f"run/{RUN}",
        "epoch": 1,
        "deadline": NOW + timedelta(seconds=60),
        "not_after": NOW + timedelta(minutes=5),
        "reason": "chip fault 80E18005 on npu-3",
        "rulebook": "hash",
        "trigger": "event-1",
    }
    return Command(**{**values, "arguments": arguments, **given})


def stop(**given: Any) -> Command:
    until = given.pop("until", NOW + timedelta(minutes=5))
    arguments = {
        "until": until.isoformat(),
        "otherwise": "rerun",
        "grace_seconds": 30,
        **given.pop("arguments", {}),
    }
    return command(StepName.STOP_PROCESSES, arguments=arguments, **given)


def start(**given: Any) -> Command:
    return command(StepName.START_PROCESSES, **given)


def release(**given: Any) -> Command:
    return command(StepName.RELEASE_JOB, **given)
