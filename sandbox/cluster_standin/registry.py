"""The verbs on objects: create, change, delete, as the real server does them one after another. Knows nothing of HTTP.

Guarantees: every write is on the version that was read, and one that changes nothing is none: no version, no event. What is being deleted
goes when nothing holds it any more: no grace, no finalizer.
"""

from __future__ import annotations

import copy
import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from runtime.kubernetes import Object
from sandbox.cluster_standin import field_owners
from sandbox.cluster_standin.jobs import Jobs
from sandbox.cluster_standin.kinds import Kind, World
from sandbox.cluster_standin.plain import Events, Leases, Namespaces, Nodes, Secrets, metadata_causes
from sandbox.cluster_standin.pods import ROOT_AUTHORITY, Pods
from sandbox.cluster_standin.refusals import (
    Cause,
    Refusal,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    not_served,
    other_object,
    other_version,
    unreadable_patch,
)
from sandbox.cluster_standin.resources import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from sandbox.cluster_standin.schema import now_text, pruned
from sandbox.cluster_standin.store import Store

KINDS: Final[Mapping[Resource, Kind]] = {
    NODES: Nodes(),
    PODS: Pods(),
    JOBS: Jobs(),
    NAMESPACES: Namespaces(),
    LEASES: Leases(),
    SECRETS: Secrets(),
    EVENTS: Events(),
}
PLAIN: Final = Kind()
FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
KEPT_NAMESPACES: Final = frozenset({"default", "kube-public", "kube-system"})
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_SET_BY_THE_SERVER: Final = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
)


@dataclass(frozen=True, slots=True)
class Place:
    """An object's place: resource, namespace (empty: none), name (empty: not given)."""

    resource: Resource
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete."""

    grace: int | None = None
    uid: str = ""
    version: str = ""
    propagation: str = "Background"


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion came to: the object as it is, or was last; and whether it is gone."""

    item: Object
    is_gone: bool


