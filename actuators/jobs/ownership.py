"""Whose a Job is: relight suspends only the topmost object it has an adapter for (finding Q9)."""

from __future__ import annotations

from typing import Final

from actuators.jobs.run_objects import RunObject
from actuators.reply import Unsupported
from actuators.world import Words, World
from schemas.commands import Command

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
OWN_CONTROLLER: Final = "kubernetes.io/job-controller"


def need_ours_to_suspend(command: Command, run: RunObject, world: World) -> None:
    """Raises Unsupported, and says so on the job, when somebody else would undo what we do."""
    obstacle = whose(run)
    if obstacle is None:
        return
    cause, text = obstacle
    world.voice.say(Words(run.job, "NotRescheduled", f"{text}: {command.reason}", key=run.run, warning=True))
    raise Unsupported(cause, text)


def whose(run: RunObject) -> tuple[str, str] | None:
    """Cause and sentence when it is not ours to suspend."""
    metadata, spec = run.job["metadata"], run.job.get("spec") or {}
    for owner in metadata.get("ownerReferences") or []:
        if owner.get("controller") and owner.get("kind") != "CronJob":
            text = f"{owner.get('kind')} {owner.get('name')} owns the job and would undo a suspension; it has no adapter yet"
            return "owned", text
    if QUEUE_LABEL in (metadata.get("labels") or {}):
        return "queued", "a Kueue queue owns the job's suspension; it has no adapter yet"
    if spec.get("managedBy", OWN_CONTROLLER) != OWN_CONTROLLER:
        return "managed_elsewhere", f"{spec['managedBy']} manages the job; it has no adapter yet"
    return None
