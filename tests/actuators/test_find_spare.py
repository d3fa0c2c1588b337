"""find_spare: counted as the scheduler counts; where it cannot tell it says no spare rather than one that is not there."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from actuators.nodes.placement_rules import may_run
from actuators.nodes.room import amounts_of, requested, times
from actuators.settings import ActingSettings
from runtime import paths
from runtime.errors import ApiAway
from runtime.kubernetes import Object
from schemas.cluster import JOB_UID_LABEL
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from tests.actuators.scene import JOB_PATH, RUN, Scene, command, job
from tests.actuators.scripted_api import raising

GPU = "nvidia.com/gpu"
EIGHT = {"resources": {"requests": {GPU: "8", "cpu": "4"}, "limits": {GPU: "8"}}}
READY = [{"type": "Ready", "status": "True"}]


def node(name: str, gpus: int = 8, **spec: Any) -> Object:
    allocatable = {GPU: str(gpus), "cpu": "32", "memory": "256Gi", "pods": "110"}
    status = {"allocatable": allocatable, "conditions": READY}
    labels = {"pool": "gpu", "kubernetes.io/hostname": name}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": spec,
        "status": status,
    }


def pod(name: str, on: str = "", *, run: str = "", priority: int = 0, phase: str = "Running") -> Object:
    spec = {"containers": [{"name": "main", **EIGHT}], "priority": priority}
    if on:
        spec["nodeName"] = on
    labels = {JOB_UID_LABEL: run} if run else {}
    metadata = {"name": name, "namespace": "team-b", "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def a_scene(nodes: list[Object], pods: list[Object], *, size: int = 2, **spec: Any) -> Scene:
    scene = Scene()
    made = job()
    template = {"spec": {"containers": [{"name": "main", **EIGHT}], **spec}}
    made["spec"] = {**made["spec"], "parallelism": size, "completions": size, "template": template}
    scene.api.put(JOB_PATH, made)
    for one in nodes:
        scene.api.put(paths.nodes(one["metadata"]["name"]), one)
    for one in pods:
        scene.api.put(paths.pods("team-b", one["metadata"]["name"]), one)
    return scene


def find(*keep_off: str) -> Command:
    nodes = [{"uid": f"uid-{name}", "name": name} for name in keep_off]
    return command(StepName.FIND_SPARE, arguments={"keep_off": nodes, "epoch": 2})


def ask(scene: Scene, *keep_off: str) -> bool | None:
    outcome: Outcome = scene.perform(find(*keep_off))
    assert outcome.result is OutcomeResult.DONE, outcome
    assert scene.api.writes == []
    return outcome.spare


OWN = [pod("own-0", "n0", run=RUN), pod("own-1", "n1", run=RUN)]


def test_a_free_node_beside_the_faulty_one_is_a_spare() -> None:
    nodes = [node("n0"), node("n1"), node("n2")]

    assert ask(a_scene(nodes, OWN), "n0") is True
    assert ask(a_scene(nodes[:2], OWN), "n0") is False
    assert ask(a_scene(nodes[:2], OWN)) is True, "its own nodes become free"


def test_a_node_others_use_is_none() -> None:
    nodes = [node("n0"), node("n1"), node("n2")]

    assert ask(a_scene(nodes, [*OWN, pod("theirs", "n2")]), "n0") is False
    assert ask(a_scene(nodes, [*OWN, pod("over", "n2", phase="Succeeded")]), "n0") is True


@pytest.mark.parametrize(("priority", "spare"), [(0, False), (5, False), (-1, True)])
def test_pending_pods_of_the_same_or_a_higher_priority_get_theirs_first(priority: int, spare: bool) -> None:
    nodes = [node("n0"), node("n1"), node("n2")]
    waiting = pod("waiting", priority=priority, phase="Pending")

    assert ask(a_scene(nodes, [*OWN, waiting]), "n0") is spare


def test_a_pending_pod_that_fits_nowhere_takes_nothing() -> None:
    nodes = [node("n0"), node("n1"), node("n2")]
    waiting = pod("waiting", phase="Pending")
    waiting["spec"]["nodeSelector"] = {"pool": "another"}

    assert ask(a_scene(nodes, [*OWN, waiting]), "n0") is True


@pytest.mark.parametrize(
    "unusable",
    [
        node("n2", unschedulable=True),
        node("n2", taints=[{"key": "relight.dev/isolated", "value": "true", "effect": "NoSchedule"}]),
        {
            **node("n2"),
            "status": {**node("n2")["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]},
        },
        {**node("n2"), "status": {"conditions": READY}},
        node("n2", gpus=7),
    ],
)
def test_a_node_that_takes_no_pods_is_no_spare(unusable: Object) -> None:
    assert ask(a_scene([node("n0"), node("n1"), unusable], OWN), "n0") is False


def test_the_runs_own_selector_is_kept() -> None:
    nodes = [node("n0"), node("n1"), node("n2")]

    assert ask(a_scene(nodes, OWN, nodeSelector={"pool": "gpu"}), "n0") is True
    assert ask(a_scene(nodes, OWN, nodeSelector={"pool": "other"}), "n0") is False


def test_a_silent_api_is_no_answer_and_a_dry_run_may_ask() -> None:
    scene = a_scene([node("n0")], [])
    scene.settings = ActingSettings(dry_run=True, paused=True)
    assert scene.perform(find()).spare is False

    scene.api.before = raising(ApiAway("no answer"), "LIST")
    outcome = scene.perform(find())
    assert (outcome.result, outcome.spare) == (OutcomeResult.UNREACHABLE, None)


@pytest.mark.parametrize(
    ("requirement", "admits"),
    [
        ({"key": "pool", "operator": "In", "values": ["gpu", "cpu"]}, True),
        ({"key": "pool", "operator": "NotIn", "values": ["gpu"]}, False),
        ({"key": "absent", "operator": "NotIn", "values": ["gpu"]}, True),
        ({"key": "pool", "operator": "Exists"}, True),
        ({"key": "pool", "operator": "DoesNotExist"}, False),
        ({"key": "size", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "size", "operator": "Lt", "values": ["3"]}, False),
        ({"key": "pool", "operator": "Gt", "values": ["3"]}, False),
        ({"key": "pool", "operator": "Unheard", "values": ["gpu"]}, False),
    ],
)
def test_node_affinity_as_the_scheduler_reads_it(requirement: Object, admits: bool) -> None:
    one = node("n0")
    one["metadata"]["labels"]["size"] = "4"
    terms = [{"matchExpressions": [requirement]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    assert may_run({"affinity": {"nodeAffinity": required}}, one) is admits


def test_an_empty_term_of_an_affinity_matches_nothing() -> None:
    required: Object = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}

    assert may_run({"affinity": {"nodeAffinity": required}}, node("n0")) is False


@pytest.mark.parametrize(
    ("toleration", "admits"),
    [
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "value": "b"}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_taints_are_kept_out_of_unless_tolerated(toleration: Object, admits: bool) -> None:
    tainted = node("n0", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])

    assert may_run({"tolerations": [toleration]}, tainted) is admits
    assert may_run({}, node("n0", taints=[{"key": "soft", "effect": "PreferNoSchedule"}]))


def test_requests_are_added_as_the_scheduler_adds_them() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "500m"}}},
            {"resources": {"limits": {"cpu": "1", GPU: 8}}},
        ],
        "initContainers": [
            {"resources": {"requests": {"cpu": "4", "memory": "1Gi"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"memory": "512Mi"}}},
        ],
        "overhead": {"cpu": "100m"},
    }

    found = requested(spec)

    assert found == {"cpu": Decimal("4.1"), GPU: 8, "memory": 1024**3, "pods": 1}


def test_how_many_fit_is_what_the_scarcest_resource_says() -> None:
    room = amounts_of({"cpu": "10", GPU: "17", "pods": "110"})

    assert times(room, amounts_of({"cpu": "1", GPU: "8"})) == 2
    assert times(room, amounts_of({"cpu": "11"})) == 0
    assert times(room, amounts_of({"unheard/of": "1"})) == 0
    assert amounts_of({"cpu": "nonsense"}) == {}
