"""Nodes that fall silent, their taints, and what becomes of the pods on them, in virtual time."""

from __future__ import annotations

from datetime import timedelta

from runtime.kubernetes import Object
from sandbox.cluster_standin.controllers.node_health import NodeHealth
from sandbox.cluster_standin.controllers.pod_collector import PodCollector
from sandbox.cluster_standin.controllers.taint_eviction import TaintEviction
from sandbox.cluster_standin.controllers.writes import Kind
from sandbox.control_plane import NodeLifecycle
from tests.sandbox.cluster_standin.controllers.objects import World, at, lease, metadata, node, pod, stamp

LIFE = NodeLifecycle(monitor_grace=timedelta(seconds=40), startup_grace=timedelta(seconds=60))
UNREACHABLE = "node.kubernetes.io/unreachable"


def ready(item: Object) -> str:
    return next(str(one["status"]) for one in item["status"]["conditions"] if one["type"] == "Ready")


def taints(item: Object) -> set[tuple[str, str]]:
    return {(one["key"].rsplit("/", 1)[-1], one["effect"]) for one in item["spec"].get("taints", [])}


def driven_off(world: World) -> list[str]:
    return [
        one["metadata"]["name"]
        for one in world.all(Kind.NODES)
        if ("unreachable", "NoExecute") in taints(one)
    ]


def cluster(size: int = 4) -> tuple[World, NodeHealth]:
    names = [f"n{number}" for number in range(size)]
    world = World(nodes=[node(name) for name in names], leases=[lease(name, 0) for name in names])
    controller = NodeHealth(LIFE)
    world.turn(controller, 0)
    return world, controller


def renew(world: World, second: float, *names: str) -> None:
    for item in world.all(Kind.LEASES):
        if item["metadata"]["name"] in names:
            item["spec"]["renewTime"] = stamp(second)


def test_a_node_that_renews_its_lease_stays_ready() -> None:
    world, controller = cluster(1)
    renew(world, 30, "n0")
    world.turn(controller, 30)

    again = world.turn(controller, 69)

    assert again == at(70)
    assert ready(world.all(Kind.NODES)[0]) == "True"


def test_a_silent_node_is_unknown_after_the_grace_and_its_pods_are_not_ready() -> None:
    world, controller = cluster(2)
    there = pod("p", node="n0", phase="Running")
    there["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    world.objects[Kind.PODS].append(there)
    renew(world, 39, "n1")
    world.turn(controller, 39)

    world.turn(controller, 41)

    silent, heard = world.all(Kind.NODES)
    assert (ready(silent), ready(heard)) == ("Unknown", "True")
    assert taints(silent) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    assert there["status"]["conditions"][0]["status"] == "False"


def test_a_node_heard_again_loses_its_taints_and_those_of_others_stay() -> None:
    world, controller = cluster(2)
    gone = world.all(Kind.NODES)[0]
    gone["spec"]["taints"] = [{"key": "relight.dev/isolated", "effect": "NoSchedule"}]
    renew(world, 39, "n1")
    world.turn(controller, 39)
    world.turn(controller, 41)
    gone["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": stamp(50), "lastTransitionTime": stamp(50)}
    ]

    world.turn(controller, 50)

    assert taints(gone) == {("isolated", "NoSchedule")}


def test_a_node_that_was_never_heard_of_has_the_time_of_a_start() -> None:
    new = node("n0")
    new["status"]["conditions"] = []
    world, controller = World(nodes=[new, node("n1")], leases=[lease("n1", 0)]), NodeHealth(LIFE)

    assert world.turn(controller, 1) == at(41)  # of the other
    renew(world, 40, "n1")
    world.turn(controller, 40)
    world.turn(controller, 60)

    reasons = {one["type"]: one["reason"] for one in new["status"]["conditions"]}
    assert reasons["Ready"] == "NodeStatusNeverUpdated"


def test_a_cordon_and_pressure_are_taints() -> None:
    world, controller = cluster(1)
    (only,) = world.all(Kind.NODES)
    only["spec"]["unschedulable"] = True
    only["status"]["conditions"].append({"type": "DiskPressure", "status": "True"})

    world.turn(controller, 1)

    assert taints(only) == {("unschedulable", "NoSchedule"), ("disk-pressure", "NoSchedule")}


def test_two_nodes_lose_their_pods_ten_seconds_apart() -> None:
    world, controller = cluster(5)
    renew(world, 39, "n2", "n3", "n4")
    world.turn(controller, 39)

    again = world.turn(controller, 41)

    assert driven_off(world) == ["n0"]
    assert again == at(51)
    world.turn(controller, 51)
    assert driven_off(world) == ["n0", "n1"]


def test_while_most_nodes_are_down_no_further_one_loses_its_pods() -> None:
    world, controller = cluster(5)
    renew(world, 39, "n3", "n4")
    world.turn(controller, 39)

    world.turn(controller, 41)
    world.turn(controller, 60)

    assert driven_off(world) == []
    assert ("unreachable", "NoSchedule") in taints(world.all(Kind.NODES)[0])


