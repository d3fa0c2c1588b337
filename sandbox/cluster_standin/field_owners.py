"""Who wrote which field last: `metadata.managedFields`, as far as writes by update go (there is no server-side apply here).

A write makes its manager the owner of what it added or changed, at that second; nobody owns what was removed, so that removing alone leaves
no trace. A watcher reads names and times, an actuator who set a cordon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from runtime.kubernetes import Object

Path = tuple[str, ...]
_NOBODYS: Final = frozenset(
    {
        "apiVersion",
        "kind",
    }
)
_NOBODYS_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    }
)
_KEYS: Final = {
    "conditions": ("type",),
    "addresses": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "podIPs": ("ip",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "protocol"),
}
_SETS: Final = frozenset({"finalizers"})


def owned(old: Object | None, new: Object, manager: str, subresource: str, at: str) -> list[Object]:
    """The entries of `new`, written by `manager` on what was `old`. Where nobody owned anything nobody begins to: as the server has it."""
    if old is not None and not old["metadata"].get("managedFields"):
        return []
    theirs = "f:spec" if subresource == "status" else "f:status"  # what this way of writing leaves as it is
    before = {} if old is None else dict(_leaves(old))
    after = dict(_leaves(new))
    changed = {
        path
        for path, value in after.items()
        if path[0] != theirs and (path not in before or before[path] != value)
    }
    found = []
    ours: set[Path] = set()
    for entry in (old or {"metadata": {}})["metadata"].get("managedFields") or []:
        fields = _read(entry["fieldsV1"]) & after.keys()
        if entry["manager"] == manager and entry.get("subresource", "") == subresource:
            ours = fields
            if not changed and ours:
                found.append({**entry, "fieldsV1": _written(ours)})
            continue
        left = fields - changed
        if left:
            found.append(
                entry if left == fields == _read(entry["fieldsV1"]) else {**entry, "fieldsV1": _written(left)}
            )
    if changed:
        entry = {
            "manager": manager,
            "operation": "Update",
            "apiVersion": new["apiVersion"],
            "time": at,
            "fieldsType": "FieldsV1",
            "fieldsV1": _written(ours | changed),
        }
        found.append({**entry, "subresource": subresource} if subresource else entry)
    return sorted(found, key=lambda entry: (entry["time"], entry["manager"], entry.get("subresource", "")))


def _leaves(item: Object) -> Iterator[tuple[Path, Any]]:
    for key, value in item.items():
        if key in _NOBODYS:
            continue
        if key == "metadata":
            mine = {name: each for name, each in value.items() if name not in _NOBODYS_METADATA}
            yield from _below(("f:metadata",), mine)
        elif value != {}:
            yield from _at((f"f:{key}",), key, value)


def _below(path: Path, item: Object) -> Iterator[tuple[Path, Any]]:
    for key, value in item.items():
        yield from _at((*path, f"f:{key}"), key, value)


def _at(path: Path, key: str, value: Any) -> Iterator[tuple[Path, Any]]:  # noqa: ANN401 - any JSON
    if isinstance(value, dict) and value:
        if len(path) > 1:
            yield (*path, "."), None
        yield from _below(path, value)
    elif isinstance(value, list) and key in _KEYS:
        yield (*path, "."), None
        for each in value:
            name = json.dumps({by: each.get(by) for by in _KEYS[key]}, separators=(",", ":"))
            yield (*path, f"k:{name}", "."), None
            yield from _below((*path, f"k:{name}"), each)
    elif isinstance(value, list) and key in _SETS:
        yield (*path, "."), None
        for each in value:
            yield (*path, f"v:{json.dumps(each)}"), None
    else:
        yield path, value


def _written(paths: set[Path]) -> Object:
    made: Object = {}
    for path in sorted(paths):
        at = made
        for key in path:
            at = at.setdefault(key, {})
    return made


def _read(fields: Object, path: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for key, below in fields.items():
        if below:
            found |= _read(below, (*path, key))
        else:
            found.add((*path, key))
    return found
