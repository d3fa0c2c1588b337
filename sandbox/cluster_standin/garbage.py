"""What becomes of objects whose owner goes: the garbage collector, on the store itself.

Background: the owner goes, then what it owned. Foreground: the owner stays until what blocks it is gone. Orphan: what it owned stays, without
it. An object whose owners never were, or are others by now, goes as well. Everything it deletes it deletes as a client does, with grace.
"""

from __future__ import annotations

import copy
from collections import defaultdict, deque
from typing import Final

from runtime.kubernetes import Object
from sandbox.cluster_standin.refusals import Refusal
from sandbox.cluster_standin.registry import FOREGROUND, ORPHAN, DeleteOptions, Place, Registry
from sandbox.cluster_standin.resources import BY_KIND, Resource
from sandbox.cluster_standin.store import Change

Dependent = tuple[Resource, str, str]
"""Resource, namespace and name of an object that has owners."""
_HOLDS: Final = {FOREGROUND, ORPHAN}


class Garbage:
    """Hears of every change, and cleans up when it is called: `sweep` after each request."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._owned: dict[str, set[Dependent]] = defaultdict(set)
        self._owners: dict[Dependent, set[str]] = {}
        self._due: deque[Change] = deque()
        self._store.listeners.append(self._due.append)

    def sweep(self) -> None:
        """Do what the changes since the last time make necessary, and what that makes necessary."""
        while self._due:
            change = self._due.popleft()
            self._index(change)
            if change.new is None:
                self._went(change.last)
            else:
                self._is_there(change.resource, change.new)

    def _index(self, change: Change) -> None:
        metadata = change.last["metadata"]
        key = (change.resource, change.namespace, str(metadata["name"]))
        for uid in self._owners.pop(key, set()):
            self._owned[uid].discard(key)
            if not self._owned[uid]:
                del self._owned[uid]
        if change.new is None:
            return
        owners = {str(owner["uid"]) for owner in metadata.get("ownerReferences") or []}
        if owners:
            self._owners[key] = owners
            for uid in owners:
                self._owned[uid].add(key)

    def _is_there(self, resource: Resource, item: Object) -> None:
        metadata = item["metadata"]
        if metadata.get("ownerReferences") and not metadata.get("deletionTimestamp"):
            self._need_an_owner(resource, item)
        if metadata.get("deletionTimestamp") and _HOLDS & set(metadata.get("finalizers") or []):
            self._owner_is_going(resource, item)

    def _went(self, last: Object) -> None:
        for resource, item in self._dependents(str(last["metadata"]["uid"])):
            self._need_an_owner(resource, item)
        for owner in last["metadata"].get("ownerReferences") or []:
            found = self._owner(owner, str(last["metadata"].get("namespace", "")))
            if found is not None and FOREGROUND in (found[1]["metadata"].get("finalizers") or []):
                self._owner_is_going(*found)

    def _need_an_owner(self, resource: Resource, item: Object) -> None:
        """Delete it when none of its owners is there."""
        metadata = item["metadata"]
        namespace = str(metadata.get("namespace", ""))
        if any(self._stands(each, namespace) for each in metadata.get("ownerReferences") or []):
            return
        self._delete(resource, item, "Background")

    def _owner_is_going(self, resource: Resource, item: Object) -> None:
        metadata = item["metadata"]
        uid, finalizers = str(metadata["uid"]), metadata.get("finalizers") or []
        dependents = self._dependents(uid)
        if ORPHAN in finalizers:
            for each in dependents:
                self._let_go(*each, uid)
            self._without(resource, item, ORPHAN)
            return
        blocking = [each for each in dependents if _blocks(each[1], uid)]
        for dependent, found in dependents:
            if not found["metadata"].get("deletionTimestamp"):
                self._delete(
                    dependent,
                    found,
                    "Foreground" if self._dependents(str(found["metadata"]["uid"])) else "Background",
                )
        if not blocking:
            self._without(resource, item, FOREGROUND)

    def _let_go(self, resource: Resource, item: Object, uid: str) -> None:
        made = copy.deepcopy(item)
        left = [each for each in made["metadata"]["ownerReferences"] if each["uid"] != uid]
        made["metadata"]["ownerReferences"] = left
        if not left:
            del made["metadata"]["ownerReferences"]
        self._registry.write(resource, made)

    def _without(self, resource: Resource, item: Object, finalizer: str) -> None:
        now = self._store.find(
            resource, str(item["metadata"].get("namespace", "")), str(item["metadata"]["name"])
        )
        if now is None or now["metadata"]["uid"] != item["metadata"]["uid"]:
            return
        made = copy.deepcopy(now)
        left = [each for each in made["metadata"].get("finalizers") or [] if each != finalizer]
        made["metadata"]["finalizers"] = left
        if not left:
            del made["metadata"]["finalizers"]
        self._registry.write(resource, made)

    def _delete(self, resource: Resource, item: Object, propagation: str) -> None:
        metadata = item["metadata"]
        place = Place(resource, str(metadata.get("namespace", "")), str(metadata["name"]))
        try:
            self._registry.delete(place, DeleteOptions(uid=str(metadata["uid"]), propagation=propagation))
        except Refusal:
            return  # gone already, or another one by now

    def _dependents(self, uid: str) -> list[tuple[Resource, Object]]:
        found = []
        for resource, namespace, name in sorted(
            self._owned.get(uid, ()), key=lambda each: (each[0].plural, *each[1:])
        ):
            item = self._store.find(resource, namespace, name)
            if item is not None:
                found.append((resource, item))
        return found

    def _stands(self, reference: Object, namespace: str) -> bool:
        """Whether an owner is there; one of a kind that is not served is taken to be: nothing is known of it."""
        known = (str(reference["apiVersion"]), str(reference["kind"])) in BY_KIND
        return not known or self._owner(reference, namespace) is not None

    def _owner(self, reference: Object, namespace: str) -> tuple[Resource, Object] | None:
        """The very object a reference names."""
        resource = BY_KIND.get((str(reference["apiVersion"]), str(reference["kind"])))
        if resource is None:
            return None
        found = self._store.find(resource, namespace if resource.namespaced else "", str(reference["name"]))
        if found is None or found["metadata"]["uid"] != reference["uid"]:
            return None
        return resource, found


def _blocks(item: Object, uid: str) -> bool:
    owners = item["metadata"].get("ownerReferences") or []
    return any(each["uid"] == uid and each.get("blockOwnerDeletion") for each in owners)
