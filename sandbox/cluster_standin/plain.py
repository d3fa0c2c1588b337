"""Nodes, namespaces, Leases, Secrets: little is particular to them."""

from __future__ import annotations

import base64
import re
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.kinds import Kind, World
from sandbox.cluster_standin.pods import NOT_READY
from sandbox.cluster_standin.refusals import Cause, not_served

SECURITY: Final = "pod-security.kubernetes.io/enforce"
_NODE_INFO: Final = dict.fromkeys(
    (
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
        "kubeProxyVersion", "operatingSystem", "architecture",
    ),
    "",
)  # fmt: skip
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Nodes(Kind):
    """A node is made as its kubelet says, and takes no pod before it was judged."""

    def prepare_create(self, item: Object, world: World) -> None:
        """Complete its status, which may be given from the start."""
        del world
        item.setdefault("spec", {})
        self._complete(item.setdefault("status", {}))

    def admit(self, item: Object, world: World) -> None:
        """Taint it as not ready: who judges nodes takes that off."""
        del world
        spec = item["spec"]
        taint = {"key": NOT_READY, "effect": "NoSchedule"}
        taints = spec.get("taints") or []
        if not any((each.get("key"), each.get("effect")) == (NOT_READY, "NoSchedule") for each in taints):
            spec["taints"] = [*taints, taint]

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """As for any kind; a status is completed."""
        super().prepare_update(new, old, subresource)
        self._complete(new.setdefault("status", {}))

    def _complete(self, status: Object) -> None:
        """What the server writes though it was not told."""
        if "capacity" in status:
            status.setdefault("allocatable", dict(status["capacity"]))
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
        status["nodeInfo"] = {**_NODE_INFO, **(status.get("nodeInfo") or {})}

    def validate(self, item: Object) -> list[Cause]:
        """What is wrong with its taints."""
        return _taint_causes(item)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What is wrong with its taints."""
        del old
        return [] if subresource else _taint_causes(new)


def _taint_causes(item: Object) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[object, object]] = set()
    for number, taint in enumerate((item.get("spec") or {}).get("taints") or []):
        at, effect = f"metadata.taints[{number}]", taint.get("effect")
        if effect not in _EFFECTS:
            causes.append(Cause(f"{at}.effect", f'Unsupported value: "{effect}"', "FieldValueNotSupported"))
        if (taint.get("key"), effect) in seen:
            said = f'Duplicate value: {{"key":"{taint.get("key")}","effect":"{effect}"}}: taints must be unique by key and effect pair'
            causes.append(Cause(at, said, "FieldValueDuplicate"))
        seen.add((taint.get("key"), effect))
    return causes


class Namespaces(Kind):
    """A namespace stays until everything in it is gone, which somebody says by `finalize`."""

    def prepare_create(self, item: Object, world: World) -> None:
        """Active, and known by a label. A namespace that is to enforce a level of security is not served."""
        del world
        metadata = item["metadata"]
        if (metadata.get("labels") or {}).get(SECURITY, "privileged") != "privileged":
            raise not_served(f"POST /api/v1/namespaces with label {SECURITY}")
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
        item["spec"] = {"finalizers": ["kubernetes"]}
        item["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Finalizers of the specification change by `finalize` only."""
        if subresource != "finalize":
            new["spec"] = old["spec"]
        new["status"] = old["status"]


class Leases(Kind):
    """A Lease's times and counts."""

    def prepare_create(self, item: Object, world: World) -> None:
        """It has a specification, if an empty one."""
        del world
        item.setdefault("spec", {})

    def validate(self, item: Object) -> list[Cause]:
        """What is wrong with them."""
        causes, spec = [], item.get("spec") or {}
        if spec.get("leaseDurationSeconds", 1) <= 0:
            said = f"Invalid value: {spec['leaseDurationSeconds']}: must be greater than 0"
            causes.append(Cause("spec.leaseDurationSeconds", said))
        if spec.get("leaseTransitions", 0) < 0:
            said = f"Invalid value: {spec['leaseTransitions']}: must be greater than or equal to 0"
            causes.append(Cause("spec.leaseTransitions", said))
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """The same."""
        del old, subresource
        return self.validate(new)


class Events(Kind):
    """Who reports is written though nobody said so."""

    def prepare_create(self, item: Object, world: World) -> None:
        """Empty is what it is then."""
        del world
        item.setdefault("source", {})
        item.setdefault("reportingComponent", "")
        item.setdefault("reportingInstance", "")


class Secrets(Kind):
    """What is given as text is kept as data."""

    def prepare_create(self, item: Object, world: World) -> None:
        """Take the text in."""
        del world
        text = item.pop("stringData", None) or {}
        made = {key: base64.b64encode(value.encode()).decode("ascii") for key, value in text.items()}
        if made:
            item["data"] = {**(item.get("data") or {}), **made}
        item.setdefault("type", "Opaque")


_CHARACTERS: Final = "alphanumeric characters, '-', '_' or '.'"
_NAME: Final = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LONGEST_NAME: Final = 253
_LABEL: Final = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
_PREFIXED: Final = re.compile(r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")


def metadata_causes(item: Object) -> list[Cause]:
    """What is wrong with a name, labels, annotations or owners."""
    metadata, causes = item["metadata"], []
    name = str(metadata.get("name", ""))
    if not _NAME.match(name) or len(name) > _LONGEST_NAME:
        said = f"Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        causes.append(Cause("metadata.name", said))
    causes += [
        Cause("metadata.labels", f'Invalid value: "{key}={value}": a valid label consists of {_CHARACTERS}')
        for key, value in (metadata.get("labels") or {}).items()
        if not _PREFIXED.match(key) or not _LABEL.match(value)
    ]
    causes += [
        Cause("metadata.annotations", f'Invalid value: "{key}": name part must consist of {_CHARACTERS}')
        for key in metadata.get("annotations") or {}
        if not _PREFIXED.match(key.lower())
    ]
    causes += [
        Cause(f"metadata.ownerReferences.{key}", 'Invalid value: "": must not be empty')
        for owner in metadata.get("ownerReferences") or []
        for key in ("apiVersion", "kind", "name", "uid")
        if not owner.get(key)
    ]
    return causes
