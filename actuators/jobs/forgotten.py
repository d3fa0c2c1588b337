"""Jobs relight took down and did not bring back, because it is gone: given back to Kubernetes by whoever runs `relight let-go` (design 8).

Between suspend and resume nothing in Kubernetes would start the job again. So the suspension carries an end, as an order to stop does: it is
renewed while relight looks at the job, and once it has passed nobody of relight is at it any more. What reads it needs the API server alone, no
broker and no other part of relight; `deploy/kubernetes/let-go.yaml` lets Kubernetes itself run it every few minutes.

A job goes on as it was: old template, old epoch, newest checkpoint. Nothing is forced, so no second writer can come of it: the Job controller
starts no rank whose old pod has not ended. A suspension somebody else wrote since is theirs. A job that was deleted to be made anew is made
from its stored manifest, an hour after that was stored: longer than any deadline within which relight might still do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from actuators.jobs import manifest_store, rebuild
from actuators.jobs.manifest_store import StoredManifest
from actuators.jobs.run_objects import RunArguments, RunGone
from actuators.reply import Answered
from actuators.world import World
from runtime import paths
from runtime.errors import ApiError, ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import EVICTED_FOR, FIELD_MANAGER, SUSPENDED_UNTIL
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
        if until is not None:
            yield _resume(job, until, world, now=now)
    for item in world.api.list(paths.config_maps(), labels=f"{manifest_store.LABEL}=true"):
        yield _make(item, world, now=now)


def _resume(job: Object, until: datetime, world: World, *, now: bool) -> LetGo:
    metadata = job["metadata"]
    title = f"{metadata['namespace']}/{metadata['name']}"
    if not now and world.now() < until:
        return LetGo(title, "waits", f"relight was at it and may be still, until {until.isoformat()}")
    marks = {SUSPENDED_UNTIL: None, EVICTED_FOR: None}
    change = {"spec": {"suspend": False}, "metadata": {"annotations": marks}}
    try:
        world.api.merge(job, paths.jobs(metadata["namespace"], metadata["name"]), change)
    except ApiError as error:
        return LetGo(title, "failed", str(error))
    return LetGo(title, "resumed")


def _make(item: Object, world: World, *, now: bool) -> LetGo:
    metadata = item["metadata"]
    title = f"{metadata['namespace']}/{metadata['name']}"
    due = datetime.fromisoformat(metadata["creationTimestamp"]) + MANIFEST_KEPT
    if not now and world.now() < due:
        return LetGo(title, "waits", f"relight may still make this job anew, until {due.isoformat()}")
    try:
        stored = manifest_store.read(item)
        if _stands(stored, world):
            return LetGo(title, "left", "the job is there")
        rebuild.bring_back(
            _command(stored, world), RunArguments(namespace=stored.namespace, name=stored.name),
            RunGone("it was not deleted by relight"), world, fails=False,
        )  # fmt: skip
    except RunGone as gone:
        return LetGo(title, "left", str(gone))
    except (ApiError, Answered) as error:
        return LetGo(title, "failed", str(error))
    return LetGo(f"{stored.namespace}/{stored.name}", "made", f"from ConfigMap {metadata['name']}")


def _stands(stored: StoredManifest, world: World) -> bool:
    try:
        world.api.get(paths.jobs(stored.namespace, stored.name))
    except ApiNotFound:
        return False
    return True


def _command(stored: StoredManifest, world: World) -> Command:
    """What releases it, as the core would say it."""
    return Command(
        command=f"let-go-{stored.replaces}", incident="let-go", attempt=1, step=StepName.RELEASE_JOB, index=0,
        subject=run_subject(stored.run), epoch=stored.epoch, deadline=world.now(), not_after=world.now(),
        reason="relight is gone, and had deleted the job to make it anew", rulebook="none", trigger="none",
    )  # fmt: skip
