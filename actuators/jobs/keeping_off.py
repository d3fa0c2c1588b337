"""Keeping a run off nodes: requirements in the node affinity of its suspended template. Pure.

By the node's name as a field, since a label may lie. What we added last time is taken out first, by its record on the job: the list is made
anew each time and never grows (finding Q8).
"""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from runtime.kubernetes import Object

KEPT_OFF: Final = "relight.dev/kept-off"
"""On the job: names of the nodes our requirements name, as a JSON list."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity_without(job: Object, names: list[str]) -> Object | None:
    """The affinity the template should have; None: none at all."""
    affinity: Object = copy.deepcopy(job["spec"]["template"]["spec"].get("affinity") or {})
    node = affinity.setdefault("nodeAffinity", {})
    terms = (node.pop(REQUIRED, None) or {}).get("nodeSelectorTerms") or []
    kept = [term for term in (_without_ours(term, recorded(job)) for term in terms) if term]
    if names:
        ours = [_requirement(name) for name in names]
        made = kept or [{}]
        kept = [{**term, "matchFields": [*term.get("matchFields", []), *ours]} for term in made]
    if kept:
        node[REQUIRED] = {"nodeSelectorTerms": kept}
    if not node:
        del affinity["nodeAffinity"]
    return affinity or None


def recorded(job: Object) -> list[str]:
    """Names we wrote last time; what cannot be read is none."""
    text = (job["metadata"].get("annotations") or {}).get(KEPT_OFF, "[]")
    try:
        names = json.loads(text)
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _without_ours(term: Object, names: list[str]) -> Object:
    ours = [_requirement(name) for name in names]
    fields = [field for field in term.get("matchFields") or [] if field not in ours]
    rest: dict[str, Any] = {key: value for key, value in term.items() if key != "matchFields"}
    return {**rest, "matchFields": fields} if fields else rest


def _requirement(name: str) -> Object:
    return {"key": "metadata.name", "operator": "NotIn", "values": [name]}
