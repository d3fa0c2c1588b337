"""What becomes of a node that falls silent and of its pods, and of a namespace that is deleted: the same with ours."""

from __future__ import annotations

from typing import Any

import pytest

from runtime import paths
from runtime.errors import ApiNotFound
from runtime.kubernetes import Object
from tests.sandbox.cluster_standin.controllers.play import Outcomes
from tests.sandbox.cluster_standin.controllers.side import Side

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.timeout(300)]

UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}


def conditions(item: Object, *kinds: str) -> list[tuple[str, ...]]:
    keys = ("type", "status", "reason", "message")
    return sorted(
        tuple(str(one.get(key, "")) for key in keys)
        for one in item["status"]["conditions"]
        if not kinds or one["type"] in kinds
    )


def a_node_that_falls_silent_loses_its_pods_and_comes_back(side: Side) -> Any:
    silent, heard = f"{side.namespace}-a", f"{side.namespace}-b"
    try:
        side.make_node(silent)
        side.make_node(heard)  # while all are silent nobody loses pods
        container = {"name": "main", "image": "none"}
        for name, tolerations in (("leaves", []), ("stays", [UNREACHABLE])):
            spec = {"nodeName": silent, "containers": [container], "tolerations": tolerations}
            side.api.create(paths.pods(side.namespace), {"metadata": {"name": name}, "spec": spec})
        for pod in side.pods(2):
            side.say(pod, "Running")
        side.silence(silent)
        side.until(lambda: "deletionTimestamp" in pod_of(side, "leaves")["metadata"])
        lost = conditions(side.node(silent))
        taints = side.taints(silent)
        pods = {
            name: conditions(pod_of(side, name), "Ready", "DisruptionTarget") for name in ("leaves", "stays")
        }
        side.revive(silent)
        side.until(lambda: side.taints(silent), lambda found: not found)
        kept = "deletionTimestamp" in pod_of(side, "stays")["metadata"]
        return lost, taints, pods, kept, conditions(side.node(silent), "Ready"), side.taints(heard)
    finally:
        for node in (silent, heard):
            side.remove_node(node)


def pod_of(side: Side, name: str) -> Object:
    return side.api.get(paths.pods(side.namespace, name))


def a_deleted_namespace_takes_along_what_is_in_it(side: Side) -> Any:
    side.make_job(
        "a", 2, suspend=True
    )  # with pods that somebody holds Kubernetes' own looks again only after 15 s
    side.api.create(paths.config_maps(side.namespace), {"metadata": {"name": "kept"}})
    side.api.delete(paths.namespaces(side.namespace))
    side.until(lambda: not side.is_there(paths.namespaces(side.namespace)))
    left = side.api.list(paths.pods()).items
    try:
        side.job("a")
    except ApiNotFound:
        return [pod for pod in left if pod["metadata"]["namespace"] == side.namespace]
    return "the job is still there"


def test_a_node_that_falls_silent_loses_its_pods_and_comes_back(outcomes: Outcomes) -> None:
    lost, taints, pods, kept, _, _ = outcomes.same(a_node_that_falls_silent_loses_its_pods_and_comes_back)

    assert ("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.") in lost
    assert taints == [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
    assert "DeletionByTaintManager" in str(pods["leaves"])
    assert not kept


def test_a_deleted_namespace_takes_along_what_is_in_it(outcomes: Outcomes) -> None:
    assert outcomes.same(a_deleted_namespace_takes_along_what_is_in_it) == []


SCENARIOS = {
    f"test_{one.__name__}": one
    for one in (
        a_node_that_falls_silent_loses_its_pods_and_comes_back,
        a_deleted_namespace_takes_along_what_is_in_it,
    )
}
