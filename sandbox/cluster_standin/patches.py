"""The three kinds of patches: merge (RFC 7396), JSON (RFC 6902), and of the strategic merge what our clients send.

Strategic: maps merge, the lists named here merge by their key, lists named here as whole are replaced. Any other list, and any directive but
`$patch: replace` in a list, is 501.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from runtime.kubernetes import Object, PatchKind
from sandbox.cluster_standin.refusals import bad_request, not_served, patch_does_not_apply
from sandbox.cluster_standin.resources import Resource

_MERGED_BY: Final = {
    ("Node", "status.conditions"): "type",
    ("Node", "status.addresses"): "type",
    ("Node", "spec.taints"): "key",
    ("Pod", "status.conditions"): "type",
    ("Pod", "status.podIPs"): "ip",
    ("Pod", "status.hostIPs"): "ip",
    ("Job", "status.conditions"): "type",
}
_WHOLE: Final = frozenset(
    {
        ("Pod", "status.containerStatuses"),
        ("Pod", "status.initContainerStatuses"),
        ("Pod", "status.ephemeralContainerStatuses"),
        ("Node", "status.images"),
    }
)


def patched(item: Object, patch: Any, content: str, resource: Resource) -> Object:  # noqa: ANN401 - any JSON
    """The object with the patch in it; the one given stays as it is."""
    made = copy.deepcopy(item)
    if content == PatchKind.JSON:
        if not isinstance(patch, list):
            raise bad_request("a JSON patch is a list of operations")
        for operation in patch:
            made = _operated(made, operation)
        return made
    if not isinstance(patch, dict):
        raise bad_request("a patch is an object")
    if content == PatchKind.MERGE:
        merged: Object = _merged(made, patch)
        return merged
    if content == PatchKind.STRATEGIC:
        return _strategic(made, patch, resource.kind, "")
    raise not_served(f"PATCH with content type {content}")


def _merged(into: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    made = into if isinstance(into, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merged(made.get(key), value)
    return made


# ------------------------------------------------------------ strategic


def _strategic(into: Object, patch: Object, kind: str, at: str) -> Object:
    for key, value in patch.items():
        where = f"{at}.{key}" if at else key
        if key.startswith("$"):
            raise not_served(f"directive {where} of a strategic patch")
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            found = into.get(key)
            into[key] = _strategic(found if isinstance(found, dict) else {}, value, kind, where)
        elif isinstance(value, list):
            into[key] = _list(into.get(key) or [], value, kind, where)
        else:
            into[key] = value
    return into


def _list(into: list[Any], patch: list[Any], kind: str, at: str) -> list[Any]:
    if (kind, at) in _WHOLE:
        return copy.deepcopy(patch)
    by = _MERGED_BY.get((kind, at))
    if by is None:
        raise not_served(f"a strategic patch of the list {kind}.{at}")
    directives = [each["$patch"] for each in patch if isinstance(each, dict) and "$patch" in each]
    entries = [each for each in patch if not (isinstance(each, dict) and "$patch" in each)]
    if directives == ["replace"]:
        return copy.deepcopy(entries)
    if directives:
        raise not_served(f"directive $patch: {directives[0]} in a strategic patch of {kind}.{at}")
    there = {each.get(by): (n, each) for n, each in enumerate(into)}
    ours: list[tuple[int, Object]] = []
    for entry in entries:
        if not isinstance(entry, dict) or by not in entry:
            raise bad_request(f"map: {entry} does not contain declared merge key: {by}")
        place, found = there.pop(entry[by], (-1, {}))
        ours.append((place, _strategic(dict(found), copy.deepcopy(entry), kind, at)))
    return _in_order(ours, list(there.values()))


def _in_order(ours: list[tuple[int, Object]], rest: list[tuple[int, Object]]) -> list[Object]:
    """What a patch names and what it does not, in the order the server had; what is new to it comes first."""
    made = []
    for place, entry in ours:
        while rest and place > rest[0][0]:
            made.append(rest.pop(0)[1])
        made.append(entry)
    return [*made, *(entry for _, entry in rest)]


# ------------------------------------------------------------ JSON patch


def _operated(item: Any, operation: Object) -> Any:  # noqa: ANN401 - any JSON
    what, path = operation.get("op"), operation.get("path")
    if what not in ("add", "remove", "replace", "test"):
        raise not_served(f"operation {what!r} of a JSON patch")
    if not isinstance(path, str) or not path.startswith("/"):
        raise not_served(f"path {path!r} of a JSON patch")
    *way, last = [each.replace("~1", "/").replace("~0", "~") for each in path[1:].split("/")]
    at = item
    for key in way:
        at = _step(at, key, path)
    if what == "test":
        if _step(at, last, path) != operation.get("value"):
            raise patch_does_not_apply(f"testing path {path} failed")
        return item
    if what in ("remove", "replace"):
        _step(at, last, path)
    value = copy.deepcopy(operation.get("value"))
    if isinstance(at, list):
        _in_list(at, last, str(what), value)
    elif what == "remove":
        del at[last]
    else:
        at[last] = value
    return item


def _in_list(at: list[Any], last: str, what: str, value: Any) -> None:  # noqa: ANN401 - any JSON
    place = len(at) if last == "-" else int(last)
    if what == "add":
        at.insert(place, value)
    elif what == "remove":
        del at[place]
    else:
        at[place] = value


def _step(at: Any, key: str, path: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return at[int(key)] if isinstance(at, list) else at[key]
    except (KeyError, IndexError, ValueError, TypeError):
        raise patch_does_not_apply(f"path {path} does not exist") from None
