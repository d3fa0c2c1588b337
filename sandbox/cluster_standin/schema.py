"""Which fields an object may have and of which type, read off the official client's models: the server keeps no others.

As the real server: unknown fields are dropped, a value of the wrong type is a bad request, nulls and empty maps and lists go, times come
back as the server writes them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from kubernetes.client import models

from runtime.kubernetes import Object
from sandbox.cluster_standin.refusals import bad_request

_SIX_DIGITS: Final = re.compile(r"\.\d{6}(Z|[+-]\d\d:\d\d)$")
_LIST: Final = "List["
_DICT: Final = "Dict[str, "
_MICROSECONDS: Final = frozenset({"renewTime", "acquireTime", "eventTime", "lastObservedTime"})
_FALSE_IS_NOTHING: Final = frozenset(
    {"unschedulable", "hostNetwork", "hostPID", "hostIPC", "readOnly", "stdin", "tty"}
)
"""Plain booleans of Go's structs: false is not written. Others are pointers, where false says something."""
_EMPTY_SAYS: Final = frozenset({"holderIdentity", "imageID", "image", "type", "name"})
"""Texts that are written though empty; others are left out."""
_SIMPLE: Final[Mapping[str, type | tuple[type, ...]]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
}
_QUANTITIES: Final = frozenset({"limits", "requests", "capacity", "allocatable", "overhead", "hard"})
_READ: Final[set[str]] = set()


def prepare(*names: str) -> None:
    """Read models, and those of their fields, before somebody waits for it: the client imports each where it is first used."""
    for name in names:
        for kind in _fields(name).values():
            inner = kind.removeprefix(_LIST).removeprefix(_DICT).removesuffix("]")
            if inner not in _READ and hasattr(getattr(models, inner, None), "openapi_types"):
                _READ.add(inner)
                prepare(inner)


def pruned(item: object, model: str) -> Object:
    """The object as the server keeps it. Raises a bad request for what cannot be read."""
    if not isinstance(item, dict):
        raise bad_request("the body is no object")
    return _object(item, model, "")


def now_text(at: datetime | None = None) -> str:
    """A time as the server writes it: whole seconds."""
    return (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def _fields(model: str) -> dict[str, str]:
    described = getattr(models, model)
    return {described.attribute_map[name]: kind for name, kind in described.openapi_types.items()}


def _object(item: Object, model: str, at: str) -> Object:
    fields = _fields(model)
    found: Object = {}
    for name, value in item.items():
        kind = fields.get(name)
        if kind is None or value is None:
            continue
        if (value is False and name in _FALSE_IS_NOTHING) or (
            value == "" and kind == "str" and name not in _EMPTY_SAYS
        ):
            continue
        kept = _value(value, kind, name, f"{at}.{name}" if at else name)
        if kept is not None:
            found[name] = kept
    return found


def _value(value: Any, kind: str, name: str, at: str) -> Any:  # noqa: ANN401 - whatever stands in a field
    if kind.startswith(_LIST):
        if not isinstance(value, list):
            raise _wrong(at, "list", value)
        inner = kind[len(_LIST) : -1]
        return [_value(each, inner, name, f"{at}[{n}]") for n, each in enumerate(value)] or None
    if kind.startswith(_DICT):
        if not isinstance(value, dict):
            raise _wrong(at, "map", value)
        return _map(value, kind[len(_DICT) : -1], name, at) or None
    if kind == "datetime":
        return _time(value, name, at)
    if kind in _SIMPLE:
        if not isinstance(value, _SIMPLE[kind]) or (isinstance(value, bool) and kind != "bool"):
            raise _wrong(at, kind, value)
        return value
    if kind == "object":
        return value
    if not isinstance(value, dict):
        raise _wrong(at, "object", value)
    return _object(value, kind, at)


def _map(value: Object, inner: str, name: str, at: str) -> Object:
    found = {}
    for key, each in value.items():
        if each is None:
            continue
        if inner == "bytes":
            found[key] = _bytes(each, f"{at}[{key}]")
        elif (
            inner == "str"
            and name in _QUANTITIES
            and isinstance(each, int | float)
            and not isinstance(each, bool)
        ):
            found[key] = str(each)
        else:
            found[key] = _value(each, inner, key, f"{at}[{key}]")
    return found


def _bytes(value: object, at: str) -> str:
    try:
        base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(at, "base64", value) from None
    return str(value)


def _time(value: object, name: str, at: str) -> str:
    try:
        read = datetime.fromisoformat(str(value))
    except ValueError:
        raise _wrong(at, "time", value) from None
    if name in _MICROSECONDS and not _SIX_DIGITS.search(str(value)):
        raise _wrong(at, "time with six digits of a second", value)
    if read.tzinfo is None:
        raise _wrong(at, "time with a zone", value)
    read = read.astimezone(UTC)
    return read.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if name in _MICROSECONDS else now_text(read)


def _wrong(at: str, wanted: str, value: object) -> Exception:
    return bad_request(
        f"cannot be handled: {at}: expected {wanted}, not {type(value).__name__} {value!r:.80}"
    )
