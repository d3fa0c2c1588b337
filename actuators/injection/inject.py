"""Injection: a manifest in, a manifest and the reasons out. Pure and deterministic; twice is as once (design 8, finding Q21).

Two annotations on the job are all a team writes. What is changed: one container's command is wrapped; an init container brings the
supervisor; a pod-scoped volume, the template's annotations and the node agent's socket are mounted; the Job bears disruptions and as many more
pod failures as it may be restarted. Sidecars, other containers and everything else stay as they are, in the order and the style they had.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final

from actuators.injection import parts
from actuators.injection.eligibility import Chosen, choose
from actuators.injection.options import VERSION, InjectionOptions
from actuators.injection.reasons import Untouched
from runtime.kubernetes import Object
from schemas.cluster import EPOCH, INJECTED, RUN

DEFAULT_BACKOFF: Final = 6
"""Kubernetes' own backoffLimit."""
MOST_RULES: Final = 20
"""Kubernetes takes so many rules of a podFailurePolicy."""
DISRUPTION: Final = "DisruptionTarget"


@dataclass(frozen=True, slots=True)
class Injection:
    """The manifest as it is to be, and why it is untouched if it is."""

    manifest: Object
    untouched: Untouched | None = None
    container: str = ""


def inject(manifest: Object, options: InjectionOptions) -> Injection:
    """Change a copy of the manifest; what is given stays as it is."""
    chosen = choose(manifest, options)
    if isinstance(chosen, Untouched):
        return Injection(manifest, untouched=chosen)
    job = copy.deepcopy(manifest)
    template = job["spec"]["template"]
    container = template["spec"]["containers"][chosen.index]
    _wrap(job, container, options)
    _bring_supervisor(template["spec"], options)
    _mark(job, template)
    _bear_more(job["spec"], chosen, options)
    return Injection(job, container=str(container["name"]))


def _wrap(job: Object, container: Object, options: InjectionOptions) -> None:
    environment = _list(container, "env")
    known = {entry.get("name") for entry in environment}
    environment.extend(
        entry for entry in parts.environment(job, container, options) if entry["name"] not in known
    )
    _list(container, "volumeMounts").extend(parts.mounts())
    container["command"] = parts.wrapped(container["command"], options)


def _bring_supervisor(pod: Object, options: InjectionOptions) -> None:
    # First of all: a sidecar begins before later init containers, and is none of our business.
    _list(pod, "initContainers").insert(0, parts.init_container(pod, options))
    _list(pod, "volumes").extend(parts.volumes(options))


def _mark(job: Object, template: Object) -> None:
    """The template says what the supervisor reads: version, epoch, and the run a rebuilt object carries."""
    annotations = _map(_map(template, "metadata"), "annotations")
    annotations[INJECTED] = VERSION
    carried = job["metadata"].get("annotations") or {}
    annotations.setdefault(EPOCH, str(carried.get(EPOCH, "1")))
    if RUN in carried:
        annotations.setdefault(RUN, str(carried[RUN]))


def _bear_more(spec: Object, chosen: Chosen, options: InjectionOptions) -> None:
    more = min(chosen.wishes.job_retry + chosen.wishes.pod_retry, options.most_retries_added)
    if "backoffLimitPerIndex" not in spec:  # there the limit of the whole Job is as good as none
        spec["backoffLimit"] = int(spec.get("backoffLimit", DEFAULT_BACKOFF)) + more
    rules = _list(_map(spec, "podFailurePolicy"), "rules")
    if len(rules) < MOST_RULES and not any(_speaks_of_disruption(rule) for rule in rules):
        rules.append(copy.deepcopy(parts.IGNORE_DISRUPTION))
    ttl = spec.get("ttlSecondsAfterFinished")
    least = int(options.ttl.total_seconds())
    if isinstance(ttl, int) and ttl < least:
        spec["ttlSecondsAfterFinished"] = least


def _speaks_of_disruption(rule: Object) -> bool:
    return any(condition.get("type") == DISRUPTION for condition in rule.get("onPodConditions") or [])


def _list(owner: Object, key: str) -> list[Any]:
    """The list under a key, made where there is none."""
    if owner.get(key) is None:
        owner[key] = []
    found: list[Any] = owner[key]
    return found


def _map(owner: Object, key: str) -> Object:
    if owner.get(key) is None:
        owner[key] = {}
    found: Object = owner[key]
    return found
