"""Pods: what the server fills in, what of them may change, and how long they may take to end."""

from __future__ import annotations

import copy
import secrets
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.kinds import Kind, World
from sandbox.cluster_standin.refusals import Cause, forbidden, not_served
from sandbox.cluster_standin.resources import PODS, SERVICE_ACCOUNTS

DEFAULT_GRACE: Final = 30
TOKEN_MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
ROOT_AUTHORITY: Final = "kube-root-ca.crt"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
ENDED: Final = frozenset({"Succeeded", "Failed"})
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class Pods(Kind):
    """How pods differ from plain objects."""

    def prepare_create(self, item: Object, world: World) -> None:
        """Defaults; a new pod is Pending."""
        spec = item.setdefault("spec", {})
        del world
        default_spec(spec)
        spec.setdefault("enableServiceLinks", True)
        item["status"] = {"phase": "Pending", "qosClass": quality_of(spec)}

    def admit(self, item: Object, world: World) -> None:
        """Priority, tolerations, the service account and its token."""
        spec = item["spec"]
        _prioritised(item)
        _tolerating(spec, world.unreachable_toleration)
        _with_account(item, world)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """As for any kind; a container's state is written whatever it is."""
        super().prepare_update(new, old, subresource)
        for group in ("initContainerStatuses", "containerStatuses"):
            for each in (new.get("status") or {}).get(group) or []:
                each.setdefault("state", {})
                each.setdefault("lastState", {})

    def validate(self, item: Object) -> list[Cause]:
        """What is wrong with a new pod."""
        return spec_causes(item.get("spec") or {}, "spec")

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What of a pod may not change any more."""
        if subresource == "status":
            return _state_causes(new, old)
        allowed = copy.deepcopy(old["spec"])
        for key in ("activeDeadlineSeconds", "tolerations"):
            if key in new["spec"]:
                allowed[key] = new["spec"][key]
            else:
                allowed.pop(key, None)
        for group in ("containers", "initContainers"):
            for mine, theirs in zip(allowed.get(group) or [], new["spec"].get(group) or [], strict=False):
                mine["image"] = theirs.get("image")
        causes = []
        if allowed != new["spec"]:
            causes.append(Cause("spec", f"Forbidden: {_MAY_CHANGE}", "FieldValueForbidden"))
        missing = [
            each
            for each in old["spec"].get("tolerations") or []
            if each not in (new["spec"].get("tolerations") or [])
        ]
        if missing:
            why = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
            causes.append(Cause("spec.tolerations", why, "FieldValueForbidden"))
        return causes

    def grace(self, item: Object, asked: int | None) -> int | None:
        """Seconds until it may be taken away; none for one that nobody runs (any more)."""
        spec, status = item.get("spec") or {}, item.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in ENDED:
            return 0
        own = int(spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE))
        return own if asked is None else asked


def default_spec(spec: Object) -> None:
    """Fill in what a pod's specification, or a template's, leaves out."""
    for key, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", DEFAULT_GRACE),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
    ):
        spec.setdefault(key, copy.deepcopy(value))
    if spec.get("serviceAccount") and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in (*(spec.get("initContainers") or []), *(spec.get("containers") or [])):
        _default_container(container)
    for volume in spec.get("volumes") or []:
        _default_volume(volume)


def _default_container(container: Object) -> None:
    image = str(container.get("image", ""))
    latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    for name, amount in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(name, amount)
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or []:
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")


def _default_volume(volume: Object) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for kind in ("secret", "configMap", "projected", "downwardAPI"):
        if kind in volume:
            volume[kind].setdefault("defaultMode", 0o644)
    sources = [volume, *((volume.get("projected") or {}).get("sources") or [])]
    for source in sources:
        for each in (source.get("downwardAPI") or {}).get("items") or []:
            if "fieldRef" in each:
                each["fieldRef"].setdefault("apiVersion", "v1")
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def quality_of(spec: Object) -> str:
    """The quality of service class, by requests and limits of processor and memory."""
    asked, full = False, True
    for container in (*(spec.get("initContainers") or []), *(spec.get("containers") or [])):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            asked = asked or name in limits or name in requests
            full = full and name in limits and requests.get(name, limits[name]) == limits[name]
    if not asked:
        return "BestEffort"
    return "Guaranteed" if full else "Burstable"


def spec_causes(spec: Object, at: str) -> list[Cause]:
    """What is wrong with a pod's specification, or a template's."""
    containers = spec.get("containers") or []
    if not containers:
        return [Cause(f"{at}.containers", "Required value", "FieldValueRequired")]
    causes = []
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    seen: set[str] = set()
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group) or []):
            place, name = f"{at}.{group}[{number}]", container.get("name")
            if not name:
                causes.append(Cause(f"{place}.name", "Required value", "FieldValueRequired"))
            elif name in seen:
                causes.append(Cause(f"{place}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate"))
            seen.add(str(name))
            if not container.get("image"):
                causes.append(Cause(f"{place}.image", "Required value", "FieldValueRequired"))
            for n, mount in enumerate(container.get("volumeMounts") or []):
                if mount.get("name") not in volumes:
                    causes.append(
                        Cause(
                            f"{place}.volumeMounts[{n}].name",
                            f'Not found: "{mount.get("name")}"',
                            "FieldValueNotFound",
                        )
                    )
    if spec["restartPolicy"] not in ("Always", "OnFailure", "Never"):
        said = (
            f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", "OnFailure", "Never"'
        )
        causes.append(Cause(f"{at}.restartPolicy", said, "FieldValueNotSupported"))
    return causes


def bound(item: Object, binding: Object, at: str) -> Object:
    """The pod on the node that a binding names. Raises Refusal when it has one, or is going."""
    from sandbox.cluster_standin.refusals import conflict  # noqa: PLC0415 - refusals know resources

    made = copy.deepcopy(item)
    metadata, name = made["metadata"], str(made["metadata"]["name"])
    target = binding.get("target") or {}
    if target.get("kind", "Node") != "Node" or not target.get("name"):
        raise not_served(f"a binding to {target}")
    if metadata.get("deletionTimestamp"):
        raise conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if made["spec"].get("nodeName"):
        raise conflict(PODS, name, f'pod {name} is already assigned to node "{made["spec"]["nodeName"]}"')
    made["spec"]["nodeName"] = target["name"]
    for key in ("labels", "annotations"):
        more = (binding.get("metadata") or {}).get(key)
        if more:
            metadata[key] = {**(metadata.get(key) or {}), **more}
    set_condition(made, "PodScheduled", "True", at)
    return made


def set_condition(item: Object, kind: str, status: str, at: str, **more: str) -> None:
    """Put a condition into the pod's status; its time moves only when it turns."""
    conditions = item["status"].setdefault("conditions", [])
    found = next((each for each in conditions if each["type"] == kind), None)
    if found is None:
        conditions.append({"type": kind, "status": status, "lastTransitionTime": at, **more})
        return
    if found["status"] != status:
        found["lastTransitionTime"] = at
    found.update({"status": status, **more})


