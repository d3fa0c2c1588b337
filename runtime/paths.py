"""Paths of the API server for the kinds relight knows, so that no caller puts one together by hand."""

from __future__ import annotations

from urllib.parse import quote


def _namespaced(base: str, plural: str, namespace: str | None, name: str | None) -> str:
    path = base if namespace is None else f"{base}/namespaces/{quote(namespace, safe='')}"
    return f"{path}/{plural}" if name is None else f"{path}/{plural}/{quote(name, safe='')}"


def nodes(name: str | None = None) -> str:
    """All nodes, or one."""
    return _namespaced("/api/v1", "nodes", None, name)


def namespaces(name: str | None = None) -> str:
    """All namespaces, or one."""
    return _namespaced("/api/v1", "namespaces", None, name)


def pods(namespace: str | None = None, name: str | None = None) -> str:
    """Pods of all namespaces, of one, or one pod."""
    return _namespaced("/api/v1", "pods", namespace, name)


def jobs(namespace: str | None = None, name: str | None = None) -> str:
    """Jobs of all namespaces, of one, or one job."""
    return _namespaced("/apis/batch/v1", "jobs", namespace, name)


def config_maps(namespace: str | None = None, name: str | None = None) -> str:
    """ConfigMaps of all namespaces, of one, or one ConfigMap."""
    return _namespaced("/api/v1", "configmaps", namespace, name)


def leases(namespace: str | None = None, name: str | None = None) -> str:
    """Leases of all namespaces, of one, or one lease."""
    return _namespaced("/apis/coordination.k8s.io/v1", "leases", namespace, name)


def events(namespace: str, name: str | None = None) -> str:
    """Events of a namespace (core/v1, which every server and `kubectl describe` know)."""
    return _namespaced("/api/v1", "events", namespace, name)


def status(path: str) -> str:
    """The status subresource of an object."""
    return f"{path}/status"


def eviction(namespace: str, pod: str) -> str:
    """Where an eviction of a pod is posted."""
    return f"{pods(namespace, pod)}/eviction"
