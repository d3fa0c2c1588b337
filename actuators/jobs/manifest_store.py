"""The manifest of a job that is being made anew, kept in its namespace until the new object is there.

One ConfigMap a run, without an owner: it outlives the object it describes. It is written before anything is marked or deleted. `marked` is
written after the job carried our mark and before it is deleted: a job that is gone without it was deleted by somebody else, who wins. What is
left without it makes nothing anew, and is replaced next time.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from actuators.jobs.manifest import cleaned
from actuators.jobs.run_objects import RunObject, condition_of
from actuators.reply import Refused
from actuators.world import World
from runtime import paths
from runtime.errors import ApiConflict, ApiNotFound
from runtime.kubernetes import Object
from schemas.cluster import EPOCH, RUN
from schemas.ids import derive_id

LABEL: Final = "relight.dev/rebuild"
MANIFEST: Final = "job.json"
_OF: Final = "relight.dev/rebuild-of"
_STAGE: Final = "relight.dev/rebuild-stage"
_HAD_FAILED: Final = "relight.dev/had-failed"
_MARKED: Final = "marked"


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """What is kept of a job."""

    item: Object
    """The ConfigMap as it was read."""
    run: str
    epoch: int
    """Of the object it was taken from."""
    replaces: str
    """UID of that object."""
    marked: bool
    had_failed: bool
    manifest: Object

    @property
    def namespace(self) -> str:
        """Of the job and of the ConfigMap."""
        return str(self.item["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Of the job."""
        return str(self.manifest["metadata"]["name"])

    @property
    def path(self) -> str:
        """Of the ConfigMap."""
        return paths.config_maps(self.namespace, str(self.item["metadata"]["name"]))


def name_for(run: str) -> str:
    """Name of the ConfigMap of a run."""
    return f"relight-rebuild-{derive_id('rebuild', run)[:20]}"


def keep(run: RunObject, world: World) -> StoredManifest:
    """Store the manifest of this very object, as it is now, unless it is stored; anything else that stands there is replaced."""
    there = _get(run.run, run.namespace, world)
    if there is None:
        return read(world.api.create(paths.config_maps(run.namespace), _item(run)))
    with suppress(Refused):
        found = read(there)
        if found.replaces == run.uid and found.manifest == cleaned(run.job):
            return found
    item = _item(run)
    annotations = {_STAGE: None, _HAD_FAILED: None, **item["metadata"]["annotations"]}
    path = paths.config_maps(run.namespace, name_for(run.run))
    return read(
        world.api.merge(there, path, {"metadata": {"annotations": annotations}, "data": item["data"]})
    )


def note_marked(stored: StoredManifest, world: World) -> StoredManifest:
    """The job carries our mark: from here on its object is ours to replace."""
    if stored.marked:
        return stored
    change = {"metadata": {"annotations": {_STAGE: _MARKED}}}
    return read(world.api.merge(stored.item, stored.path, change))


def find(run: str, namespace: str, world: World) -> StoredManifest | None:
    """What is stored of a run; without a namespace all are looked through. Raises Refused when it cannot be read."""
    if namespace:
        there = _get(run, namespace, world)
        return None if there is None else read(there)
    for item in world.api.list(paths.config_maps(), labels=f"{LABEL}=true"):
        if item["metadata"]["name"] == name_for(run):
            return read(item)
    return None


def drop(stored: StoredManifest, world: World) -> None:
    """Take it away: the job is there again, or somebody else decided."""
    with suppress(ApiNotFound, ApiConflict):
        world.api.delete(stored.item, stored.path)


def drop_for(run: RunObject, world: World) -> None:
    """Take away what is stored of a run, whatever it is."""
    there = _get(run.run, run.namespace, world)
    if there is not None:
        with suppress(ApiNotFound, ApiConflict):
            world.api.delete(there, paths.config_maps(run.namespace, name_for(run.run)))


def _get(run: str, namespace: str, world: World) -> Object | None:
    try:
        return world.api.get(paths.config_maps(namespace, name_for(run)))
    except ApiNotFound:
        return None


def _item(run: RunObject) -> Object:
    annotations = {RUN: run.run, EPOCH: str(run.epoch), _OF: run.uid}
    if condition_of(run.job, "Failed"):
        annotations[_HAD_FAILED] = "true"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name_for(run.run),
            "namespace": run.namespace,
            "labels": {LABEL: "true", "app.kubernetes.io/managed-by": "relight"},
            "annotations": annotations,
        },
        "data": {MANIFEST: json.dumps(cleaned(run.job), sort_keys=True)},
    }


def read(item: Object) -> StoredManifest:
    """What a ConfigMap keeps. Raises Refused when it cannot be read."""
    annotations = item["metadata"].get("annotations") or {}
    try:
        manifest = json.loads(item["data"][MANIFEST])
        found = StoredManifest(
            item=item,
            run=str(annotations[RUN]),
            epoch=int(annotations[EPOCH]),
            replaces=str(annotations[_OF]),
            marked=annotations.get(_STAGE) == _MARKED,
            had_failed=_HAD_FAILED in annotations,
            manifest=manifest,
        )
        is_job = (manifest["kind"], manifest["metadata"]["namespace"]) == ("Job", found.namespace)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused("bad_manifest", f"ConfigMap {item['metadata']['name']}: {error!r}") from None
    if not is_job:
        raise Refused("bad_manifest", f"ConfigMap {item['metadata']['name']} holds no job of its namespace")
    return found