class Registry:
    """Reads and writes objects by the rules of their kinds."""

    def __init__(self, store: Store, *, unreachable_toleration: int = 300) -> None:
        """`unreachable_toleration`: seconds, see `World`."""
        self.store = store
        self._world = World(store, unreachable_toleration)

    def begin(self) -> None:
        """Make the namespaces a cluster has from the start."""
        for name in FIRST_NAMESPACES:
            self.create(Place(NAMESPACES), {"metadata": {"name": name}}, manager="kube-apiserver")

    def get(self, place: Place) -> Object:
        """One object. Raises 404."""
        found = self.store.find(place.resource, place.namespace, place.name)
        if found is None:
            raise not_found(place.resource, place.name)
        return found

    # ------------------------------------------------------------ create

    def create(self, place: Place, body: object, *, manager: str, only_ask: bool = False) -> Object:
        """Make one; `only_ask` answers with what would be made."""
        resource = place.resource
        item = pruned(body, resource.model)
        self._stamp(place, item)
        self._need_namespace(place, item)
        kind = KINDS.get(resource, PLAIN)
        kind.prepare_create(item, self._world)
        self._own(None, resource, item, manager, "")
        kind.admit(item, self._world)
        causes = [*metadata_causes(item), *kind.validate(item)]
        name = str(item["metadata"]["name"])
        if causes:
            raise invalid(resource, name, causes)
        if self.store.find(resource, place.namespace, name) is not None:
            raise already_exists(resource, name)
        if only_ask:
            return item
        made = self.store.put(resource, item)
        if resource is NAMESPACES:
            self._furnish(name)
        return made

    def _stamp(self, place: Place, item: Object) -> None:
        resource = place.resource
        _need_kind(resource, item)
        for key in ("kind", "apiVersion"):
            item.pop(key, None)
        metadata = item.setdefault("metadata", {})
        if metadata.pop("resourceVersion", None):
            said = "resourceVersion should not be set on objects to be created"
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "", said)
        for key in _SET_BY_THE_SERVER:
            metadata.pop(key, None)
        _need_namespace_of(place, metadata)
        prefix = metadata.get("generateName")
        if not metadata.get("name"):
            if not prefix:
                causes = [
                    Cause(
                        "metadata.name",
                        "Required value: name or generateName is required",
                        "FieldValueRequired",
                    )
                ]
                raise invalid(resource, "", causes)
            metadata["name"] = prefix + "".join(secrets.choice(_LETTERS) for _ in range(_SUFFIX))
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = now_text()
        if resource.has_generation:
            metadata["generation"] = 1

    def _need_namespace(self, place: Place, item: Object) -> None:
        if not place.resource.namespaced:
            return
        found = self.store.find(NAMESPACES, "", place.namespace)
        if found is None:
            raise not_found(NAMESPACES, place.namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = (
                f"unable to create new content in namespace {place.namespace} because it is being terminated"
            )
            cause = Cause(
                "metadata.namespace",
                f"namespace {place.namespace} is being terminated",
                "NamespaceTerminating",
            )
            raise forbidden(place.resource, item["metadata"]["name"], why, cause=cause)

    def _furnish(self, namespace: str) -> None:
        """What controllers put into each namespace."""
        manager = "kube-controller-manager"
        account = {"metadata": {"name": "default"}}
        self.create(Place(SERVICE_ACCOUNTS, namespace), account, manager=manager)
        authority = {"metadata": {"name": ROOT_AUTHORITY}, "data": {"ca.crt": ""}}
        self.create(Place(CONFIG_MAPS, namespace), authority, manager=manager)

    # ------------------------------------------------------------ change

    def change(
        self,
        place: Place,
        make: Callable[[Object], Any],
        *,
        manager: str,
        subresource: str = "",
        whole: bool = False,
    ) -> Object:
        """Write what `make` makes of the object; `whole`: it was put by a client, not patched."""
        resource, old = place.resource, self.get(place)
        new = self._made(place, make(old), whole=whole)
        _need_kind(resource, new)
        for key in ("kind", "apiVersion"):
            new.pop(key, None)
        metadata, before = new.setdefault("metadata", {}), old["metadata"]
        self._need_same(place, metadata, before, whole=whole)
        for key in (*_SET_BY_THE_SERVER, "resourceVersion"):
            metadata.pop(key, None)
            if key in before:
                metadata[key] = before[key]
        metadata["uid"] = before["uid"]
        if subresource == "status" and resource is PODS and "ownerReferences" in before:
            metadata["ownerReferences"] = before["ownerReferences"]
        kind = KINDS.get(resource, PLAIN)
        kind.prepare_update(new, old, subresource)
        causes = [*metadata_causes(new), *_finalizer_causes(metadata, before)]
        causes += kind.validate_update(new, old, subresource)
        if causes:
            raise invalid(resource, place.name, causes)
        if new == old:
            return old
        if resource.has_generation and new.get("spec") != old.get("spec"):
            metadata["generation"] = before["generation"] + 1
        self._own(old, resource, new, manager, subresource)
        return self._put_or_end(resource, new)

    def _made(self, place: Place, given: object, *, whole: bool) -> Object:
        try:
            return pruned(given, place.resource.model)
        except Refusal as refusal:
            if whole:
                raise
            raise unreadable_patch(str(refusal)) from None

    def _need_same(self, place: Place, metadata: Object, before: Object, *, whole: bool) -> None:
        _need_namespace_of(place, metadata)
        given = metadata.setdefault("name", place.name)
        if given != place.name:
            raise bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({place.name})"
            )
        version, uid = metadata.get("resourceVersion"), metadata.get("uid")
        if whole and not version and place.resource.needs_version:
            said = "Invalid value: 0: must be specified for an update"
            raise invalid(place.resource, place.name, [Cause("metadata.resourceVersion", said)])
        if whole and uid and uid != before["uid"]:
            raise conflict(place.resource, place.name, _other_uid(uid, before["uid"]))
        if version and version != before["resourceVersion"]:
            raise conflict(place.resource, place.name)
        if uid and uid != before["uid"]:
            said = f'Invalid value: "{uid}": field is immutable'
            raise invalid(place.resource, place.name, [Cause("metadata.uid", said)])

    def _put_or_end(self, resource: Resource, item: Object) -> Object:
        metadata = item["metadata"]
        held = metadata.get("finalizers") or (resource is NAMESPACES and item["spec"].get("finalizers"))
        if metadata.get("deletionTimestamp") and not held and not metadata.get("deletionGracePeriodSeconds"):
            self.store.remove(resource, item)
            return item
        return self.store.put(resource, item)

    def write(self, resource: Resource, item: Object) -> Object:
        """Store what the server itself has changed: bindings, finalizers of the collector."""
        return self._put_or_end(resource, item)

    def _own(
        self, old: Object | None, resource: Resource, item: Object, manager: str, subresource: str
    ) -> None:
        named = {**item, "apiVersion": resource.api_version}
        owned = field_owners.owned(old, named, manager, subresource, now_text())
        item["metadata"].pop("managedFields", None)
        if owned:
            item["metadata"]["managedFields"] = owned

    # ------------------------------------------------------------ delete

    def delete(self, place: Place, options: DeleteOptions) -> Deleted:
        """Delete, or begin to. Raises 409 when it is another object, or another version, by now."""
        resource, old = place.resource, self.get(place)
        metadata = old["metadata"]
        if options.uid and options.uid != metadata["uid"]:
            raise other_object(resource, place.name, options.uid, metadata["uid"])
        if options.version and options.version != metadata["resourceVersion"]:
            raise other_version(resource, place.name, options.version, metadata["resourceVersion"])
        if resource is NAMESPACES:
            return self._delete_namespace(old)
        if metadata.get("deletionTimestamp"):
            return self._delete_again(resource, old, options)
        item = copy.deepcopy(old)
        self._with_finalizers(item, options.propagation)
        grace = KINDS.get(resource, PLAIN).grace(item, options.grace)
        if grace is None and not item["metadata"].get("finalizers"):
            return Deleted(self.store.remove(resource, old), is_gone=True)
        self._mark(item, grace or 0)
        return self._end_if_free(resource, self.store.put(resource, item))

    def _delete_again(self, resource: Resource, old: Object, options: DeleteOptions) -> Deleted:
        """It is being deleted: only less grace is news."""
        left = old["metadata"].get("deletionGracePeriodSeconds", 0)
        if options.grace is None or options.grace >= left:
            return Deleted(old, is_gone=False)
        item = copy.deepcopy(old)
        due = datetime.fromisoformat(item["metadata"]["deletionTimestamp"])
        item["metadata"]["deletionTimestamp"] = now_text(due + timedelta(seconds=options.grace - left))
        item["metadata"]["deletionGracePeriodSeconds"] = options.grace
        return self._end_if_free(resource, self.store.put(resource, item))

    def _end_if_free(self, resource: Resource, item: Object) -> Deleted:
        metadata = item["metadata"]
        if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
            return Deleted(item, is_gone=False)
        return Deleted(self.store.remove(resource, item), is_gone=True)

    def _mark(self, item: Object, grace: int) -> None:
        metadata = item["metadata"]
        metadata["deletionTimestamp"] = now_text(datetime.now(UTC) + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata:
            metadata["generation"] += 1

    def _with_finalizers(self, item: Object, propagation: str) -> None:
        metadata = item["metadata"]
        kept = [each for each in metadata.get("finalizers") or [] if each not in (FOREGROUND, ORPHAN)]
        ours = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(propagation, [])
        if kept or ours:
            metadata["finalizers"] = [*kept, *ours]
        else:
            metadata.pop("finalizers", None)

    def _delete_namespace(self, old: Object) -> Deleted:
        name = str(old["metadata"]["name"])
        if name in KEPT_NAMESPACES:
            raise forbidden(NAMESPACES, name, "this namespace may not be deleted")
        if old["metadata"].get("deletionTimestamp"):
            return Deleted(old, is_gone=False)
        item = copy.deepcopy(old)
        item["metadata"]["deletionTimestamp"] = now_text()
        item["status"] = {**item["status"], "phase": "Terminating"}
        return Deleted(self.store.put(NAMESPACES, item), is_gone=False)


def delete_options(body: Object | None, where: str) -> DeleteOptions:
    """Read them. Raises 501 for what is not served."""
    known = {"kind", "apiVersion", "preconditions", "propagationPolicy", "gracePeriodSeconds"}
    given = {key: value for key, value in (body or {}).items() if value is not None}
    odd = sorted(given.keys() - known)
    if odd:
        raise not_served(f"{where} with {', '.join(odd)}")
    conditions = given.get("preconditions") or {}
    propagation = given.get("propagationPolicy") or "Background"
    if propagation not in ("Background", "Foreground", "Orphan"):
        raise bad_request(f"invalid propagationPolicy {propagation!r}")
    return DeleteOptions(
        grace=given.get("gracePeriodSeconds"),
        uid=conditions.get("uid") or "",
        version=conditions.get("resourceVersion") or "",
        propagation=propagation,
    )


def success(resource: Resource, item: Object, *, code: int = HTTPStatus.OK) -> Object:
    """The Status of what is done."""
    group = {"group": resource.group} if resource.group else {}
    metadata = item["metadata"]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": metadata["name"], **group, "kind": resource.plural, "uid": metadata["uid"]},
        **({"code": code} if code != HTTPStatus.OK else {}),
    }


def _need_kind(resource: Resource, item: Object) -> None:
    given = item.get("apiVersion", resource.api_version), item.get("kind", resource.kind)
    if given != (resource.api_version, resource.kind):
        raise bad_request(
            f'{resource.kind} in version "{resource.api_version}" cannot be handled: the object is {given[0]} {given[1]}'
        )


def _need_namespace_of(place: Place, metadata: Object) -> None:
    if not place.resource.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.setdefault("namespace", place.namespace) != place.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _finalizer_causes(now: Object, before: Object) -> list[Cause]:
    if not before.get("deletionTimestamp"):
        return []
    added = sorted(set(now.get("finalizers") or []) - set(before.get("finalizers") or []))
    if not added:
        return []
    said = f"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added}"
    return [Cause("metadata.finalizers", said, "FieldValueForbidden")]


def _other_uid(given: str, found: str) -> str:
    return f"Precondition failed: UID in precondition: {given}, UID in object meta: {found}"


__all__ = ["DeleteOptions", "Deleted", "Place", "Refusal", "Registry", "delete_options", "success"]
