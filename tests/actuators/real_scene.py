"""Steps on a real API server, within the time a process gives them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from actuators.announcing import Announcer
from actuators.lots import Lots
from actuators.perform import perform
from actuators.settings import ActingSettings
from actuators.world import Api, Budget, TimedApi, World
from runtime.kubernetes import Cluster, Object
from schemas.commands import Command, Outcome, StepName


class RealScene:
    """Steps on the real API."""

    def __init__(self, api: Cluster, executor: ThreadPoolExecutor) -> None:
        self.api = api
        self.executor = executor
        self.announcer = Announcer(api, lambda: datetime.now(UTC))
        self.settings = ActingSettings()
        self.lots: Lots[Any] = Lots()
        self.through: Api = api
        """What steps write through; a test may stand between."""

    def perform(self, command: Command) -> Outcome:
        budget = Budget(self.settings.time_limit.total_seconds(), time.monotonic)
        world = World(
            api=TimedApi(self.through, budget),
            budget=budget,
            now=lambda: datetime.now(UTC),
            executor=self.executor,
            voice=Writing(self.announcer),
            settings=self.settings,
            lots=self.lots,
            looks=command.look,
        )
        return perform(command, world)


class Writing:
    """Writes at once what a process writes beside its work."""

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer

    def say(self, words: Any) -> None:
        self._announcer.write(words)


def command(job: Object, step: StepName, **given: Any) -> Command:
    metadata = job["metadata"]
    now = datetime.now(UTC)
    arguments = {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "workload": "Job",
        **given.pop("arguments", {}),
    }
    values: dict[str, Any] = {
        "command": f"command-{step.value}",
        "incident": "incident-1",
        "attempt": 1,
        "step": step,
        "index": 0,
        "subject": f"run/{metadata['uid']}",
        "epoch": 1,
        "deadline": now + timedelta(seconds=60),
        "not_after": now + timedelta(minutes=5),
        "reason": "a test",
        "rulebook": "hash",
        "trigger": "event-1",
    }
    return Command(**{**values, "arguments": arguments, **given})
