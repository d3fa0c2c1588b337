"""Objects as the server would have them, and a loop without one: decisions are carried out on the copies alone, in virtual time."""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime
from typing import Any

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers.loop import Controller
from sandbox.cluster_standin.controllers.writes import Bind, Create, Delete, Kind, Patch, Write

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = itertools.count(1)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(BEGIN.timestamp() + seconds, UTC)


def stamp(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(name: str, namespace: str = "ns", **more: Any) -> Object:
    number = next(NUMBERS)
    made: Object = {
        "name": name,
        "uid": f"uid-{number}",
        "resourceVersion": str(number),
        "creationTimestamp": stamp(0),
    }
    return made | ({"namespace": namespace} if namespace else {}) | more


def pod(name: str = "pod", *, node: str = "", phase: str = "Pending", **spec: Any) -> Object:
    told = {"nodeName": node} if node else {}
    return {
        "metadata": metadata(name),
        "spec": {"containers": [{"name": "main"}], **told, **spec},
        "status": {"phase": phase, "conditions": []},
    }


def node(name: str, ready: str = "True", **spec: Any) -> Object:
    condition = {
        "type": "Ready",
        "status": ready,
        "lastHeartbeatTime": stamp(0),
        "lastTransitionTime": stamp(0),
    }
    return {
        "metadata": metadata(name, "", labels=spec.pop("labels", {})),
        "spec": spec,
        "status": {"conditions": [condition], "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "3"}},
    }


def lease(name: str, renewed: float) -> Object:
    return {"metadata": metadata(name, "kube-node-lease"), "spec": {"renewTime": stamp(renewed)}}


def job(size: int | None = 3, *, indexed: bool = True, **spec: Any) -> Object:
    counts = {} if size is None else {"completions": size}
    return {
        "metadata": metadata("job"),
        "spec": {
            "completionMode": "Indexed" if indexed else "NonIndexed",
            "parallelism": size or 1,
            "backoffLimit": 0,
            "template": {"metadata": {}, "spec": {"containers": [{"name": "main"}]}},
            **counts,
            **spec,
        },
        "status": {},
    }


def ended(item: Object, phase: str, code: int = 1, second: float = 0) -> None:
    """A pod's processes have ended."""
    state = {"terminated": {"exitCode": code, "finishedAt": stamp(second)}}
    item["status"] = {
        **item["status"],
        "phase": phase,
        "containerStatuses": [{"name": "main", "state": state}],
    }


class World:
    """The copies' face, with objects that a test may change in place, and whatever is decided done at once."""

    def __init__(self, **objects: list[Object]) -> None:
        self.objects: dict[Kind, list[Object]] = {
            kind: list(objects.get(kind.name.lower(), [])) for kind in Kind
        }
        self.seconds = 0.0
        self.written: list[Write] = []

    def all(self, kind: Kind) -> list[Object]:
        return sorted(
            self.objects[kind],
            key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]),
        )

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        wanted = (namespace, name)
        found = (
            (one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in self.objects[kind]
        )
        return next((one for one, key in zip(self.objects[kind], found, strict=True) if key == wanted), None)

    def turn(self, controller: Controller, seconds: float | None = None) -> datetime | None:
        """Let it decide until it is content; when it wants to look again."""
        self.seconds = self.seconds if seconds is None else seconds
        for _ in range(20):
            decision = controller.decide(self, at(self.seconds))  # type: ignore[arg-type]
            if not decision.batches:
                return decision.again
            for batch in decision.batches:
                for write in batch:
                    self.written.append(write)
                    self._do(write)
        raise AssertionError(f"never content: {self.written[-5:]}")

    def _do(self, write: Write) -> None:
        match write:
            case Create(kind, namespace, body):
                made = copy.deepcopy(body)
                name = made["metadata"].get("name") or f"{made['metadata']['generateName']}{next(NUMBERS)}"
                made["metadata"] |= metadata(name, namespace)
                made.setdefault("status", {"phase": "Pending", "conditions": []})
                self.objects[kind].append(made)
            case Patch(kind, item, change):
                if write.by_type:
                    _by_type(item["status"], change["status"])
                else:
                    _merge(item, change)
                self._drop_if_free(kind, item)
            case Delete(kind, item, grace):
                unbound = not item.get("spec", {}).get("nodeName")
                item["metadata"] |= {"deletionTimestamp": stamp(self.seconds)}
                item["metadata"]["deletionGracePeriodSeconds"] = 0 if unbound or grace == 0 else 30
                self._drop_if_free(kind, item)
            case Bind(bound, name):
                bound["spec"]["nodeName"] = name
            case _:
                pass

    def _drop_if_free(self, kind: Kind, item: Object) -> None:
        told = item["metadata"]
        if told.get("deletionGracePeriodSeconds") == 0 and not told.get("finalizers"):
            self.objects[kind] = [one for one in self.objects[kind] if one is not item]


def _merge(into: Object, change: Object) -> None:
    for key, value in change.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            _merge(into[key], value)
        else:
            into[key] = value


def _by_type(status: Object, change: Object) -> None:
    status |= {key: value for key, value in change.items() if key != "conditions"}
    for fresh in change.get("conditions", []):
        kept = [one for one in status.get("conditions", []) if one["type"] != fresh["type"]]
        status["conditions"] = [*kept, fresh]