def test_while_all_nodes_are_down_nobody_loses_pods() -> None:
    world, controller = cluster(2)
    renew(world, 39, "n1")
    world.turn(controller, 39)
    world.turn(controller, 41)
    assert driven_off(world) == ["n0"]

    world.turn(controller, 80)

    assert driven_off(world) == []


# ---------------------------------------------------------------------- pods on such nodes


def tainted() -> Object:
    return node("n0", taints=[{"key": UNREACHABLE, "effect": "NoExecute"}])


def tolerating(seconds: int | None) -> Object:
    toleration: Object = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    return pod(
        "p", node="n0", tolerations=[toleration | ({} if seconds is None else {"tolerationSeconds": seconds})]
    )


def leaving(world: World) -> list[str]:
    return [one["metadata"]["name"] for one in world.all(Kind.PODS) if "deletionTimestamp" in one["metadata"]]


def test_a_pod_that_does_not_tolerate_a_taint_is_marked_and_deleted_at_once() -> None:
    one = pod("p", node="n0", tolerations=[])
    world = World(nodes=[tainted()], pods=[one, pod("elsewhere", node="n1")])

    world.turn(TaintEviction())

    assert leaving(world) == ["p"]
    assert one["status"]["conditions"][0]["reason"] == "DeletionByTaintManager"


def test_a_pod_stays_as_long_as_it_tolerates_the_taint() -> None:
    world, controller = World(nodes=[tainted()], pods=[tolerating(300)]), TaintEviction()

    assert world.turn(controller, 10) == at(310)
    world.turn(controller, 309)
    assert leaving(world) == []
    world.turn(controller, 310)

    assert leaving(world) == ["p"]


def test_a_taint_that_goes_saves_the_pod_and_a_new_one_counts_anew() -> None:
    item = tainted()
    world, controller = World(nodes=[item], pods=[tolerating(300)]), TaintEviction()
    world.turn(controller, 0)
    kept, item["spec"]["taints"] = item["spec"]["taints"], []
    world.turn(controller, 299)
    item["spec"]["taints"] = kept

    assert world.turn(controller, 301) == at(601)


def test_a_pod_that_tolerates_for_ever_stays() -> None:
    world = World(nodes=[tainted()], pods=[tolerating(None)])

    assert world.turn(TaintEviction()) is None
    assert world.written == []


def test_pods_of_a_node_that_is_gone_are_lost_after_the_quarantine() -> None:
    one = pod("p", node="gone", phase="Running")
    world, controller = World(pods=[one]), PodCollector()

    assert world.turn(controller, 5) == at(25)
    world.turn(controller, 25)
    assert world.all(Kind.PODS) == [one]
    world.turn(controller, 45)

    assert world.all(Kind.PODS) == []
    assert one["status"]["phase"] == "Failed"
    assert one["status"]["conditions"][0]["reason"] == "DeletionByPodGC"


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    world, controller = World(pods=[pod("p", node="n0", phase="Running")]), PodCollector()
    world.turn(controller, 0)
    world.objects[Kind.NODES].append(node("n0"))
    world.turn(controller, 39)
    world.objects[Kind.NODES] = []
    for second in (60, 80):
        world.turn(controller, second)
    assert len(world.all(Kind.PODS)) == 1

    world.turn(controller, 100)

    assert world.all(Kind.PODS) == []


def test_between_two_sweeps_nobody_is_collected() -> None:
    world, controller = World(), PodCollector()
    world.turn(controller, 0)
    one = pod("p")
    one["metadata"] |= {"deletionTimestamp": stamp(1), "deletionGracePeriodSeconds": 0}
    world.objects[Kind.PODS].append(one)

    assert world.turn(controller, 19) == at(20)
    assert world.all(Kind.PODS) == [one]
    world.turn(controller, 20)

    assert world.all(Kind.PODS) == []


def test_a_deleted_pod_that_never_had_a_node_fails() -> None:
    one = pod("p")
    one["metadata"] |= {
        "deletionTimestamp": stamp(0),
        "deletionGracePeriodSeconds": 0,
        "finalizers": ["somebody"],
    }
    world = World(pods=[one])

    world.turn(PodCollector())

    assert one["status"]["phase"] == "Failed"
    assert world.all(Kind.PODS) == [one]  # it waits for who holds it


def test_pods_that_end_on_a_node_declared_off_are_ended() -> None:
    off = node(
        "n0", ready="Unknown", taints=[{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]
    )
    going = pod("going", node="n0", phase="Running")
    going["metadata"] |= {"deletionTimestamp": stamp(0), "deletionGracePeriodSeconds": 30}
    staying = {**pod("staying", node="n0", phase="Running"), "metadata": metadata("staying")}
    world = World(nodes=[off], pods=[going, staying])

    world.turn(PodCollector())

    assert world.all(Kind.PODS) == [staying]
