"""Delete and create instead of suspend and resume: the same run in a new object (design 8, finding Q7).

In this order, each step harmless to crash after, each found again by the next look: the manifest is stored; the server is asked whether it
would admit the new object; the job is marked as ours to
delete; the store notes the mark; the job is deleted by UID, and only if nobody wrote it since; the new one is created; the store is emptied.
Nothing is deleted while a process of the run may live. A user who deletes the job before it is marked, or makes another one in its place, wins.
The one gap: killed between creating and emptying the store, and the new job deleted by its user before the next look, it is made once more.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from actuators.jobs import manifest_store
from actuators.jobs.manifest import REBUILT_FROM, of_epoch, that_fails
from actuators.jobs.manifest_store import StoredManifest
from actuators.jobs.run_objects import (
    RunArguments,
    RunGone,
    RunObject,
    condition_of,
    has_ended,
    is_leaving,
    pods_of,
    run_object,
)
from actuators.pods.fence import force_what_is_off
from actuators.reply import Failed, Refused, Waiting
from actuators.rewriting import rewrite
from actuators.world import Words, World
from runtime import paths
from runtime.errors import ApiConflict, ApiForbidden, ApiInvalid, ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import EVICTED_FOR
from schemas.commands import Command
from schemas.ids import subject_name

INDEPENDENT_RANKS: Final = "relight.dev/independent-ranks"
"""On a job, "true": a rank that has ended need not run again for the others to go on."""
LAST_TRY: Final = timedelta(seconds=15)
"""So long before the step's deadline a refusal to create is the answer."""
NOT_ADMITTED: Final = "not_admitted"
_SAY_NOTHING: Final = ("exceeded quota", "does not support dry run")


@dataclass(frozen=True, slots=True)
class Issue:
    """What the new object is to be."""

    epoch: int
    keep_off: tuple[str, ...] = ()
    used: dict[str, str] = field(default_factory=dict)
    """What is used of the run's budgets, as annotations; empty: as it stood."""


def why_anew(run: RunObject, pods: list[Object]) -> str:
    """Why suspend and resume would wait for something that never comes; empty when they would not."""
    status = run.job.get("status") or {}
    if condition_of(run.job, "Failed") or condition_of(run.job, "FailureTarget"):
        return "it has failed"
    annotations = run.job["metadata"].get("annotations") or {}
    completed = status.get("completedIndexes")
    if completed and annotations.get(INDEPENDENT_RANKS) != "true":
        return f"ranks {completed} have ended and would not be started again"
    if status.get("failed") or any(_failed_by_itself(pod) for pod in pods):
        return "pods were counted failed, so that Kubernetes would wait up to 10 min"
    return ""


def _failed_by_itself(pod: Object) -> bool:
    """Counted by the back-off even where the job's policy ignores it; one that a suspension ended is deleted, and counted nowhere."""
    return (pod.get("status") or {}).get("phase") == "Failed" and not is_leaving(pod)


def make_anew(command: Command, run: RunObject, issue: Issue, why: str, world: World) -> RunObject:
    """Replace the present object. Raises Waiting while processes may live, or the old object is still there."""
    _need_at_rest(run.job, world)
    _need_no_process(run, world)
    stored = manifest_store.keep(run, world)
    body = of_issue(stored, issue)
    _need_admission(command, stored, body, world)
    job = _marked(command, run, world)
    stored = manifest_store.note_marked(stored, world)
    text = f"Making the job anew as issue {issue.epoch}, since {why}: {command.reason}"
    world.voice.say(Words(job, "RebuildingJob", text, key=command.command))
    with suppress(ApiNotFound):  # whoever deletes a job that carries our mark does what we were about to
        world.api.delete(job, run.path, unchanged=True)
    return create(command, stored, body, world)


def go_on(command: Command, given: RunArguments, issue: Issue, gone: RunGone, world: World) -> RunObject:
    """The job is not there: create it from what is stored. Raises `gone` when it was not us who deleted it."""
    stored = stored_for(command, given, gone, world)
    _need_no_process(_old_object(stored), world)
    return create(command, stored, of_issue(stored, issue), world)


def bring_back(
    command: Command, given: RunArguments, gone: RunGone, world: World, *, fails: bool
) -> RunObject:
    """The job is not there, and nothing more is to be tried: give it back. What had failed, or `fails`, is given back as failed."""
    stored = stored_for(command, given, gone, world)
    _need_no_process(_old_object(stored), world)
    if fails or stored.had_failed:
        body = that_fails(stored.manifest, run=stored.run, epoch=stored.epoch, replaces=stored.replaces)
    else:
        body = of_issue(stored, Issue(stored.epoch + 1))
    return create(command, stored, body, world)


def stored_for(command: Command, given: RunArguments, gone: RunGone, world: World) -> StoredManifest:
    """What is stored of a job that we deleted at the command's epoch. Raises `gone` where a user deleted it."""
    stored = manifest_store.find(subject_name(command.subject), given.namespace, world)
    if stored is None or (given.name and stored.name != given.name):
        raise gone
    if not stored.marked:
        manifest_store.drop(stored, world)
        raise gone
    if command.epoch not in (0, stored.epoch):
        raise gone
    if command.epoch == 0 and world.now() > command.not_after:
        raise Refused("too_late", f"not after {command.not_after.isoformat()}, and it names no epoch")
    return stored


