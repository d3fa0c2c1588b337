"""Which node a pod gets, and what it is told when it gets none."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers import fit
from sandbox.cluster_standin.controllers.scheduler import Scheduler
from sandbox.cluster_standin.controllers.writes import Kind
from tests.sandbox.cluster_standin.controllers.objects import World, node, pod

GPU = "nvidia.com/gpu"


def asking(**amounts: str) -> list[Object]:
    return [
        {
            "name": "main",
            "resources": {"requests": {key.replace("gpu", GPU): value for key, value in amounts.items()}},
        }
    ]


def required(key: str, operator: str, *values: str, part: str = "matchExpressions") -> Object:
    one: Object = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    return {"nodeAffinity": {fit.REQUIRED: {"nodeSelectorTerms": [{part: [one]}]}}}


def where(pods: list[Object], nodes: list[Object]) -> dict[str, str]:
    world = World(pods=pods, nodes=nodes)
    world.turn(Scheduler())
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in world.all(Kind.PODS)}


def reason(one: Object) -> str:
    return next(
        (each["message"] for each in one["status"]["conditions"] if each["type"] == "PodScheduled"), ""
    )


def test_pods_are_spread() -> None:
    found = where([pod("a"), pod("b"), pod("c")], [node("n1"), node("n2"), node("n3")])

    assert sorted(found.values()) == ["n1", "n2", "n3"]


def test_a_node_takes_as_many_as_it_has_places_for() -> None:
    pods = [pod(f"p{number}") for number in range(4)]

    found = where(pods, [node("n1")])

    assert list(found.values()).count("n1") == 3
    assert reason(pods[3]) == "0/1 nodes are available: 1 Too many pods."


def test_what_is_there_already_counts_and_what_has_ended_does_not() -> None:
    nodes = [node("n1")]
    nodes[0]["status"]["allocatable"][GPU] = "2"
    there = pod("there", node="n1", phase="Running", containers=asking(gpu="1"))
    over = pod("over", node="n1", phase="Succeeded", containers=asking(gpu="1"))
    fits, too_large = pod("fits", containers=asking(gpu="1")), pod("large", containers=asking(gpu="1"))

    found = where([there, over, fits, too_large], nodes)

    assert (found["fits"], found["large"]) == ("n1", "")
    assert reason(too_large) == f"0/1 nodes are available: 1 Insufficient {GPU}."


def test_an_init_container_and_a_sidecar_count_as_the_scheduler_counts_them() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    init = {"name": "i", "resources": {"requests": {"cpu": "3"}}}

    one = pod(initContainers=[sidecar, init], containers=asking(cpu="500m"))

    assert fit.requests(one)["cpu"] == 4  # while the init container runs, the sidecar does as well


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"affinity": required("zone", "In", "a", "b")}, True),
        ({"affinity": required("zone", "NotIn", "a")}, False),
        ({"affinity": required("other", "NotIn", "a")}, True),
        ({"affinity": required("zone", "Exists")}, True),
        ({"affinity": required("zone", "DoesNotExist")}, False),
        ({"affinity": required("size", "Gt", "3")}, True),
        ({"affinity": required("size", "Lt", "3")}, False),
        ({"affinity": required("zone", "Gt", "3")}, False),
        ({"affinity": required("metadata.name", "NotIn", "n1", part="matchFields")}, False),
        ({"affinity": {"nodeAffinity": {fit.REQUIRED: {"nodeSelectorTerms": [{}]}}}}, False),
    ],
)
def test_a_pod_goes_only_where_it_wants_to(spec: dict[str, Any], fits: bool) -> None:
    one = pod("p", **spec)

    found = where([one], [node("n1", labels={"zone": "a", "size": "4"})])

    assert found["p"] == ("n1" if fits else "")
    assert reason(one) == ("" if fits else f"0/1 nodes are available: 1 {fit.AFFINITY}.")


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "bad", "operator": "Exists"}, True),
        ({"key": "bad", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "bad", "value": "yes"}, True),
        ({"key": "bad", "value": "no"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_keeps_off_who_does_not_tolerate_it(toleration: Object, fits: bool) -> None:
    tainted = node("n1", taints=[{"key": "bad", "value": "yes", "effect": "NoSchedule"}])
    one = pod("p", tolerations=[toleration])

    assert where([one], [tainted])["p"] == ("n1" if fits else "")


def test_a_node_that_would_rather_not_is_taken_last() -> None:
    rather_not = node("n1", taints=[{"key": "x", "effect": "PreferNoSchedule"}])

    assert where([pod("p")], [rather_not, node("n2")])["p"] == "n2"


def test_reasons_are_counted_by_kind() -> None:
    one = pod("p", containers=asking(cpu="9"))
    nodes = [
        node("n1", unschedulable=True),
        node("n2"),
        node("n3"),
        node("n4", taints=[{"key": "x", "effect": "NoExecute"}]),
    ]

    where([one], nodes)

    assert reason(one) == (f"0/4 nodes are available: 1 {fit.TAINTED}, 1 {fit.CORDONED}, 2 Insufficient cpu.")


def test_the_same_reason_is_said_once() -> None:
    world = World(pods=[pod("p", containers=asking(cpu="9"))], nodes=[node("n1")])
    world.turn(Scheduler())
    said = len(world.written)

    world.turn(Scheduler(), 60)

    assert len(world.written) == said


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"affinity": {"podAntiAffinity": {fit.REQUIRED: [{}]}}}, "podAntiAffinity"),
        (
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "topologySpreadConstraints",
        ),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentVolumeClaim"),
        ({"containers": [{"name": "m", "ports": [{"containerPort": 1, "hostPort": 1}]}]}, "hostPort"),
        ({"resourceClaims": [{"name": "c"}]}, "resourceClaims"),
    ],
)
def test_a_pod_with_a_field_that_is_not_looked_at_is_placed_nowhere_and_told(
    spec: dict[str, Any], field: str
) -> None:
    one = pod("p", **spec)

    assert where([one], [node("n1")])["p"] == ""
    assert field in reason(one)


def test_who_would_push_others_off_is_told_that_nobody_is() -> None:
    one = pod("p", containers=asking(cpu="9"), priority=1000)

    where([one], [node("n1")])

    assert "preempts nobody" in reason(one)


@pytest.mark.parametrize("spec", [{"schedulerName": "other"}, {"schedulingGates": [{"name": "g"}]}])
def test_pods_that_are_not_ours_to_place_are_left(spec: dict[str, Any]) -> None:
    one = pod("p", **spec)

    assert where([one], [node("n1")])["p"] == ""
    assert reason(one) == ""


def test_the_important_go_first() -> None:
    nodes = [node("n1")]
    nodes[0]["status"]["allocatable"]["pods"] = "1"

    found = where([pod("a"), pod("b", priority=5)], nodes)

    assert found == {"a": "", "b": "n1"}
