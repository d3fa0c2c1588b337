"""The job on the stage: a batch/v1 Job of `sandbox.training`, as a team would write it, and what its ranks left in their shared folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from runtime.kubernetes import Object
from sandbox.training.checkpoints import MANIFEST
from sandbox.training.model import alone

RETRY_NUM: Final = "fault-tolerance/job-retry-num"
UNCONDITIONAL: Final = "fault-tolerance/job-unconditional-retry"
SWITCHED_ON: Final = {RETRY_NUM: "3", UNCONDITIONAL: "true"}
CONTAINER: Final = "trainer"


@dataclass(frozen=True)
class Start:
    """One start of one rank, in its own words."""

    rank: int
    step: int
    schedule_count: str
    start_count: str
    at: float
    pod: str


@dataclass(frozen=True)
class TrainingJob:
    """A job and its folder.

    Args:
        name: of the Job object.
        namespace: it exists.
        folder: shared by all ranks; made by `prepare`.
        program: the training program, one file.
        devices: folder of device files on the node it runs on; `$(NODE_NAME)` in it is the node's name.
        ranks: pods.
        steps: when it is finished.
        step_seconds: how long a step takes.
        save_every: steps between checkpoints.
        chips: devices of each pod; 0: none.
        resource: what devices are called.
        annotations: the two a team writes, or others.
        backoff_limit: failed pods after which Kubernetes fails the Job.
        grace: seconds a pod gets to end.
        environment: more variables of the container.
        failure_policy: the team's own `podFailurePolicy`; empty: none.
        stable_within: share of the usual step time a stable step may differ; 0: never stable again.
    """

    name: str
    namespace: str
    folder: Path
    program: Path
    devices: str
    ranks: int = 3
    steps: int = 240
    step_seconds: float = 0.05
    save_every: int = 20
    chips: int = 1
    resource: str = "nvidia.com/gpu"
    annotations: Mapping[str, str] = field(default_factory=lambda: dict(SWITCHED_ON))
    backoff_limit: int = 0
    grace: int = 10
    stable_within: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    failure_policy: Mapping[str, Any] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make the folders ranks share."""
        self.faults.mkdir(parents=True, exist_ok=True)

    def manifest(self) -> Object:
        """The Job as a team writes it, before injection."""
        labels = {"app": self.name}
        limits = {self.resource: str(self.chips)} if self.chips else {}
        container = {
            "name": CONTAINER,
            "image": "training:1",
            "command": ["python3", str(self.program), *self._arguments()],
            "env": [
                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                *({"name": name, "value": value} for name, value in self._small_machine().items()),
            ],
            "resources": {"limits": limits},
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": dict(self.annotations),
            },
            "spec": {
                "completionMode": "Indexed",
                "completions": self.ranks,
                "parallelism": self.ranks,
                "backoffLimit": self.backoff_limit,
                **({"podFailurePolicy": dict(self.failure_policy)} if self.failure_policy else {}),
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "restartPolicy": "Never",
                        "terminationGracePeriodSeconds": self.grace,
                        "containers": [container],
                    },
                },
            },
        }

    def _small_machine(self) -> dict[str, str]:
        """What the pre-check asks of a data centre's node, this machine need not have; and where its devices are."""
        sizes = {f"RELIGHT_CHECK_{what}_GIB": "0" for what in ("ROOT", "SHM", "CACHE")}
        return {**sizes, "RELIGHT_DEV": self.devices, **self.environment}

    def _arguments(self) -> list[str]:
        told = {
            "steps": self.steps, "job": self.name, "world": self.ranks, "checkpoints": self.checkpoints,
            "rendezvous": self.folder, "faults": self.faults, "starts": self.folder / "starts",
            "devices": self.devices, "step-seconds": self.step_seconds, "save-every": self.save_every, "stable-within": self.stable_within,
        }  # fmt: skip
        return [word for name, value in told.items() for word in (f"--{name}", str(value))]

    # ------------------------------------------------------------------ what the ranks left

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def faults(self) -> Path:
        """Folder in which a rank is asked to fail or hang."""
        return self.folder / "faults"

    def said(self, event: str) -> list[dict[str, Any]]:
        """Lines of one kind (`started`, `finished`, `failed`), in the order they were written."""
        try:
            lines = (self.folder / "starts").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def starts(self) -> list[Start]:
        """All starts of all ranks that got as far as training."""
        return [
            Start(
                line["rank"],
                line["step"],
                line["schedule_count"],
                line["start_count"],
                line["at"],
                line["host"],
            )
            for line in self.said("started")
        ]

    def saved_steps(self) -> list[int]:
        """Steps of the complete checkpoints that are kept, oldest first."""
        return sorted(int(path.parent.name.split("-")[1]) for path in self.checkpoints.glob(f"*/{MANIFEST}"))

    def expected_result(self) -> str:
        """The digest of a run that nobody disturbed."""
        return alone(self.steps, ranks=self.ranks).digest

    def results(self) -> set[str]:
        """Digests of the states ranks finished with; one, if all agree."""
        return {line["digest"] for line in self.said("finished")}

    def ask(self, fault: str, *, step: int = 0) -> None:
        """Ask a rank to fail (`exit-2`) or to hang (`hang-2`) from a step on, or all to `hurry`."""
        self.prepare()
        (self.faults / fault).write_text(str(step), encoding="utf-8")

    def let_go(self, fault: str) -> None:
        """Ask no more."""
        (self.faults / fault).unlink(missing_ok=True)
