"""relight's objects in a namespace of the tests' own, workloads apart: accounts, rights and bounds as `kubectl apply` would make them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recovery.annotations import JOB_RETRY_NUM
from runtime import paths
from runtime.errors import ApiForbidden
from runtime.kubernetes import Cluster
from runtime.settings import KubernetesSettings
from sandbox.control_plane import ControlPlane
from tests.actuators.real_job import job_manifest, pods_of, wait_until
from tests.deploy.manifests import RUNS, Object, collection, objects, path_of, renamed, right_of

Right = tuple[str, str, str]
PARTS = ("actuators", "watcher", "node-agent")
"""Those that have a token."""
WIDE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}


class Watched(Cluster):
    """A client that notes which rights it needed."""

    def __init__(self, settings: KubernetesSettings, name: str, namespace: str) -> None:
        super().__init__(settings, name)
        self._inside = namespace
        self.used: set[Right] = set()

    def _request(self, method: str, path: str, **given: Any) -> Any:
        self.used.add(right_of(method, path, dict(given.get("query") or {}), self._inside))
        return super()._request(method, path, **given)


class Site:
    """relight as it stands in one namespace."""

    def __init__(self, plane: ControlPlane, api: Cluster, folder: Path) -> None:
        self.plane = plane
        self.api = api
        self.folder = folder
        self.namespace = f"relight-{uuid.uuid4().hex[:8]}"
        self.made: list[Object] = []

    def make(self, item: Object) -> None:
        """Make an object of relight's; it goes with the site."""
        self.api.create(collection(item), item, fieldValidation="Strict")
        self.made.append(item)

    def install(self) -> None:
        """Everything but what runs. Ends when each bound is in force: the server takes them up a moment after they are made."""
        for item in objects():
            if item["kind"] not in RUNS:
                self.make(renamed(item, self.namespace))
        with self._a_node() as node:
            forbidden = {
                "relight-actuators-nodes": ("actuators", "PATCH", paths.nodes(node)),
                "relight-actuators-jobs": ("actuators", "POST", paths.jobs(self.namespace)),
                "relight-actuators-pods": ("actuators", "PATCH", self._pod_path(node)),
                "relight-actuators-configmaps": ("actuators", "POST", paths.config_maps(self.namespace)),
                "relight-leases": ("actuators", "POST", paths.leases(self.namespace)),
                "relight-node-agent": ("node-agent", "PATCH", paths.nodes(node)),
            }
            assert set(forbidden) == {
                item["metadata"]["name"] for item in objects() if item["kind"] == "ValidatingAdmissionPolicy"
            }
            clients = {account: self.acting_as(account) for account in PARTS}
            for policy, (account, method, path) in forbidden.items():
                wait_until(lambda: self._holds(policy, clients[account], method, path))  # noqa: B023 - waited for here

    def grant_everything(self) -> None:
        """What a part may do is up to the bounds alone: RBAC lets each do everything."""
        subjects = [
            {"kind": "ServiceAccount", "name": account, "namespace": self.namespace} for account in PARTS
        ]
        metadata = {"name": f"wide-{self.namespace}"}
        self.make({"kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": WIDE, "subjects": subjects})
        for account in PARTS:
            api = self.acting_as(account)
            wait_until(lambda: may_list_secrets(api))  # noqa: B023 - waited for here

    def remove(self) -> None:
        """All of it, the namespace last."""
        for item in reversed(self.made):
            self.api.delete(path_of(item))

    def acting_as(self, account: str, pod: Object | None = None) -> Watched:
        """A client with a token of the account, as a pod of it would have."""
        spec: Object = {"audiences": [], "expirationSeconds": 3600}
        if pod is not None:
            spec["boundObjectRef"] = {
                "kind": "Pod",
                "apiVersion": "v1",
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
            }
        path = f"{paths.namespaces(self.namespace)}/serviceaccounts/{account}/token"
        token = self.api.create(path, {"spec": spec})["status"]["token"]
        file = self.folder / f"{account}-{uuid.uuid4().hex[:6]}.kubeconfig"
        file.write_text(json.dumps(self._kubeconfig(token)), encoding="utf-8")
        return Watched(KubernetesSettings(kubeconfig=file), account, self.namespace)

    def pod_on(self, node: str) -> Object:
        """A pod of the node agent there."""
        body = {
            "metadata": {"name": f"node-agent-{node}"},
            "spec": {
                "serviceAccountName": "node-agent",
                "nodeName": node,
                "containers": [{"name": "relight", "image": "none"}],
            },
        }
        return self.api.create(paths.pods(self.namespace), body)

    def _kubeconfig(self, token: str) -> Object:
        cluster = {"server": self.plane.url, "certificate-authority": str(self.plane.ca_file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }

    @contextmanager
    def _a_node(self) -> Iterator[str]:
        """With a pod on it."""
        name = f"in-force-{self.namespace}"
        self.api.create(paths.nodes(), {"metadata": {"name": name}})
        self.pod_on(name)
        yield name
        self.api.delete(self._pod_path(name), grace=0)
        self.api.delete(paths.nodes(name))

    def _pod_path(self, node: str) -> str:
        return paths.pods(self.namespace, f"node-agent-{node}")

    def _holds(self, policy: str, api: Cluster, method: str, path: str) -> bool:
        """A forbidden thing is refused, and in this policy's name."""
        changed = {"metadata": {"labels": {"not": "ours"}}}
        try:
            ask(api, method, path, changed if method == "PATCH" else a_stranger(path))
        except ApiForbidden as error:
            return f"'{policy}-{self.namespace}'" in str(error)
        return False


def a_stranger(path: str) -> Object:
    """An object of the collection that no part of relight would make."""
    return job_manifest("not-ours", 0) if path.endswith("/jobs") else {"metadata": {"name": "not-ours"}}


def ask(api: Cluster, method: str, path: str, body: Object | None = None) -> Object:
    """Whether the server would do it; nothing is done."""
    if method == "DELETE":
        # Without grace: deleting again what is being deleted already would be no deletion, and asks nobody.
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "dryRun": ["All"]}
        return api._call(method, path, body=options)
    content = "application/merge-patch+json" if method == "PATCH" else ""
    query = {"dryRun": "All", "fieldManager": "relight" if method == "PATCH" else None}
    return api._call(method, path, body=body, query=query, content=content)


def may_list_secrets(api: Cluster) -> bool:
    """RBAC lets it do what no part of relight is granted."""
    try:
        api.get("/api/v1/secrets?limit=1")
    except ApiForbidden:
        return False
    return True


def make_asking_job(api: Cluster, namespace: str, pods: int, *, name: str = "train", **spec: Any) -> Object:
    """A job whose owner switched high availability on, and whose pods are there."""
    manifest = job_manifest(name, pods, **spec)
    manifest["metadata"]["annotations"] = {JOB_RETRY_NUM: "3"}
    job = api.create(paths.jobs(namespace), manifest)
    wait_until(lambda: len(pods_of(api, job)) == pods)
    return job
