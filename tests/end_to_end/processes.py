"""Processes inside a pod, as the machine has them: the supervisor of a rank and its trainer."""

from __future__ import annotations

import psutil

from sandbox.stage.stage import Stage
from sandbox.stage.training_job import CONTAINER, TrainingJob


def supervisor(stage: Stage, job: TrainingJob, rank: int) -> psutil.Process:
    """The supervisor of a rank."""
    return _running(stage, job, rank, "/supervisor.pyz")


def trainer(stage: Stage, job: TrainingJob, rank: int) -> psutil.Process:
    """The training process of a rank."""
    return _running(stage, job, rank, str(job.program))


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended: what nobody has reaped yet has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _running(stage: Stage, job: TrainingJob, rank: int, program: str) -> psutil.Process:
    pod = stage.pod(job, rank)["metadata"]
    first = psutil.Process(stage.node_of(job, rank).kubelet.pid_of(pod["namespace"], pod["name"], CONTAINER))
    for process in (first, *first.children(recursive=True)):
        # What the interpreter runs: a shell or a supervisor names the trainer too, among others.
        words = [word for word in process.cmdline()[1:] if not word.startswith("-")]
        if words and words[0].endswith(program):
            return process
    raise LookupError(f"rank {rank} of {job.name} has no {program}: {first.children(recursive=True)}")
