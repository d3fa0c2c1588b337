"""What is told of nodes: how they stand, conditions as edges, who took our taint off, and that one is gone."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.resources import files

import pytest

from producers.cluster.nodes import code_of
from producers.cluster.settings import WatchSettings
from producers.cluster.telling import Telling
from runtime.informer import Difference
from runtime.kubernetes import Object
from schemas.facts import NodeGone, NodeSeen
from schemas.signals import NodeCondition
from tests.producers.cluster.objects import START, FakeCluster, make_job, make_node, make_pod, stamp

Edit = Callable[[Object], None]
TAINT = {"key": "relight.dev/isolated", "effect": "NoSchedule"}
OTHER = {"key": "team/x", "effect": "NoSchedule"}


def one_node(**more: object) -> FakeCluster:
    cluster = FakeCluster()
    cluster.put(make_node("n1", "node-1", **more))  # type: ignore[arg-type]
    return cluster


def ready(said: str, at: datetime = START) -> Edit:
    return lambda node: node["status"]["conditions"][0].update(status=said, lastTransitionTime=stamp(at))


def condition(kind: str, said: str, at: datetime = START) -> Edit:
    def edit(node: Object) -> None:
        others = [each for each in node["status"]["conditions"] if each["type"] != kind]
        new = {
            "type": kind,
            "status": said,
            "lastTransitionTime": stamp(at),
            "reason": "Why",
            "message": "said",
        }
        node["status"]["conditions"] = [*others, new]

    return edit


def heartbeat(number: int) -> Edit:
    return lambda node: node["status"]["conditions"][0].update(lastHeartbeatTime=number)


def edges(cluster: FakeCluster) -> list[tuple[str, str]]:
    return [(signal.condition, signal.state.value) for signal in cluster.of(NodeCondition)]


def last(cluster: FakeCluster) -> NodeSeen:
    found: NodeSeen = cluster.of(NodeSeen)[-1]
    return found


# ------------------------------------------------------------ how it stands


def allocatable(**amounts: str) -> Edit:
    names = {"gpu": "nvidia.com/gpu", "npu": "huawei.com/Ascend910", "cpu": "cpu", "memory": "memory"}
    return lambda node: node["status"].update(
        allocatable={names[name]: said for name, said in amounts.items()}
    )


def test_the_chips_a_node_offers_are_told_and_a_sick_one_is_missed() -> None:
    cluster = one_node()
    cluster.change("node-1", allocatable(gpu="8", npu="16", cpu="96", memory="1Ti"))
    assert last(cluster).devices == {"nvidia.com/gpu": 8, "huawei.com/Ascend910": 16}

    cluster.change("node-1", allocatable(gpu="7", npu="16", cpu="95", memory="1Ti"))
    assert last(cluster).devices == {"nvidia.com/gpu": 7, "huawei.com/Ascend910": 16}

    told = len(cluster.of(NodeSeen))
    cluster.change("node-1", allocatable(gpu="7", npu="16", cpu="94", memory="2Ti"))
    assert len(cluster.of(NodeSeen)) == told


def test_a_node_is_told_at_first_sight_and_when_something_that_matters_changes() -> None:
    cluster = one_node()
    for number in range(5):
        cluster.change("node-1", heartbeat(number))
    assert len(cluster.told) == 1
    cluster.change("node-1", lambda node: node["spec"].update(unschedulable=True))
    cluster.change("node-1", lambda node: node["spec"].update(taints=[TAINT]))
    cluster.change("node-1", ready("False"))
    told = [(seen.ready, seen.cordoned, seen.our_taint) for seen in cluster.of(NodeSeen)]
    assert told == [(True, False, False), (True, True, False), (True, True, True), (False, True, True)]


@pytest.mark.parametrize(
    "label",
    [
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
        "node-role.kubernetes.io/etcd",
        "relight.dev/protected",
    ],
)
def test_who_must_not_be_isolated_is_protected(label: str) -> None:
    assert last(one_node(metadata={"labels": {label: ""}})).protected
    assert not last(one_node(metadata={"labels": {"team": label}})).protected


def test_a_node_that_carries_our_own_pods_is_protected_while_it_does() -> None:
    cluster = one_node()
    own = {
        "metadata": {"uid": "o", "resourceVersion": "1"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    done = {**own, "status": {"phase": "Succeeded"}}
    cluster.told += cluster.translator.own_pod(Difference(None, own))
    assert last(cluster).protected
    cluster.told += cluster.translator.own_pod(Difference(own, done))
    assert not last(cluster).protected
    cluster.told += cluster.translator.own_pod(Difference(done, own))
    cluster.told += cluster.translator.own_pod(Difference(own, None))
    assert [seen.protected for seen in cluster.of(NodeSeen)] == [False, True, False, True, False]


# ------------------------------------------------------------ conditions


def test_not_ready_is_told_once_with_its_time_and_cleared() -> None:
    cluster = one_node()
    at = START - timedelta(seconds=40)
    cluster.change("node-1", ready("False", at))
    cluster.change("node-1", lambda node: node["metadata"]["labels"].update(x="y"))
    cluster.change("node-1", ready("True"))
    assert edges(cluster) == [("not-ready", "asserted"), ("not-ready", "cleared")]
    (first, _) = [told for told in cluster.told if isinstance(told.payload, NodeCondition)]
    assert first.time == at


def test_a_node_that_was_ill_before_it_was_silent_is_one_fault() -> None:
    cluster = one_node()
    cluster.change("node-1", ready("False"))
    cluster.change("node-1", ready("Unknown"))
    cluster.change("node-1", ready("True"))
    assert edges(cluster) == [("not-ready", "asserted"), ("not-ready", "cleared")]


def test_a_silent_node_is_unreachable() -> None:
    cluster = one_node()
    cluster.change("node-1", ready("Unknown"))
    assert edges(cluster) == [("unreachable", "asserted")]


def test_a_node_that_is_joining_is_not_broken() -> None:
    made = START - timedelta(hours=48)
    cluster = one_node(ready="False", at=made)
    assert edges(cluster) == []
    assert not last(cluster).ready
    cluster.change("node-1", ready("True", made + timedelta(seconds=30)))
    cluster.change("node-1", ready("False", START))
    assert edges(cluster) == [("not-ready", "asserted")]


def test_two_illnesses_are_two_events_with_ids_that_repeat() -> None:
    cluster = one_node()
    for minute in (0, 10):
        cluster.change("node-1", ready("False", START + timedelta(minutes=minute)))
        cluster.change("node-1", ready("True", START + timedelta(minutes=minute + 5)))
        cluster.pass_time(600)
    ids = [told.id for told in cluster.told if isinstance(told.payload, NodeCondition)]
    assert len(set(ids)) == 4
    assert edges(cluster) == [("not-ready", "asserted"), ("not-ready", "cleared")] * 2


@pytest.mark.parametrize("kind", WatchSettings().node_conditions)
def test_a_condition_of_the_table_is_told_under_the_tables_code(kind: str) -> None:
    table = files("rules").joinpath("default/tables/node_conditions.csv").read_text(encoding="utf-8")
    codes = {row["level"]: row["code"] for row in csv.DictReader(table.splitlines())}
    cluster = one_node()
    cluster.change("node-1", condition(kind, "True"))
    cluster.change("node-1", condition(kind, "Unknown"))  # nothing is said, so nothing is cleared
    assert edges(cluster) == [(codes[kind], "asserted")]
    cluster.change("node-1", condition(kind, "False"))
    assert edges(cluster) == [(codes[kind], "asserted"), (codes[kind], "cleared")]
    assert cluster.of(NodeCondition)[0].detail == "Why: said"


def test_a_condition_nobody_asked_for_is_not_told() -> None:
    cluster = one_node()
    cluster.change("node-1", condition("EtcdIsVoter", "True"))
    assert edges(cluster) == []


def test_codes_are_spelt_as_tables_spell_them() -> None:
    assert [code_of(kind) for kind in ("PIDPressure", "XfsShutdown", "NT_NPU_CARD_LOSE", "x" * 99)] == [
        "pid-pressure",
        "xfs-shutdown",
        "nt-npu-card-lose",
        "x" * 64,
    ]


# ------------------------------------------------------------ gone


def test_an_empty_node_that_goes_is_only_gone() -> None:
    cluster = one_node()
    cluster.remove("node-1")
    assert [type(told.payload) for told in cluster.told[1:]] == [NodeGone]


def test_a_node_that_vanished_under_pods_is_a_fault_of_theirs() -> None:
    cluster = one_node()
    job = make_job("t", "j", size=1)
    cluster.put(job, make_pod(job, "p", node="n1"))
    before = len(cluster.told)
    cluster.remove("node-1")
    told = [type(each.payload) for each in cluster.told[before:]]
    assert told == [NodeCondition, NodeGone]
    assert edges(cluster) == [("gone", "asserted")]


def test_another_node_under_the_same_name_is_another_node() -> None:
    cluster = one_node()
    cluster.change("node-1", ready("False"))
    cluster.nodes.clear()
    cluster.put(make_node("n1", "node-9"))
    assert [fact.node.uid for fact in cluster.of(NodeGone)] == ["node-1"]
    assert last(cluster).node.uid == "node-9"
    assert edges(cluster) == [("not-ready", "asserted")]


# ------------------------------------------------------------ released by a human


def isolated(*, annotations: Object | None = None, taints: list[Object] | None = None) -> FakeCluster:
    return one_node(
        spec={"unschedulable": True, "taints": taints or [TAINT]},
        metadata={
            "annotations": {"relight.dev/isolated": "cause"} if annotations is None else annotations,
            "managedFields": [{"manager": "relight", "time": "t0"}],
        },
    )


def written(*managers: str, taints: list[Object] | None = None, unmark: bool = False) -> Edit:
    def edit(node: Object) -> None:
        node["spec"]["taints"] = taints or []
        node["metadata"]["managedFields"] += [{"manager": name, "time": "t1"} for name in managers]
        if unmark:
            node["metadata"]["annotations"].pop("relight.dev/isolated")

    return edit


def test_a_human_who_takes_our_taint_off_is_named_once() -> None:
    cluster = isolated(taints=[TAINT, OTHER])
    cluster.change("node-1", written("kubectl-taint", taints=[OTHER]))
    assert last(cluster).released_by == "kubectl-taint"
    cluster.change("node-1", lambda node: node["spec"].update(unschedulable=False))
    assert last(cluster).released_by is None
    cluster.told += cluster.translator.repeat_all()
    assert last(cluster).released_by is None


def uncordoned(*managers: str) -> Edit:
    def edit(node: Object) -> None:
        node["spec"]["unschedulable"] = False
        node["metadata"]["managedFields"] += [{"manager": name, "time": "t1"} for name in managers]

    return edit


@pytest.mark.parametrize(
    ("managers", "by"),
    [(("kubectl-uncordon",), "kubectl-uncordon"), ((), "unknown"), (("kube-controller-manager",), None)],
)
def test_a_human_who_uncordons_under_our_taint_is_named(managers: tuple[str, ...], by: str | None) -> None:
    cluster = isolated()
    cluster.change("node-1", uncordoned(*managers))
    assert last(cluster).our_taint
    assert last(cluster).released_by == by


@pytest.mark.parametrize(
    ("manager", "by"),
    [("kubectl-annotate", "kubectl-annotate"), ("relight", None), ("kube-controller-manager", None)],
)
def test_a_human_who_takes_our_mark_off_under_our_taint_is_named(manager: str, by: str | None) -> None:
    cluster = isolated()
    cluster.change("node-1", written(manager, unmark=True, taints=[TAINT]))
    assert last(cluster).our_taint
    assert last(cluster).released_by == by


def test_who_takes_the_last_taint_off_leaves_no_name() -> None:
    cluster = isolated()
    cluster.change("node-1", written())
    assert last(cluster).released_by == "unknown"


@pytest.mark.parametrize(
    "edit",
    [
        written(unmark=True),
        written("relight", unmark=True),
        written("relight"),
        written("kube-controller-manager"),
        written("kubelet", "cloud-controller-manager"),
    ],
    ids=["with our mark", "by us", "by us, mark left", "by a controller", "by two controllers"],
)
def test_a_controller_or_we_ourselves_release_nothing_as_a_human(edit: Edit) -> None:
    cluster = isolated(taints=[TAINT, OTHER])
    cluster.change("node-1", edit)
    assert not last(cluster).our_taint
    assert last(cluster).released_by is None


def test_a_status_written_beside_it_is_nobodys_hand() -> None:
    cluster = isolated()

    def edit(node: Object) -> None:
        node["spec"]["taints"] = []
        node["metadata"]["managedFields"].append(
            {"manager": "kubelet", "time": "t1", "subresource": "status"}
        )

    cluster.change("node-1", edit)
    assert last(cluster).released_by == "unknown"


@pytest.mark.parametrize(("mark", "by"), [(True, "unknown"), (False, None)])
def test_a_taint_taken_off_while_nobody_looked_is_read_from_the_mark_left_behind(
    *, mark: bool, by: str | None
) -> None:
    cluster = isolated()
    cluster.deaf = True
    cluster.change("node-1", written(unmark=not mark))
    cluster.deaf = False
    told: list[Telling] = cluster.restart()
    seen = [each.payload for each in told if isinstance(each.payload, NodeSeen)]
    assert [fact.released_by for fact in seen] == [by]


def test_a_node_that_was_never_isolated_is_released_by_nobody() -> None:
    cluster = one_node()
    cluster.change(
        "node-1", lambda node: node["metadata"]["managedFields"].append({"manager": "bob", "time": "t"})
    )
    cluster.change("node-1", lambda node: node["spec"].update(unschedulable=True))
    assert last(cluster).released_by is None
