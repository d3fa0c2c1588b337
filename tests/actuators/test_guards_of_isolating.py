"""Guards of isolating: counted on the nodes, told with their numbers, and never passed by two together."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import pytest

from actuators.nodes.fleet import Candidate, fleet_of
from actuators.nodes.guards import COUNT_HOLDS, grant
from actuators.nodes.isolation_marks import is_isolated
from actuators.nodes.reservations import NAME, PLACES, Place, Places, places_of, text_of
from actuators.settings import ActingSettings, ActuatorSettings, IsolationSettings
from runtime import paths
from runtime.errors import ApiAway, ApiConflict, ApiNotFound
from runtime.kubernetes import Cluster, Object
from runtime.settings import read_settings
from sandbox.control_plane import ControlPlane
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from tests.actuators.real_scene import RealScene
from tests.actuators.scene import Scene, pod
from tests.actuators.scripted_api import NOW, raising
from tests.actuators.test_isolating_nodes import (
    HOLD_READY,
    HOLD_XID,
    READY,
    a_scene,
    isolate,
    node,
    node_writes,
    path,
    real,
    release,
    spec_of,
)
from tests.real.kubernetes import client_of

LEASE = paths.leases("relight", NAME)
FLEET = [node(number) for number in range(1, 11)]


def isolate_for(number: int, run: str) -> Command:
    given = isolate(number)
    return given.model_copy(update={"arguments": {**given.arguments, "runs": [run]}})


def reserve(scene: Scene, places: Places) -> None:
    """Another actuator has taken these."""
    stands = scene.api.objects.get(LEASE, {"metadata": {"name": NAME, "uid": "lease"}})
    stands["metadata"]["annotations"] = {PLACES: text_of(places)}
    scene.api.put(LEASE, stands)


def taken(until: timedelta, at: timedelta = timedelta(0), *runs: str) -> Place:
    return Place(NOW + at, NOW + until, runs)


def blocked(outcome: Outcome, cause: str) -> str:
    assert (outcome.result, outcome.cause) == (OutcomeResult.BLOCKED, cause), outcome
    return outcome.detail or ""


# ------------------------------------------------------------------------ what is never isolated


@pytest.mark.parametrize("label", ["node-role.kubernetes.io/control-plane", "relight.dev/protected"])
def test_what_carries_the_control_plane_or_ourselves_is_never_isolated(label: str) -> None:
    scene = a_scene(node(labels={label: ""}), node(2), node(3))

    assert label in blocked(scene.perform(isolate()), "guard:protected")
    assert scene.api.writes == []


def own_pod(scene: Scene, *, kind: str = "StatefulSet", phase: str = "Running") -> None:
    made = pod(1, phase=phase)
    made["metadata"] |= {"namespace": "relight", "name": "kafka-0", "ownerReferences": [{"kind": kind}]}
    made["spec"] = {"nodeName": "node-1"}
    scene.api.put(paths.pods("relight", "kafka-0"), made)


def test_a_node_that_carries_our_broker_is_never_isolated_and_others_are() -> None:
    scene = a_scene(*FLEET)
    own_pod(scene)

    assert "kafka-0" in blocked(scene.perform(isolate(1)), "guard:protected")
    assert node_writes(scene) == 0
    assert scene.perform(isolate(2)).result is OutcomeResult.DONE


@pytest.mark.parametrize("more", [{"kind": "DaemonSet"}, {"phase": "Succeeded"}])
def test_an_agent_of_ours_or_a_pod_that_ended_protects_no_node(more: dict[str, str]) -> None:
    scene = a_scene(*FLEET)
    own_pod(scene, **more)

    assert scene.perform(isolate(1)).result is OutcomeResult.DONE


def test_a_node_outside_the_pool_is_not_isolated() -> None:
    scene = a_scene(*(node(number, labels={"pool": "gpu"}) for number in (2, 3, 4)), pool="pool=gpu")
    scene.api.put(path(9), node(9))

    blocked(scene.perform(isolate(9)), "guard:pool")
    assert node_writes(scene) == 0


# ------------------------------------------------------------------------ how many


def test_more_nodes_at_once_than_the_operator_admits_are_blocked_and_the_isolated_ones_stay_told() -> None:
    scene = a_scene(*FLEET, most=1)
    assert scene.perform(isolate(1)).result is OutcomeResult.DONE

    assert blocked(scene.perform(isolate(2)), "guard:isolated") == "1 of at most 1 isolated, fleet of 10"
    assert scene.perform(isolate(1, holds=(HOLD_XID, HOLD_READY))).result is OutcomeResult.DONE
    scene.perform(release(1))
    assert scene.perform(isolate(2)).result is OutcomeResult.DONE


def test_a_share_of_the_fleet_is_a_limit_too_and_lets_one_node_through() -> None:
    assert [IsolationSettings(most=8, share=0.2).limit_of(fleet) for fleet in (1, 9, 10, 30, 100)] == [
        1,
        1,
        2,
        6,
        8,
    ]


def test_a_reservation_shorter_than_commands_and_clocks_need_is_refused_as_a_setting() -> None:
    with pytest.raises(ValueError, match="at least 30 s"):
        IsolationSettings(reservation=timedelta(seconds=29))


def test_guards_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("MOST", "3"),
        ("SHARE", "0.1"),
        ("POOL", "a=b"),
        ("PROTECTED_NAMESPACES", '["kafka"]'),
    ):
        monkeypatch.setenv(f"RELIGHT_ACTING__ISOLATION__{name}", value)
    monkeypatch.setenv("RELIGHT_ACTING__SILENT_NODE__THEN", "wait")

    acting = read_settings(ActuatorSettings).acting

    isolation = acting.isolation
    assert (isolation.most, isolation.share, isolation.pool) == (3, 0.1, "a=b")
    assert isolation.protected_namespaces == ("kafka",)
    assert acting.silent_node.then == "wait"


def test_protected_nodes_are_no_part_of_the_fleet_a_share_is_taken_of() -> None:
    ours = [node(number, labels={"relight.dev/protected": ""}) for number in range(5, 9)]
    scene = a_scene(*FLEET[:4], *ours, share=0.25)
    scene.perform(isolate(1))

    assert "fleet of 4" in blocked(scene.perform(isolate(2)), "guard:isolated")


def test_the_last_node_is_never_isolated() -> None:
    scene = a_scene(node())

    blocked(scene.perform(isolate()), "guard:floor")


@pytest.mark.parametrize(
    "useless",
    [
        {**node(2), "status": {"conditions": [{**READY, "status": "Unknown"}]}},
        node(2, unschedulable=True),
    ],
)
def test_a_node_that_is_not_ready_or_that_somebody_cordoned_is_not_what_is_left(useless: Object) -> None:
    scene = a_scene(node(1), useless)

    blocked(scene.perform(isolate(1)), "guard:floor")


def test_so_many_within_an_hour_and_no_more_whatever_was_released() -> None:
    scene = a_scene(*FLEET, most_an_hour=2)
    for number in (1, 2):
        assert scene.perform(isolate(number)).result is OutcomeResult.DONE
        scene.perform(release(number))

    assert "2 of at most 2" in blocked(scene.perform(isolate(3)), "guard:rate")
    scene.now += timedelta(minutes=61)
    later = isolate(3, not_after=scene.now + timedelta(minutes=5))
    assert scene.perform(later).result is OutcomeResult.DONE


def test_nodes_of_so_many_runs_within_minutes_and_more_nodes_of_the_same_runs() -> None:
    scene = a_scene(*FLEET, most_runs=2)
    for number, run in ((1, "a"), (2, "b"), (3, "a")):
        assert scene.perform(isolate_for(number, run)).result is OutcomeResult.DONE

    assert "2 of at most 2 runs" in blocked(scene.perform(isolate_for(4, "c")), "guard:incidents")
    assert scene.perform(isolate(5)).result is OutcomeResult.DONE, "an idle node is no run's"
    scene.now += timedelta(minutes=11)
    later = isolate_for(4, "c").model_copy(update={"not_after": scene.now + timedelta(minutes=5)})
    assert scene.perform(later).result is OutcomeResult.DONE


# ------------------------------------------------------------------------ several actuators at once


def test_a_place_that_another_actuator_reserved_is_taken_before_its_taint_is_there() -> None:
    scene = a_scene(*FLEET, most=1)
    reserve(scene, {"node-uid-2": taken(timedelta(seconds=60))})

    blocked(scene.perform(isolate(1)), "guard:isolated")
    assert node_writes(scene) == 0


def test_a_reserved_node_is_not_counted_as_left() -> None:
    scene = a_scene(node(1), node(2), share=1.0)
    reserve(scene, {"node-uid-2": taken(timedelta(seconds=60))})

    blocked(scene.perform(isolate(1)), "guard:floor")


def test_a_dead_actuators_reservation_ends_by_time() -> None:
    scene = a_scene(*FLEET, most=1)
    reserve(scene, {"node-uid-2": taken(timedelta(seconds=60))})
    scene.now += timedelta(seconds=61)

    assert scene.perform(isolate(1)).result is OutcomeResult.DONE


def test_a_reservation_of_a_node_that_was_deleted_takes_no_place() -> None:
    scene = a_scene(*FLEET, most=1)
    reserve(scene, {"deleted": taken(timedelta(seconds=60))})

    assert scene.perform(isolate(1)).result is OutcomeResult.DONE


def test_a_reservation_of_the_node_itself_is_no_other() -> None:
    """The actuator that had taken it was killed before it wrote the taint; another carries the command out again."""
    scene = a_scene(*FLEET, most=1)
    reserve(scene, {"node-uid-1": taken(timedelta(seconds=60))})

    assert scene.perform(isolate(1)).result is OutcomeResult.DONE


def test_a_reservation_whose_taint_is_seen_counts_once_and_is_over() -> None:
    scene = a_scene(*FLEET, most=2)
    scene.perform(isolate(1))
    scene.now += COUNT_HOLDS
    scene.perform(isolate(2))

    first = places_of(scene.api.objects[LEASE])["node-uid-1"]
    assert first.until <= scene.now
    assert "2 of at most 2" in blocked(scene.perform(isolate(3)), "guard:isolated")


def test_whoever_is_quicker_between_our_look_and_our_reservation_has_the_place() -> None:
    scene = a_scene(*FLEET, most=1)
    reserve(scene, {})
    scene.api.once("PATCH", LEASE, lambda: reserve(scene, {"node-uid-2": taken(timedelta(seconds=60))}))

    blocked(scene.perform(isolate(1)), "guard:isolated")
    assert node_writes(scene) == 0


def test_a_reservation_that_was_dropped_for_its_taint_is_seen_by_a_look_that_began_before_the_taint() -> None:
    """The count is made after the ledger was read, never before: else a taint set in between is in neither."""
    scene = a_scene(*FLEET, most=1)
    reserve(scene, {"node-uid-2": taken(timedelta(seconds=60))})

    def another_ends() -> None:
        scene.api.put(path(2), node(2, taints=[{"key": "relight.dev/isolated", "effect": "NoSchedule"}]))
        reserve(scene, {})

    scene.api.once("GET", LEASE, another_ends)

    blocked(scene.perform(isolate(1)), "guard:isolated")


def test_a_ledger_that_never_stands_still_isolates_nobody_for_now() -> None:
    scene = a_scene(*FLEET)
    reserve(scene, {})
    scene.api.before = raising(ApiConflict("409"), "PATCH", LEASE)

    assert scene.perform(isolate()).result is OutcomeResult.PENDING
    assert node_writes(scene) == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": ["x", "y"]}', '{"a": [1e30, 1]}'])
def test_a_ledger_nobody_can_read_isolates_nobody_and_says_so(text: str) -> None:
    scene = a_scene(*FLEET)
    scene.api.put(LEASE, {"metadata": {"name": NAME, "uid": "lease", "annotations": {PLACES: text}}})

    assert PLACES in blocked(scene.perform(isolate()), "guard:reservations")
    assert node_writes(scene) == 0


def test_without_its_namespace_nobody_is_isolated() -> None:
    scene = a_scene(*FLEET)
    scene.api.before = raising(ApiNotFound("404"), "POST")

    assert "namespace relight" in blocked(scene.perform(isolate()), "guard:reservations")
    assert node_writes(scene) == 0


def test_two_that_make_the_ledger_at_once_both_use_it() -> None:
    scene = a_scene(*FLEET)
    scene.api.once("POST", LEASE, lambda: reserve(scene, {"other": taken(timedelta(seconds=60))}))

    assert scene.perform(isolate()).result is OutcomeResult.DONE
    assert set(places_of(scene.api.objects[LEASE])) == {"other", "node-uid-1"}


def test_a_lot_is_granted_as_far_as_there_is_room_first_come_first_served() -> None:
    places = {"node-uid-9": taken(timedelta(seconds=60))}
    lot = [Candidate(one) for one in FLEET[:4]]

    settings = IsolationSettings(most=3)
    answers = grant(lot, fleet_of(FLEET, settings), places, NOW, settings)

    assert [answer is None for answer in answers] == [True, True, False, False]
    assert sorted(places) == ["node-uid-1", "node-uid-2", "node-uid-9"]
    assert "3 of at most 3" in str(answers[3])


# ------------------------------------------------------------------------ what no guard holds up


def test_a_release_goes_on_without_the_ledger() -> None:
    scene = a_scene(*FLEET)
    scene.perform(isolate())
    scene.api.before = raising(ApiAway("silent"), "GET", LEASE)

    assert scene.perform(release()).result is OutcomeResult.DONE
    assert "unschedulable" not in spec_of(scene)


def test_a_release_asks_no_guard() -> None:
    scene = a_scene(*FLEET)
    scene.perform(isolate())
    scene.settings = ActingSettings(isolation=IsolationSettings(most=0, most_an_hour=1, fewest_left=1000))

    assert scene.perform(release()).result is OutcomeResult.DONE


def test_a_thousand_places_fit_into_an_annotation() -> None:
    run = "0f8d2f5e-1f0b-4f0e-9d0e-0123456789ab"
    places = {f"{number:08d}-1f0b-4f0e-9d0e-0123456789ab": taken(timedelta(hours=1), timedelta(0), run) for number in range(1000)}  # fmt: skip

    assert len(text_of(places)) < 200_000
    assert json.loads(text_of(places))


# ------------------------------------------------------------------------ a real server


def test_a_pod_of_ours_protects_its_node_and_no_other_on_a_real_server(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    names = [f"{letter}-{namespace[-8:]}" for letter in "ab"]
    labels = {"test": namespace}
    ours, other = (
        api.create(paths.nodes(), {"metadata": {"name": name, "labels": labels}}) for name in names
    )
    scene.settings = ActingSettings(
        isolation=IsolationSettings(
            fewest_left=0, pool=f"test={namespace}", namespace=namespace, protected_namespaces=(namespace,)
        )
    )
    made = {"containers": [{"name": "kafka", "image": "none"}], "nodeName": names[0]}
    api.create(paths.pods(namespace), {"metadata": {"name": "kafka-0"}, "spec": made})
    try:
        outcome = scene.perform(real(ours, StepName.ISOLATE_NODE, holds=[HOLD_XID]))
        assert "kafka-0" in blocked(outcome, "guard:protected")
        assert not is_isolated(api.get(paths.nodes(names[0])))
        done = scene.perform(real(other, StepName.ISOLATE_NODE, holds=[HOLD_XID]))
        assert done.result is OutcomeResult.DONE
    finally:
        for name in names:
            api.delete(paths.nodes(name))


@pytest.mark.slow
@pytest.mark.parametrize(("actuators", "places", "rounds"), [(2, 1, 15), (6, 2, 4)])
def test_of_actuators_that_race_for_the_last_places_exactly_so_many_have_one(
    cluster: ControlPlane, api: Cluster, namespace: str, actuators: int, places: int, rounds: int
) -> None:
    """A client each and nothing shared but the server, begun at the same moment; many rounds."""
    labels = {"test": namespace}
    names = [f"n{number}-{namespace[-8:]}" for number in range(actuators)]
    nodes = [api.create(paths.nodes(), {"metadata": {"name": name, "labels": labels}}) for name in names]
    guards = IsolationSettings(
        most=places,
        share=1.0,
        fewest_left=0,
        most_an_hour=0,
        pool=f"test={namespace}",
        namespace=namespace,
    )
    try:
        with ExitStack() as stack:
            scenes = []
            for _ in nodes:
                threads = stack.enter_context(ThreadPoolExecutor(2))
                scene = RealScene(client_of(cluster), threads)
                scene.settings = ActingSettings(isolation=guards)
                scenes.append(scene)
            racers = stack.enter_context(ThreadPoolExecutor(actuators))
            for _ in range(rounds):
                one_round(api, scenes, racers, nodes, places)
    finally:
        for name in names:
            api.delete(paths.nodes(name))


def one_round(
    api: Cluster, scenes: list[RealScene], racers: ThreadPoolExecutor, nodes: list[Object], places: int
) -> None:
    begin = threading.Barrier(len(scenes))

    def race(scene: RealScene, one: Object) -> Outcome:
        command = real(one, StepName.ISOLATE_NODE, holds=[HOLD_XID])
        begin.wait(10)
        outcome = scene.perform(command)
        while outcome.result is OutcomeResult.PENDING:  # others were quicker each time: the core asks again
            outcome = scene.perform(command)
        return outcome

    outcomes = list(racers.map(race, scenes, nodes))

    isolated = [one for one in nodes if is_isolated(api.get(paths.nodes(one["metadata"]["name"])))]
    assert len(isolated) == places
    assert Counter(outcome.result for outcome in outcomes) == {
        OutcomeResult.DONE: places,
        OutcomeResult.BLOCKED: len(nodes) - places,
    }
    assert {outcome.cause for outcome in outcomes if outcome.cause} == {"guard:isolated"}
    for one in isolated:
        assert scenes[0].perform(real(one, StepName.RELEASE_NODE)).result is OutcomeResult.DONE
