"""Namespaces: each has its default service account; one that is deleted loses what is in it, and then goes itself.

Contents are those of the kinds the stand-in serves. What has a grace or a finalizer is waited for, as Kubernetes' own does.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from runtime.errors import ApiConflict, ApiNotFound
from runtime.kubernetes import Cluster, Object
from sandbox.cluster_standin import resources
from sandbox.cluster_standin.controllers import reading
from sandbox.cluster_standin.controllers.copies import Copies
from sandbox.cluster_standin.controllers.loop import Decision
from sandbox.cluster_standin.controllers.writes import Batch, Create, Empty, Finalize, Kind

ACCOUNT: Final = "default"
FIRST: Final = (resources.JOBS, resources.PODS)
"""In this order: what makes others goes before them."""


class Namespaces:
    """Keeps nothing."""

    name = "namespaces"
    watches = frozenset({Kind.NAMESPACES, Kind.ACCOUNTS, Kind.PODS})

    def decide(self, copies: Copies, now: datetime) -> Decision:
        """Accounts that lack, and namespaces to empty."""
        del now  # one that is not empty yet is tried again like any write that came too early
        batches: list[Batch] = []
        for item in copies.all(Kind.NAMESPACES):
            name = reading.name(item)
            if reading.is_leaving(item):
                if "kubernetes" in ((item.get("spec") or {}).get("finalizers") or []):
                    batches.append((Empty(name), Finalize(item)))
            elif copies.find(Kind.ACCOUNTS, name, ACCOUNT) is None:
                account: Object = {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": ACCOUNT},
                }
                batches.append((Create(Kind.ACCOUNTS, name, account),))
        return Decision(tuple(batches))


def empty(api: Cluster, namespace: str) -> int:
    """Delete what is in a namespace and is not being deleted; how much is still there."""
    left = 0
    rest = [one for one in resources.ALL if one.namespaced and one not in FIRST]
    for resource in (*FIRST, *rest):
        base = f"/apis/{resource.group}/v1" if resource.group else "/api/v1"
        path = f"{base}/namespaces/{namespace}/{resource.plural}"
        for item in api.list(path).items:
            left += _remove(api, f"{path}/{reading.name(item)}", item)
    return left


def _remove(api: Cluster, path: str, item: Object) -> bool:
    """Whether it is, or may be, still there."""
    if reading.is_leaving(item):
        return True
    try:
        api.delete(path, uid=reading.uid(item))
        api.get(path)
    except ApiNotFound:
        return False
    except ApiConflict:
        return True
    return True
