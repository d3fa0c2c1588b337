"""Where kube-scheduler puts pods, ours puts them; what it tells of a pod that fits nowhere, ours tells."""

from __future__ import annotations

from typing import Any

import pytest

from runtime import paths
from runtime.kubernetes import Object
from tests.sandbox.cluster_standin.controllers.play import Outcomes
from tests.sandbox.cluster_standin.controllers.side import Side

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.timeout(300)]

GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WISHES: dict[str, Object] = {
    "labelled": {"nodeSelector": {"pool": "a"}},
    "unlabelled": {"nodeSelector": {"pool": "nowhere"}},
    "not-a": {"affinity": {"key": "pool", "operator": "NotIn", "values": ["a", "b"]}},
    "has-no-pool": {"affinity": {"key": "pool", "operator": "DoesNotExist"}},
    "small": {"affinity": {"key": "size", "operator": "Lt", "values": ["5"]}},
    "tolerant": {
        "nodeSelector": {"pool": "c"},
        "tolerations": [{"key": "relight.dev/isolated", "operator": "Exists"}],
    },
    "intolerant": {"nodeSelector": {"pool": "c"}},
    "on-the-cordoned": {
        "nodeSelector": {"pool": "d"},
        "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
    },
    "large": {"amounts": {GPU: "3"}},
    "two-chips": {"amounts": {GPU: "2"}},
    "much-memory": {"amounts": {"memory": "100Gi"}},
}


def wish(name: str) -> Object:
    said = dict(WISHES[name])
    amounts = said.pop("amounts", {})
    container = {"name": "main", "image": "none", "resources": {"limits": amounts, "requests": amounts}}
    if "affinity" in said:
        terms = [{"matchExpressions": [said["affinity"]]}]
        said["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **said}}


def where_pods_go(side: Side) -> Any:
    taint = [{"key": "relight.dev/isolated", "effect": "NoSchedule"}]
    nodes = [f"{side.namespace}-{letter}" for letter in "abcd"]
    try:
        side.make_node(nodes[0], {GPU: "2"}, labels={"pool": "a", "size": "8"})
        side.make_node(nodes[1], labels={"pool": "b", "size": "4"})
        side.make_node(nodes[2], labels={"pool": "c"}, taints=taint)
        side.make_node(nodes[3], labels={"pool": "d"}, unschedulable=True)
        for name in WISHES:
            side.api.create(paths.pods(side.namespace), wish(name))
        side.until(lambda: all(told(pod) for pod in side.pods(len(WISHES))))
        return {pod["metadata"]["name"]: told(pod).replace(side.namespace, "node") for pod in side.pods()}
    finally:
        for node in nodes:
            side.remove_node(node)


def told(pod: Object) -> str:
    """Its node, or why it has none; nothing while neither is said."""
    scheduled: Object = next(
        (one for one in pod["status"].get("conditions") or [] if one["type"] == "PodScheduled"), {}
    )
    node = pod["spec"].get("nodeName")
    if node:
        return str(node) if scheduled.get("status") == "True" else ""
    # Of preemption ours does not speak.
    return f"{scheduled['reason']}: {scheduled['message'].split('.')[0]}" if scheduled else ""


def test_where_pods_go(outcomes: Outcomes) -> None:
    found = outcomes.same(where_pods_go)

    assert found["two-chips"] == "node-a"
    assert found["on-the-cordoned"] == "node-d"
    assert found["large"].startswith("Unschedulable: 0/4 nodes are available")


SCENARIOS = {"test_where_pods_go": where_pods_go}
