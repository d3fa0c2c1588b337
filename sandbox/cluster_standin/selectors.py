"""Label and field selectors, as text and as what they admit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.refusals import bad_request, not_served
from sandbox.cluster_standin.resources import ANY_FIELD, Resource

Admits = Callable[[Object], bool]
_SET: Final = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^()]*)\)$")
_EQUALITY: Final = re.compile(r"^([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)$")
_KEY: Final = re.compile(r"^(!?)([\w./-]+)$")
_NO_COMMAS_IN_SETS: Final = re.compile(r",(?![^()]*\))")


def selection(resource: Resource, labels: str, fields: str) -> Admits:
    """What both selectors admit. Raises a bad request for what is none, and 501 for a field that is not served."""
    of_labels = [_label(each.strip()) for each in _NO_COMMAS_IN_SETS.split(labels) if each.strip()]
    of_fields = [_field(each.strip(), resource) for each in fields.split(",") if each.strip()]

    def admits(item: Object) -> bool:
        held = item["metadata"].get("labels") or {}
        return all(each(held) for each in of_labels) and all(each(item) for each in of_fields)

    return admits


def _label(term: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(term):
        key, how, text = found.groups()
        values = {each.strip() for each in text.split(",")}
        return (
            (lambda held: held.get(key) in values)
            if how == "in"
            else (lambda held: held.get(key) not in values)
        )
    if found := _EQUALITY.match(term):
        key, how, value = found.groups()
        return (lambda held: held.get(key) != value) if how == "!=" else (lambda held: held.get(key) == value)
    if found := _KEY.match(term):
        absent, key = found.groups()
        return (lambda held: key not in held) if absent else (lambda held: key in held)
    if "<" in term or ">" in term:
        raise not_served(f"label selector {term!r}")
    raise bad_request(f"unable to parse requirement: {term!r}")


def _field(term: str, resource: Resource) -> Admits:
    found = _EQUALITY.match(term)
    if not found:
        raise bad_request(f"invalid field selector: {term!r}")
    path, how, value = found.groups()
    if path not in (*ANY_FIELD, *resource.fields):
        raise not_served(f"field selector {path} of {resource.title}")
    keys = path.split(".")
    wanted = how != "!="
    return lambda item: (_text(item, keys) == value) is wanted


def _text(item: Object, keys: list[str]) -> str:
    at: Any = item
    for key in keys:
        at = (at or {}).get(key)
    if isinstance(at, bool):
        return "true" if at else "false"
    return "" if at is None else str(at)