def _old_object(stored: StoredManifest) -> RunObject:
    """The object that is gone, as far as its pods are found by it: whoever resumed it after all may have left some."""
    metadata = {**stored.manifest["metadata"], "uid": stored.replaces}
    return RunObject({**stored.manifest, "metadata": metadata}, stored.run, stored.epoch)


def of_issue(stored: StoredManifest, issue: Issue) -> Object:
    """The Job of an issue."""
    made = of_epoch(
        stored.manifest,
        run=stored.run,
        epoch=issue.epoch,
        replaces=stored.replaces,
        keep_off=list(issue.keep_off),
    )
    made["metadata"]["annotations"] |= issue.used
    return made


def create(command: Command, stored: StoredManifest, body: Object, world: World) -> RunObject:
    """Create the object and empty the store. Raises Waiting while it cannot be, Failed when the deadline comes with it."""
    path = paths.jobs(stored.namespace, stored.name)
    try:
        job = world.api.create(paths.jobs(stored.namespace), body)
    except ApiConflict:
        job = _standing(stored, path, world)
    except (ApiForbidden, ApiInvalid) as error:
        raise _refused(
            command, f"{path} cannot be created; its manifest is in {stored.path}: {error}", world
        ) from None
    manifest_store.drop(stored, world)
    return run_object(job)


def _need_admission(command: Command, stored: StoredManifest, body: Object, world: World) -> None:
    """Nothing is deleted that may not be made again: the server is asked first, while the old object is there.

    Two refusals say nothing: a quota counts the old object still, and a webhook may not know how to be only asked.
    """
    try:
        world.api.try_to_create(paths.jobs(stored.namespace), body)
    except ApiConflict:
        return  # admitted; the name is taken by the old object
    except (ApiForbidden, ApiInvalid) as error:
        if any(said in str(error) for said in _SAY_NOTHING):
            return
        raise _refused(
            command, f"{stored.name} could not be made again, so it is left: {error}", world
        ) from None


def _refused(command: Command, said: str, world: World) -> Waiting | Failed:
    if command.deadline - world.now() <= LAST_TRY:
        return Failed(NOT_ADMITTED, said)
    return Waiting(NOT_ADMITTED, said, again=world.again)


def put_right(run: RunObject, world: World) -> RunObject:
    """The job is there and need not be made anew any more: take the mark off, and away with what is stored."""
    annotations = run.job["metadata"].get("annotations") or {}
    if EVICTED_FOR not in annotations and REBUILT_FROM not in annotations:
        return run
    manifest_store.drop_for(run, world)  # first: a manifest must not be left for a job that is not marked

    def judge(job: Object) -> Object | None:
        marked = EVICTED_FOR in (job["metadata"].get("annotations") or {})
        return {"metadata": {"annotations": {EVICTED_FOR: None}}} if marked else None

    job, _ = rewrite(run.job, run.path, judge, world)
    return run_object(job)


def _need_at_rest(job: Object, world: World) -> None:
    """Suspended or failed, and not taken away by somebody else. Raises Refused, or Waiting while it is failing."""
    metadata = job["metadata"]
    title = f"job {metadata['namespace']}/{metadata['name']}"
    if metadata.get("deletionTimestamp") is not None:
        if EVICTED_FOR not in (metadata.get("annotations") or {}):
            raise Refused("gone", f"{title} is being deleted by somebody else")
        return
    if condition_of(job, "Failed") or job["spec"].get("suspend"):
        return
    if condition_of(job, "FailureTarget"):
        raise Waiting("terminating", f"{title} is failing", again=world.again)
    raise Refused("not_suspended", f"{title} is not suspended; somebody resumed it")


def _need_no_process(run: RunObject, world: World) -> None:
    alive = [pod for pod in pods_of(run, world) if not has_ended(pod)]
    alive = force_what_is_off(alive, world).left
    active = (run.job.get("status") or {}).get("active")
    if alive or active:
        names = ", ".join(str(pod["metadata"]["name"]) for pod in alive[:3])
        raise Waiting("terminating", f"pods have not ended: {names or active}", again=world.again)


def _marked(command: Command, run: RunObject, world: World) -> Object:
    """The job with our mark on it, as it stands then. Raises Refused when somebody resumed or deleted it meanwhile."""

    def judge(job: Object) -> Object | None:
        _need_at_rest(job, world)
        if EVICTED_FOR in (job["metadata"].get("annotations") or {}):
            return None
        return {"metadata": {"annotations": {EVICTED_FOR: command.incident}}}

    job, _ = rewrite(run.job, run.path, judge, world)
    return run_object(job).job


def _standing(stored: StoredManifest, path: str, world: World) -> Object:
    """What stands under the name: ours already, the old one that is not gone yet, or somebody else's."""
    try:
        job = world.api.get(path)
    except ApiNotFound:
        raise Waiting("replacing", f"{path} comes and goes", again=world.again) from None
    if job["metadata"]["uid"] == stored.replaces:
        raise Waiting("replacing", f"{path} is not gone yet", again=world.again)
    if run_object(job).run != stored.run:
        manifest_store.drop(stored, world)
        raise Refused("other_object", f"somebody made another job {path} meanwhile")
    return job