def _prioritised(item: Object) -> None:
    spec = item["spec"]
    name = spec.get("priorityClassName")
    if name and name not in _PRIORITIES:
        raise forbidden(PODS, item["metadata"]["name"], f"no PriorityClass with name {name} was found")
    spec["priority"] = _PRIORITIES.get(name or "", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _tolerating(spec: Object, seconds: int) -> None:
    tolerations = list(spec.get("tolerations") or [])
    for key in (NOT_READY, UNREACHABLE):
        if not any(_tolerates(each, key) for each in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            )
    spec["tolerations"] = tolerations


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def _with_account(item: Object, world: World) -> None:
    spec, namespace = item["spec"], str(item["metadata"]["namespace"])
    name = spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = name
    account = world.store.find(SERVICE_ACCOUNTS, namespace, name)
    if account is None:
        said = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(PODS, item["metadata"]["name"], said)
    if not spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
        return
    volume = f"kube-api-access-{secrets.token_hex(3)[:5]}"
    mount = {"name": volume, "readOnly": True, "mountPath": TOKEN_MOUNT}
    mounted = False
    for container in (*(spec.get("initContainers") or []), *(spec.get("containers") or [])):
        mounts = container.get("volumeMounts") or []
        if all(each.get("mountPath") != TOKEN_MOUNT for each in mounts):
            container["volumeMounts"] = [*mounts, dict(mount)]
            mounted = True
    if mounted:
        spec["volumes"] = [*(spec.get("volumes") or []), _access(volume)]


def _access(name: str) -> Object:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": ROOT_AUTHORITY, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
            ],
            "defaultMode": 0o644,
        },
    }


def _state_causes(new: Object, old: Object) -> list[Cause]:
    """A container of a pod that does not restart never runs again once it has ended."""
    policy = (old.get("spec") or {}).get("restartPolicy")
    if policy == "Always":
        return []
    causes = []
    now = {
        each["name"]: each.get("state") or {}
        for each in (new.get("status") or {}).get("containerStatuses") or []
    }
    for each in (old.get("status") or {}).get("containerStatuses") or []:
        ended = (each.get("state") or {}).get("terminated")
        failed = bool(ended and ended.get("exitCode"))
        if not ended or (policy == "OnFailure" and failed) or each["name"] not in now:
            continue
        if "terminated" not in now[each["name"]]:
            said = "Forbidden: may not be transitioned to non-terminated state"
            causes.append(Cause(f"status.{each['name']}.state", said, "FieldValueForbidden"))
    return causes
