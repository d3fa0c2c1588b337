"""Jobs: defaults, and what of them may change when: what suspending, changing the template and resuming lean on.

As Kubernetes 1.36: the template's metadata and scheduling directives may change while the job is suspended and has not started, or has
been told Suspended by its controller and has no pod running.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.kinds import Kind, World
from sandbox.cluster_standin.pods import default_spec, spec_causes
from sandbox.cluster_standin.refusals import Cause

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
NEVER_BY_DEFAULT: Final = 2**31 - 1
_IMMUTABLE: Final = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")
_ENDS: Final = ("Complete", "Failed")


class Jobs(Kind):
    """How jobs differ from plain objects."""

    def prepare_create(self, item: Object, world: World) -> None:
        """Defaults, and the labels and the selector by which its pods are known."""
        del world
        spec = item.setdefault("spec", {})
        item["status"] = {}
        _default(spec)
        template = spec.setdefault("template", {})
        default_spec(template.setdefault("spec", {}))
        if not spec.get("manualSelector"):
            uid, name = item["metadata"]["uid"], item["metadata"]["name"]
            labels = template.setdefault("metadata", {}).setdefault("labels", {})
            labels |= {
                CONTROLLER_UID: uid,
                "batch.kubernetes.io/job-name": name,
                "controller-uid": uid,
                "job-name": name,
            }
            spec.setdefault("selector", {}).setdefault("matchLabels", {})[CONTROLLER_UID] = uid
        labels = (template.get("metadata") or {}).get("labels")
        if labels and not item["metadata"].get("labels"):
            item["metadata"]["labels"] = dict(labels)

    def validate(self, item: Object) -> list[Cause]:
        """What is wrong with a new job."""
        spec = item["spec"]
        template = spec["template"]["spec"]
        causes = spec_causes(template, "spec.template.spec")
        for name in (
            "parallelism",
            "completions",
            "backoffLimit",
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
        ):
            if spec.get(name, 0) < 0:
                causes.append(
                    Cause(f"spec.{name}", f"Invalid value: {spec[name]}: must be greater than or equal to 0")
                )
        if spec["completionMode"] == "Indexed" and "completions" not in spec:
            said = "Required value: when completion mode is Indexed"
            causes.append(Cause("spec.completions", said, "FieldValueRequired"))
        if template.get("restartPolicy") not in ("Never", "OnFailure"):
            said = 'Required value: valid values: "OnFailure", "Never"'
            causes.append(Cause("spec.template.spec.restartPolicy", said, "FieldValueRequired"))
        return [*causes, *_policy_causes(spec)]

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What of a job may not change any more."""
        if subresource == "status":
            return _status_causes(new, old)
        now, before = new["spec"], old["spec"]
        causes = [
            _immutable(f"spec.{name}", now.get(name))
            for name in _IMMUTABLE
            if now.get(name) != before.get(name)
        ]
        if now.get("completions") != before.get("completions") and not _is_elastic(now, before):
            causes.append(_immutable("spec.completions", now.get("completions")))
        allowed = _allowed(now["template"], old)
        if _frozen(now["template"]) != _frozen(allowed):
            within = _may_move(old) and now["template"]["spec"] != allowed["spec"]
            causes.append(_immutable("spec.template.spec" if within else "spec.template", "..."))
        return causes


def _default(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("backoffLimit", NEVER_BY_DEFAULT if "backoffLimitPerIndex" in spec else 6)
    failed_only = "podFailurePolicy" in spec
    spec.setdefault("podReplacementPolicy", "Failed" if failed_only else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or []:
        for pattern in rule.get("onPodConditions") or []:
            pattern.setdefault("status", "True")


def _policy_causes(spec: Object) -> list[Cause]:
    if "podFailurePolicy" not in spec:
        return []
    causes = []
    if spec["template"]["spec"].get("restartPolicy") != "Never":
        said = f'Invalid value: "{spec["template"]["spec"].get("restartPolicy")}": only "Never" is supported when podFailurePolicy is specified'
        causes.append(Cause("spec.template.spec.restartPolicy", said))
    if spec["podReplacementPolicy"] != "Failed":
        said = f'Unsupported value: "{spec["podReplacementPolicy"]}": supported values: "Failed"'
        causes.append(Cause("spec.podReplacementPolicy", said, "FieldValueNotSupported"))
    return causes


def _is_elastic(now: Object, before: Object) -> bool:
    """An Indexed job may grow and shrink with its parallelism."""
    indexed = before.get("completionMode") == "Indexed" and now.get("completions") is not None
    return (
        indexed
        and now["completions"] == now.get("parallelism")
        and before.get("completions") == before.get("parallelism")
    )


def _allowed(template: Object, old: Object) -> Object:
    """The template as it was, with what of the new one may be."""
    before: Object = copy.deepcopy(old["spec"]["template"])
    if not _may_move(old):
        return before
    spec, now = before["spec"], template["spec"]
    for key in _DIRECTIVES:
        _as_in(spec, now, key)
    affinity = {**(spec.get("affinity") or {})}
    _as_in(affinity, now.get("affinity") or {}, "nodeAffinity")
    if affinity or "affinity" in now:
        spec["affinity"] = affinity
    else:
        spec.pop("affinity", None)
    metadata = before.setdefault("metadata", {})
    for key in ("labels", "annotations"):
        _as_in(metadata, template.get("metadata") or {}, key)
    return before


def _frozen(template: Object) -> Object:
    """To compare: no metadata is empty metadata."""
    return {**template, "metadata": template.get("metadata") or {}}


def _may_move(old: Object) -> bool:
    if not old["spec"].get("suspend"):
        return False
    status = old.get("status") or {}
    if not status.get("startTime"):
        return True
    return _holds(old, "Suspended") and not status.get("active")


def _as_in(into: Object, source: Object, key: str) -> None:
    if key in source:
        into[key] = copy.deepcopy(source[key])
    else:
        into.pop(key, None)


def _status_causes(new: Object, old: Object) -> list[Cause]:
    """What a status may not take back: how it ended, and when it began while it is not suspended."""
    causes = []
    for kind in _ENDS:
        if _holds(old, kind) and not _holds(new, kind):
            said = f"Invalid value: cannot disable the terminal {kind}=True condition"
            causes.append(Cause("status.conditions", said))
    if all(_holds(new, kind) for kind in _ENDS):
        causes.append(
            Cause("status.conditions", "Invalid value: cannot set Complete=True and Failed=True conditions")
        )
    began, begins = (each.get("status", {}).get("startTime") for each in (old, new))
    if began and not begins and not new["spec"].get("suspend"):
        causes.append(
            Cause("status.startTime", "Required value: startTime cannot be removed for unsuspended job")
        )
    if (
        began
        and begins
        and began != begins
        and not new["spec"].get("suspend")
        and not _holds(old, "Suspended")
    ):
        causes.append(
            Cause("status.startTime", "Invalid value: startTime cannot be changed for unsuspended job")
        )
    return causes


def _holds(job: Object, kind: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


def _immutable(field: str, value: Any) -> Cause:  # noqa: ANN401 - any JSON
    return Cause(field, f"Invalid value: {value}: field is immutable")
