"""Objects as an API server writes them, and a cluster of them that tells a translator what changes."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from producers.cluster.book import Book
from producers.cluster.settings import WatchSettings
from producers.cluster.telling import Telling
from producers.cluster.translator import Translator
from runtime.informer import Difference
from runtime.kubernetes import Object
from schemas.cluster import JOB_UID_LABEL, RANK_LABEL

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def stamp(at: datetime) -> str:
    """A time as the API writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def make_node(
    name: str, uid: str, *, ready: str = "True", at: datetime = START - HOUR, **more: Any
) -> Object:
    """A node that became ready a minute after it was made."""
    made = START - 48 * HOUR
    since = at if ready != "True" else made + timedelta(minutes=1)
    return {
        "metadata": {
            "name": name,
            "uid": uid,
            "creationTimestamp": stamp(made),
            "labels": {},
            "annotations": {},
            "managedFields": [],
            **more.pop("metadata", {}),
        },
        "spec": more.pop("spec", {}),
        "status": {
            "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": stamp(since)},
                *more.pop("conditions", []),
            ]
        },
    }


def make_job(name: str, uid: str, *, size: int = 2, at: datetime = START, **more: Any) -> Object:
    """An Indexed Job that asks for chips and has recovery switched on."""
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid,
            "creationTimestamp": stamp(at),
            "annotations": {"fault-tolerance/job-retry-num": "3"},
            "labels": {},
            **more.pop("metadata", {}),
        },
        "spec": {
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": {}},
                "spec": {
                    "containers": [
                        {
                            "name": "train",
                            "resources": {"limits": {"huawei.com/Ascend910": "8"}},
                            "env": [{"name": "A"}],
                        }
                    ]
                },
            },
            **more.pop("spec", {}),
        },
        "status": more.pop("status", {}),
    }


def make_pod(
    job: Object,
    uid: str,
    *,
    node: str = "",
    rank: int = 0,
    at: datetime = START,
    epoch: str = "",
    **more: Any,
) -> Object:
    """A pod of the Job, running where it is bound."""
    metadata = job["metadata"]
    annotations = dict(job["spec"]["template"]["metadata"]["annotations"])
    if epoch:
        annotations["relight.dev/epoch"] = epoch
    bound = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(at)}] if node else []
    return {
        "metadata": {
            "name": f"{metadata['name']}-{rank}-{uid}",
            "namespace": metadata["namespace"],
            "uid": uid,
            "creationTimestamp": stamp(at),
            "labels": {JOB_UID_LABEL: metadata["uid"], RANK_LABEL: str(rank)},
            "annotations": annotations,
            **more.pop("metadata", {}),
        },
        "spec": {
            "nodeName": node or None,
            "containers": [{"name": "train", "resources": {"limits": {"huawei.com/Ascend910": "8"}}}],
        },
        "status": {"phase": "Running" if node else "Pending", "conditions": bound, **more.pop("status", {})},
    }


def terminated(code: int, *, at: datetime = START, reason: str = "Error", restarts: int = 0) -> Object:
    """Status of a container that ended and stays ended."""
    state = {"exitCode": code, "reason": reason, "finishedAt": stamp(at)}
    return {"name": "train", "restartCount": restarts, "state": {"terminated": state}}


class FakeCluster:
    """Objects, changed by a test, and the translator that hears of each change at once unless it is deaf."""

    def __init__(self, settings: WatchSettings | None = None) -> None:
        self.settings = settings or WatchSettings()
        self.now = START
        self.told: list[Telling] = []
        self.deaf = False
        self.nodes: dict[str, Object] = {}
        self.jobs: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self._version = itertools.count(1)
        self._heard: dict[str, dict[str, Object]] = {"nodes": {}, "jobs": {}, "pods": {}}
        self.translator = self._new_translator(Book())
        self.told += self.translator.listed()

    def _new_translator(self, book: Book) -> Translator:
        return Translator("test", self.settings, book, lambda: self.now, recent=self.settings.memory)

    # ------------------------------------------------------------ what a test does

    def put(self, *objects: Object) -> None:
        """Make or replace objects."""
        for item in objects:
            self._kind(item)[item["metadata"]["uid"]] = self._written(item)
        self.hear()

    def change(self, uid: str, edit: Callable[[Object], None]) -> None:
        """Change one object in place."""
        for kind in (self.nodes, self.jobs, self.pods):
            if uid in kind:
                item = copy.deepcopy(kind[uid])
                edit(item)
                kind[uid] = self._written(item)
        self.hear()

    def remove(self, *uids: str) -> None:
        """Delete objects."""
        for uid in uids:
            for kind in (self.nodes, self.jobs, self.pods):
                kind.pop(uid, None)
        self.hear()

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def hear(self) -> None:
        """What informers tell: nothing while the watches are cut, all differences once they work again."""
        if self.deaf:
            return
        for kind, hears in self._hearing():
            found, heard = getattr(self, kind), self._heard[kind]
            for uid in [uid for uid in heard if uid not in found]:
                self.told += hears(Difference(heard.pop(uid), None))
            for uid, item in list(found.items()):
                if heard.get(uid) != item:
                    old, heard[uid] = heard.get(uid), item
                    self.told += hears(Difference(old, item))

    def _hearing(self) -> Iterator[tuple[str, Callable[[Difference], list[Telling]]]]:
        yield "nodes", self.translator.node
        yield "jobs", self.translator.job
        yield "pods", self.translator.pod

    def restart(self, *, remembers: bool = True) -> list[Telling]:
        """Another watcher takes over, with the book of the facts of the topic or without; what it tells at its start."""
        book = Book()
        if remembers:
            for telling in self.told:
                book.fold(telling.payload)
        self.translator = self._new_translator(book)
        self._heard = {"nodes": {}, "jobs": {}, "pods": {}}
        before = len(self.told)
        self.hear()
        self.told += self.translator.listed()
        return self.told[before:]

    def of(self, kind: type[Any]) -> list[Any]:
        """Everything of a kind that was told."""
        return [telling.payload for telling in self.told if isinstance(telling.payload, kind)]

    def _kind(self, item: Object) -> dict[str, Object]:
        if "template" in item["spec"]:
            return self.jobs
        return self.pods if "containers" in item["spec"] else self.nodes

    def _written(self, item: Object) -> Object:
        written = copy.deepcopy(item)
        written["metadata"]["resourceVersion"] = str(next(self._version))
        return written
