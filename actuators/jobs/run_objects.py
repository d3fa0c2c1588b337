"""A run in the cluster: its workload object, the epoch it is at, and its pods.

The object is found by namespace and name and believed by identity only: the run id is its `relight.dev/run` annotation, or its UID. A command
meant for another epoch is refused. Pods belong to the run by the UID of their controller and to the issue by their epoch (finding Q20).
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from actuators.reply import Refused, Unsupported
from actuators.step import Arguments
from actuators.world import World
from runtime import paths
from runtime.errors import ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import ATTEMPT, EPOCH, INJECTED, JOB_UID_LABEL, RUN
from schemas.commands import Command
from schemas.facts import WorkloadKind
from schemas.ids import RUN as RUN_SUBJECT
from schemas.ids import subject_kind, subject_name

FIRST_EPOCH = 1
ENDED = frozenset({"Succeeded", "Failed"})


class RunArguments(Arguments):
    """What every command about a run carries; a halted run's release carries none of it."""

    namespace: str = ""
    name: str = ""
    workload: str = WorkloadKind.JOB.value
    cause: str = ""
    """fail_job, release_job: why."""
    keep_off: tuple[dict[str, str], ...] = Field(default=())


class RunGone(Refused):
    """There is no object of the run."""

    def __init__(self, detail: str) -> None:
        super().__init__("gone", detail)


@dataclass(frozen=True, slots=True)
class RunObject:
    """The workload object as it was read, and what it says of the run."""

    job: Object
    run: str
    epoch: int

    @property
    def uid(self) -> str:
        """UID of the present object."""
        return str(self.job["metadata"]["uid"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.job["metadata"]["namespace"])

    @property
    def path(self) -> str:
        """Where it is read and written."""
        return paths.jobs(self.namespace, str(self.job["metadata"]["name"]))

    @property
    def title(self) -> str:
        """What people call it."""
        return f"job {self.namespace}/{self.job['metadata']['name']}"


def find_run(
    command: Command, given: RunArguments, world: World, *, epochs: tuple[int, ...] = ()
) -> RunObject:
    """The run the command is for, at its epoch; `epochs`: others that are right as well.

    Raises RunGone where there is none, Refused for another object or epoch, Unsupported for a kind without an adapter.
    """
    if subject_kind(command.subject) != RUN_SUBJECT:
        raise Refused("bad_subject", f"{command.subject} is no run")
    if given.workload != WorkloadKind.JOB:
        raise Unsupported("no_adapter", f"there is no adapter for {given.workload} yet")
    found = look_up(command, given, world)
    check_epoch(command, found, world, epochs=epochs)
    return found


def look_up(command: Command, given: RunArguments, world: World) -> RunObject:
    """The object of the command's run, at whichever epoch. Raises RunGone, or Refused for another object of that name."""
    return _by_name(command, given, world) if given.name else _by_identity(command, world)


def check_epoch(command: Command, found: RunObject, world: World, *, epochs: tuple[int, ...] = ()) -> None:
    """Another epoch is refused always; past `not_after` a command that names none is refused as well (finding R23)."""
    if command.epoch == 0:
        if world.now() > command.not_after:
            raise Refused("too_late", f"not after {command.not_after.isoformat()}, and it names no epoch")
        return
    if found.epoch not in (command.epoch, *epochs):
        raise Refused("other_epoch", f"meant for epoch {command.epoch}; {found.title} is at {found.epoch}")


def _by_name(command: Command, given: RunArguments, world: World) -> RunObject:
    try:
        found = run_object(world.api.get(paths.jobs(given.namespace, given.name)))
    except ApiNotFound:
        raise RunGone(f"there is no job {given.namespace}/{given.name}") from None
    wanted = subject_name(command.subject)
    if found.run != wanted:
        raise Refused("other_object", f"{found.title} is run {found.run}, the command is for {wanted}")
    return found


def _by_identity(command: Command, world: World) -> RunObject:
    wanted = subject_name(command.subject)
    for job in world.api.list(paths.jobs()):
        if (found := run_object(job)).run == wanted:
            return found
    raise RunGone(f"there is no job of run {wanted}")


def run_object(job: Object) -> RunObject:
    """What a job says of its run."""
    annotations = job["metadata"].get("annotations") or {}
    named = {"apiVersion": "batch/v1", "kind": "Job", **job}  # items of a list do not say what they are
    run = str(annotations.get(RUN) or job["metadata"]["uid"])
    return RunObject(named, run, _number(annotations.get(EPOCH), FIRST_EPOCH))


def need_latest(command: Command, job: Object) -> None:
    """Raises Refused when a later attempt has suspended the job: whoever still carries out this one would start a second set of pods."""
    stands = attempt_of(job)
    if stands > command.attempt:
        raise Refused(
            "superseded", f"attempt {stands} has suspended the job; this is attempt {command.attempt}"
        )


def attempt_of(job: Object) -> int:
    """The latest attempt that suspended the job, 0: none."""
    text = (job["metadata"].get("annotations") or {}).get(ATTEMPT)
    return _number(text, 1) if text is not None else 0


def pods_of(run: RunObject, world: World) -> list[Object]:
    """All pods of the object, whatever their epoch and state."""
    spec = run.job.get("spec") or {}
    if not spec.get("manualSelector"):
        return world.api.list(paths.pods(run.namespace), labels=f"{JOB_UID_LABEL}={run.uid}")
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    labels = ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    pods = world.api.list(paths.pods(run.namespace), labels=labels)
    return [pod for pod in pods if _controller_of(pod) == run.uid]


def _controller_of(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def size_of(run: RunObject) -> int:
    """Pods that run at a time: Kubernetes makes no more than there are completions, however high the parallelism."""
    spec = run.job["spec"]
    parallelism = spec.get("parallelism")
    most = 1 if parallelism is None else int(parallelism)
    completions = spec.get("completions")
    return most if completions is None else min(most, int(completions))


def epoch_of(pod: Object) -> int:
    """MA_SCHEDULE_CNT of a pod's issue, from its template."""
    return _number((pod["metadata"].get("annotations") or {}).get(EPOCH), FIRST_EPOCH)


def is_supervised(pod: Object) -> bool:
    """It carries our supervisor."""
    return INJECTED in (pod["metadata"].get("annotations") or {})


def has_ended(pod: Object) -> bool:
    """No container of it runs, and none will."""
    return (pod.get("status") or {}).get("phase") in ENDED


def is_leaving(pod: Object) -> bool:
    """Somebody deleted it, and it is not gone yet."""
    return pod["metadata"].get("deletionTimestamp") is not None


def condition_of(job: Object, kind: str) -> Object | None:
    """A condition of the job that holds, or None."""
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == "True":
            return dict(condition)
    return None


def _number(text: object, default: int) -> int:
    try:
        return max(1, int(str(text)))
    except ValueError:
        return default
