"""Jobs relight took down and did not bring back, because it is gone: given back to Kubernetes by whoever runs `relight let-go` (design 8).

Between suspend and resume nothing in Kubernetes would start the job again. So the suspension carries an end, as an order to stop does: it is
renewed while relight looks at the job, and once it has passed nobody of relight is at it any more. What reads it needs the API server alone, no
broker and no other part of relight; `deploy/kubernetes/let-go.yaml` lets Kubernetes itself run it every few minutes.

A job goes on as it was: old template, old epoch, newest checkpoint. Nothing is forced, so no second writer can come of it: the Job controller
starts no rank whose old pod has not ended. A suspension somebody else wrote since is theirs. A job that was deleted to be made anew is made
from its stored manifest, an hour after that was stored: longer than any deadline of the default rulebook within which relight might do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from actuators.jobs import manifest_store, rebuild
from actuators.jobs.manifest_store import StoredManifest
from actuators.jobs.run_objects import RunArguments, RunGone, attempt_of, is_leaving, run_object
from actuators.reply import Answered
from actuators.world import World
from runtime import paths
from runtime.errors import ApiError, ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import EVICTED_FOR, FIELD_MANAGER, LET_GO, SUSPENDED_UNTIL
from schemas.commands import Command, StepName
from schemas.ids import run_subject

MANIFEST_KEPT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class LetGo:
    """A job that was found, and what became of it."""

    job: str
    became: str
    """`resumed`, `made`, `waits`, `left` or `failed`."""
    detail: str = ""


def until_of(job: Object) -> datetime | None:
    """The end our suspension carries; None: it is not suspended, or not by us, or nobody can read it."""
    text = (job["metadata"].get("annotations") or {}).get(SUSPENDED_UNTIL)
    if text is None or not job["spec"].get("suspend") or _suspended_by(job) != FIELD_MANAGER:
        return None
    try:
        until = datetime.fromisoformat(text)
    except ValueError:
        return None
    return until if until.tzinfo else None


def due_of(item: Object) -> datetime:
    """From when on a manifest is nobody's: counted from its last write, since a left one is used again for the run's next rebuild."""
    metadata = item["metadata"]
    written = [entry["time"] for entry in metadata.get("managedFields") or [] if entry.get("time")]
    return max(map(datetime.fromisoformat, [metadata["creationTimestamp"], *written])) + MANIFEST_KEPT


def was_let_go(job: Object) -> bool:
    """Resumed here, and not suspended again since: a relight that is back leaves it as it runs, whatever it still wanted of it."""
    mark = (job["metadata"].get("annotations") or {}).get(LET_GO)
    return mark == str(attempt_of(job)) and not job["spec"].get("suspend")


def _suspended_by(job: Object) -> str:
    """Who wrote `spec.suspend` last."""
    writers = [
        str(entry.get("manager"))
        for entry in job["metadata"].get("managedFields") or []
        if "f:suspend" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    return writers[0] if len(writers) == 1 else ""


def let_go(world: World, *, now: bool) -> Iterator[LetGo]:
    """Give back what is overdue, and say of the rest how long it waits; `now`: all of it, for who takes relight away for good."""
    for job in world.api.list(paths.jobs()):
        until = until_of(job)
        # What is being deleted runs no more, and its manifest is still needed.
        if until is not None and not is_leaving(job):
            yield _resume(job, until, world, now=now)
    for item in world.api.list(paths.config_maps(), labels=f"{manifest_store.LABEL}=true"):
        yield _make(item, world, now=now)


def _resume(job: Object, until: datetime, world: World, *, now: bool) -> LetGo:
    metadata = job["metadata"]
    title = f"{metadata['namespace']}/{metadata['name']}"
    if not now and world.now() < until:
        return LetGo(title, "waits", f"relight was at it and may be still, until {until.isoformat()}")
    marks = {SUSPENDED_UNTIL: None, EVICTED_FOR: None, LET_GO: str(attempt_of(job))}
    change = {"spec": {"suspend": False}, "metadata": {"annotations": marks}}
    try:
        world.api.merge(job, paths.jobs(metadata["namespace"], metadata["name"]), change)
        if EVICTED_FOR in metadata["annotations"]:
            manifest_store.drop_for(run_object(job), world)
    except (ApiError, Answered) as error:
        return LetGo(title, "failed", str(error))
    return LetGo(title, "resumed")


def _make(item: Object, world: World, *, now: bool) -> LetGo:
    metadata = item["metadata"]
    title = f"{metadata['namespace']}/{metadata['name']}"
    due = due_of(item)
    if not now and world.now() < due:
        return LetGo(title, "waits", f"relight may still make this job anew, until {due.isoformat()}")
    try:
        stored = manifest_store.read(item)
        stands = _standing(stored, world)
        if stands is not None:
            return _left(stored, stands, world)
        rebuild.bring_back(
            _command(stored, world), RunArguments(namespace=stored.namespace, name=stored.name),
            RunGone("it was not deleted by relight"), world, fails=False,
        )  # fmt: skip
    except RunGone as gone:
        return LetGo(title, "left", str(gone))
    except (ApiError, Answered) as error:
        return LetGo(title, "failed", str(error))
    return LetGo(f"{stored.namespace}/{stored.name}", "made", f"from ConfigMap {metadata['name']}")


def _standing(stored: StoredManifest, world: World) -> Object | None:
    try:
        return world.api.get(paths.jobs(stored.namespace, stored.name))
    except ApiNotFound:
        return None


def _left(stored: StoredManifest, job: Object, world: World) -> LetGo:
    """The job is there. Once it is not to be deleted any more, what is stored goes: kept, it would undo a later deletion by its user."""
    metadata = job["metadata"]
    if metadata["uid"] != stored.replaces or EVICTED_FOR not in (metadata.get("annotations") or {}):
        world.api.delete(stored.item, stored.path, unchanged=True)
    return LetGo(f"{stored.namespace}/{stored.name}", "left", "the job is there")


def _command(stored: StoredManifest, world: World) -> Command:
    """What releases it, as the core would say it."""
    return Command(
        command=f"let-go-{stored.replaces}", incident="let-go", attempt=1, step=StepName.RELEASE_JOB, index=0,
        subject=run_subject(stored.run), epoch=stored.epoch, deadline=world.now(), not_after=world.now(),
        reason="relight is gone, and had deleted the job to make it anew", rulebook="none", trigger="none",
    )  # fmt: skip
