"""A small API for tests of steps: keeps the conditions of writes as the real server does, and can be told to misbehave.

What it believes of the real server is checked on a real one in `test_on_a_real_control_plane.py`.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runtime.errors import ApiConflict, ApiNotFound
from runtime.kubernetes import Listing, Object, PatchKind

Hook = Callable[[str, str], None]
"""Called with verb and path before each call; raises what the API should raise, or changes the world."""


@dataclass
class Write:
    """One accepted write: an effect, counted at the target."""

    verb: str
    path: str
    body: Any


Writes = list[Write]
Calls = list[tuple[str, str]]


@dataclass
class ScriptedApi:
    """Objects by path."""

    objects: dict[str, Object] = field(default_factory=dict)
    writes: Writes = field(default_factory=list)
    calls: Calls = field(default_factory=list)
    before: Hook | None = None
    _version: int = 100
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, path: str, item: Object) -> Object:
        """Make or change an object from outside, as anybody may."""
        with self._lock:
            self._version += 1
            new = copy.deepcopy(item)
            new["metadata"]["resourceVersion"] = str(self._version)
            self.objects[path] = new
            return new

    def touch(self, path: str) -> None:
        """Somebody else writes the object: its version moves on."""
        self.put(path, self.objects[path])

    def once(self, verb: str, path: str, do: Callable[[], object]) -> None:
        """Before the next such call something happens, once."""

        def hook(called: str, place: str) -> None:
            if (called, place) == (verb, path):
                self.before = None
                do()

        self.before = hook

    def annotations(self, path: str) -> dict[str, str]:
        return dict(self.objects[path]["metadata"].get("annotations") or {})

    def get(self, path: str) -> Object:
        self._call("GET", path)
        with self._lock:
            if path not in self.objects:
                raise ApiNotFound(f"GET {path}: 404")
            return copy.deepcopy(self.objects[path])

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        assert not fields or fields.startswith("spec.nodeName=")
        self._call("LIST", path)
        key, _, value = labels.partition("=")
        with self._lock:
            items = [
                copy.deepcopy(item)
                for place, item in sorted(self.objects.items())
                if _is_under(place, path)
                and (not labels or item["metadata"].get("labels", {}).get(key) == value)
                and (not fields or item.get("spec", {}).get("nodeName") == fields.partition("=")[2])
            ]
            return Listing(items, str(self._version))

    def create(self, path: str, body: Object, **query: str) -> Object:
        assert not query
        name = body["metadata"]["name"]
        self._call("POST", f"{path}/{name}")
        with self._lock:
            if f"{path}/{name}" in self.objects:
                raise ApiConflict(f"POST {path}/{name}: 409 AlreadyExists")
            self.writes.append(Write("POST", f"{path}/{name}", copy.deepcopy(body)))
            return self.put(
                f"{path}/{name}", {**body, "metadata": {"uid": f"uid-{name}", **body["metadata"]}}
            )

    def patch(
        self,
        path: str,
        body: Object | Sequence[Object],
        *,
        kind: PatchKind = PatchKind.MERGE,
        manager: str = "",
    ) -> Object:
        self._call("PATCH", path)
        assert kind is PatchKind.MERGE
        assert isinstance(body, dict)
        assert manager == "relight"
        with self._lock:
            if path not in self.objects:
                raise ApiNotFound(f"PATCH {path}: 404")
            stands = self.objects[path]
            for condition in ("uid", "resourceVersion"):
                wanted = body["metadata"].get(condition)
                if wanted is not None and wanted != stands["metadata"][condition]:
                    raise ApiConflict(f"PATCH {path}: 409 {condition}")
            merged = merge(stands, body)
            if merged == stands:
                return copy.deepcopy(stands)
            self.writes.append(Write("PATCH", path, copy.deepcopy(body)))
            return copy.deepcopy(self.put(path, merged))

    def delete(
        self, path: str, *, uid: str = "", resource_version: str = "", grace: int | None = None
    ) -> Object:
        self._call("DELETE", path)
        with self._lock:
            if path not in self.objects:
                raise ApiNotFound(f"DELETE {path}: 404")
            if uid and uid != self.objects[path]["metadata"]["uid"]:
                raise ApiConflict(f"DELETE {path}: 409 uid")
            if resource_version and resource_version != self.objects[path]["metadata"]["resourceVersion"]:
                raise ApiConflict(f"DELETE {path}: 409 resourceVersion")
            self.writes.append(Write("DELETE", path, grace))
            return self.objects.pop(path)

    def _call(self, verb: str, path: str) -> None:
        with self._lock:
            self.calls.append((verb, path))
        if self.before is not None:
            self.before(verb, path)


def merge(stands: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    merged = dict(stands) if isinstance(stands, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _is_under(place: str, path: str) -> bool:
    if "/namespaces/" in path or path.endswith("/nodes"):
        return place.rpartition("/")[0] == path
    base, _, plural = path.rpartition("/")
    return place.startswith(f"{base}/namespaces/") and place.split("/")[-2] == plural


def raising(error: Exception, verb: str = "", path: str = "") -> Hook:
    """A hook for calls of this verb and path (all where empty)."""

    def hook(called: str, place: str) -> None:
        if called.startswith(verb) and (not path or place == path):
            raise error

    return hook


NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
