"""deploy/kubernetes as objects, and the same under other names: several tests share one control plane."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
Object = dict[str, Any]
RUNS = {"Deployment", "DaemonSet", "Job", "CronJob"}
"""Kinds that run containers."""

_GROUPS = {
    "Namespace": ("/api/v1", "namespaces", False),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "DaemonSet": ("/apis/apps/v1", "daemonsets", True),
    "Job": ("/apis/batch/v1", "jobs", True),
    "CronJob": ("/apis/batch/v1", "cronjobs", True),
    "ValidatingAdmissionPolicy": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        False,
    ),
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
        False,
    ),
}


@cache
def objects() -> tuple[Object, ...]:
    """Every object, in the order `kubectl apply -f deploy/kubernetes/` takes them. Read once, changed by nobody."""
    reader = YAML(typ="safe")
    files = sorted(FOLDER.glob("*.yaml"))
    return tuple(item for file in files for item in reader.load_all(file.read_text(encoding="utf-8")))


def collection(item: Object) -> str:
    """Path its kind is posted to."""
    base, plural, namespaced = _GROUPS[item["kind"]]
    inside = f"{base}/namespaces/{item['metadata']['namespace']}" if namespaced else base
    return f"{inside}/{plural}"


def path_of(item: Object) -> str:
    """Its own path."""
    return f"{collection(item)}/{item['metadata']['name']}"


def renamed(item: Object, namespace: str) -> Object:
    """The object as it would be in another namespace; what belongs to the whole cluster gets that name too."""
    text = json.dumps(item)
    text = text.replace('"namespace": "relight"', f'"namespace": "{namespace}"')
    text = text.replace("system:serviceaccount:relight:", f"system:serviceaccount:{namespace}:")
    text = text.replace(
        '"kubernetes.io/metadata.name": "relight"', f'"kubernetes.io/metadata.name": "{namespace}"'
    )
    made: Object = json.loads(text)
    if item["kind"] == "Namespace":
        made["metadata"]["name"] = namespace
    elif not _GROUPS[item["kind"]][2] or item["metadata"]["namespace"] != "relight":
        made["metadata"]["name"] = f"{item['metadata']['name']}-{namespace}"
    if item.get("roleRef", {}).get("kind") == "ClusterRole" or (
        "roleRef" in item and item["metadata"]["namespace"] != "relight"
    ):
        made["roleRef"]["name"] = f"{item['roleRef']['name']}-{namespace}"
    if "policyName" in item.get("spec", {}):
        made["spec"]["policyName"] = f"{item['spec']['policyName']}-{namespace}"
    return made


def workloads() -> list[Object]:
    """What runs containers."""
    return [item for item in objects() if item["kind"] in RUNS]


def template_of(workload: Object) -> Object:
    """The pod template in it."""
    spec = workload["spec"]["jobTemplate"]["spec"] if workload["kind"] == "CronJob" else workload["spec"]
    found: Object = spec["template"]
    return found


def container_of(workload: Object) -> Object:
    """Its only container."""
    (container,) = template_of(workload)["spec"]["containers"]
    found: Object = container
    return found


def granted(account: str) -> set[tuple[str, str, str]]:
    """Verb, resource and where (`cluster`, or a namespace) of everything an account is given; rules with names count like those without."""
    found = list(objects())
    roles = {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item["rules"]
        for item in found
        if item["kind"] in {"ClusterRole", "Role"}
    }
    rights = set()
    for binding in found:
        if binding["kind"] not in {"ClusterRoleBinding", "RoleBinding"}:
            continue
        if account not in {subject["name"] for subject in binding["subjects"]}:
            continue
        where = binding["metadata"].get("namespace", "")
        rules = roles[binding["roleRef"]["kind"], where, binding["roleRef"]["name"]]
        rights |= {
            (verb, resource, where or "cluster")
            for rule in rules
            for verb in rule["verbs"]
            for resource in rule["resources"]
        }
    return rights


NODE_LEASES = "kube-node-lease"


def right_of(method: str, path: str, query: dict[str, Any], namespace: str) -> tuple[str, str, str]:
    """The right a call needs, in the words of `granted`; `namespace` is the one relight is in."""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    inside = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        inside, parts = parts[1], parts[2:]
    resource, name, sub = parts[0], (parts[1:2] or [""])[0], "/".join(parts[2:])
    if method == "GET":
        verb = "watch" if query.get("watch") else ("get" if name else "list")
    else:
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
    where = {namespace: "relight", NODE_LEASES: NODE_LEASES}.get(inside, "cluster")
    if resource != "leases":
        where = "cluster"  # rights on everything else are bound for the whole cluster
    return verb, f"{resource}/{sub}" if sub else resource, where
