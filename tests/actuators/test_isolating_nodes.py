"""isolate_node and release_node: the mirror of a node's holds, guards, and what belongs to others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from actuators.settings import ActingSettings, IsolationSettings
from runtime import paths
from runtime.errors import ApiAway
from runtime.kubernetes import Cluster, Object
from schemas.cluster import HOLD, ISOLATED, ISOLATION_ORDER
from schemas.commands import Command, OutcomeResult, StepName
from tests.actuators.real_scene import RealScene
from tests.actuators.real_scene import command as real_command
from tests.actuators.scene import Scene, command
from tests.actuators.scripted_api import NOW, raising

HOLD_XID = {
    "cause": "xid/79",
    "chip": "GPU-1",
    "class": "isolate",
    "evidence": "e",
    "reason": "fell off the bus",
}
HOLD_READY = {
    "cause": "node/not-ready",
    "chip": None,
    "class": "isolate",
    "evidence": "f",
    "reason": "silent",
}
READY = {"type": "Ready", "status": "True"}
THEIR_TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def node(number: int = 1, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {
        "name": f"node-{number}",
        "uid": f"node-uid-{number}",
        "labels": labels or {},
        "annotations": {},
    }
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [READY]}}


def path(number: int = 1) -> str:
    return paths.nodes(f"node-{number}")


def a_scene(*nodes: Object, **settings: Any) -> Scene:
    scene = Scene(settings=ActingSettings(isolation=IsolationSettings(**settings)))
    for number, one in enumerate(nodes or (node(1), node(2), node(3)), start=1):
        scene.api.put(path(number), one)
    return scene


def order(
    step: StepName, number: int = 1, *, holds: tuple[dict[str, Any], ...] = (), **given: Any
) -> Command:
    arguments = {
        "node": f"node-uid-{number}",
        "node_name": f"node-{number}",
        "holds": list(holds),
        "runs": [],
    }
    values: dict[str, Any] = {"subject": f"node/node-uid-{number}", "epoch": 0, **given}
    return command(step, arguments=arguments, **values)


def isolate(number: int = 1, *, holds: tuple[dict[str, Any], ...] = (HOLD_XID,), **given: Any) -> Command:
    return order(StepName.ISOLATE_NODE, number, holds=holds, **given)


def release(number: int = 1, **given: Any) -> Command:
    return order(StepName.RELEASE_NODE, number, **given)


def spec_of(scene: Scene, number: int = 1) -> Object:
    return dict(scene.api.objects[path(number)]["spec"])


def node_writes(scene: Scene) -> int:
    return sum(write.path.startswith(paths.nodes()) for write in scene.api.writes)


def marks_on(scene: Scene) -> list[str]:
    """Annotations of ours, but for the one that stays: which command was the last."""
    return sorted(set(scene.api.annotations(path())) - {ISOLATION_ORDER})


def holds_on(scene: Scene, number: int = 1) -> list[str]:
    return sorted(key for key in scene.api.annotations(path(number)) if key.startswith(HOLD))


def test_a_held_node_is_cordoned_tainted_and_says_why() -> None:
    scene = a_scene(node(taints=[THEIR_TAINT]), node(2), node(3))

    assert scene.perform(isolate(holds=(HOLD_XID, HOLD_READY))).result is OutcomeResult.DONE

    spec = spec_of(scene)
    assert spec["unschedulable"] is True
    assert [taint["key"] for taint in spec["taints"]] == ["team", ISOLATED]
    assert len(holds_on(scene)) == 2
    text = " ".join(scene.api.annotations(path()).values())
    assert "fell off the bus" in text
    assert "GPU-1" in text


def test_the_same_command_twice_writes_once() -> None:
    scene = a_scene()

    scene.perform(isolate())
    scene.perform(isolate())

    assert node_writes(scene) == 1
    assert [words.reason for words in scene.said.words] == ["Isolated"]


def test_a_second_hold_joins_and_one_that_ended_goes() -> None:
    scene = a_scene()
    scene.perform(isolate())
    scene.perform(isolate(holds=(HOLD_XID, HOLD_READY)))
    assert len(holds_on(scene)) == 2

    scene.perform(isolate(holds=(HOLD_READY,)))
    assert len(holds_on(scene)) == 1
    assert [taint["key"] for taint in spec_of(scene)["taints"]] == [ISOLATED]


def test_a_node_a_human_uncordoned_is_not_cordoned_again_by_another_hold() -> None:
    scene = a_scene()
    scene.perform(isolate())
    scene.api.objects[path()]["spec"]["unschedulable"] = False

    scene.perform(isolate(holds=(HOLD_XID, HOLD_READY)))

    assert spec_of(scene)["unschedulable"] is False
    assert len(holds_on(scene)) == 2


# ------------------------------------------------------------------------ a node that is well again

UNREACHABLE = {**HOLD_READY, "cause": "node/unreachable"}
UNREADY = [{"type": "Ready", "status": "False"}]
LOST = [{"type": "Ready", "status": "Unknown"}]


def becomes(scene: Scene, conditions: list[Object]) -> None:
    scene.api.objects[path()]["status"] = {"conditions": conditions}
    scene.api.touch(path())


@pytest.mark.parametrize("holds", [(HOLD_READY,), (UNREACHABLE,), (HOLD_READY, UNREACHABLE)])
def test_a_node_that_was_silent_and_is_ready_again_is_not_isolated(holds: tuple[dict[str, Any], ...]) -> None:
    """Nobody watched while it came back, so nobody has told that its condition cleared."""
    scene = a_scene()

    outcome = scene.perform(isolate(holds=holds))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "recovered")
    assert scene.api.writes == [], "and takes no place"


@pytest.mark.parametrize("conditions", [UNREADY, LOST, [], [{"type": "DiskPressure", "status": "True"}]])
def test_a_node_that_is_not_ready_or_of_which_nothing_is_known_is_isolated_for_it(
    conditions: list[Object],
) -> None:
    scene = a_scene()
    becomes(scene, conditions)

    assert scene.perform(isolate(holds=(HOLD_READY,))).result is OutcomeResult.DONE


@pytest.mark.parametrize(
    "other",
    [HOLD_XID, {**HOLD_READY, "cause": "node/pre-check:bandwidth"}, {**HOLD_XID, "cause": "x/not-ready"}],
)
def test_that_a_node_is_ready_says_nothing_about_another_fault(other: dict[str, Any]) -> None:
    scene = a_scene()

    assert scene.perform(isolate(holds=(HOLD_READY, other))).result is OutcomeResult.DONE
    assert len(holds_on(scene)) == 2


def test_a_node_that_becomes_ready_between_read_and_write_is_not_isolated() -> None:
    scene = a_scene()
    becomes(scene, UNREADY)
    scene.api.once("PATCH", path(), lambda: becomes(scene, [READY]))

    assert scene.perform(isolate(holds=(HOLD_READY,))).cause == "recovered"
    assert "taints" not in spec_of(scene)


def test_an_isolation_that_stands_is_not_denied_when_the_node_is_ready_again() -> None:
    """It ends by the release path: a hold outlives its cause (recovery 5)."""
    scene = a_scene()
    becomes(scene, UNREADY)
    scene.perform(isolate(holds=(HOLD_READY,)))
    becomes(scene, [READY])

    assert scene.perform(isolate(holds=(HOLD_READY,), action="look")).result is OutcomeResult.DONE


# ------------------------------------------------------------------------ a human in between


def untaint(scene: Scene) -> None:
    """`kubectl taint node ... relight.dev/isolated-`: our annotations stay."""
    scene.api.objects[path()]["spec"]["taints"] = []
    scene.api.touch(path())


@pytest.mark.parametrize("action", ["begin", "look"])
def test_a_command_carried_out_again_does_not_undo_a_human_who_took_our_taint_off(action: str) -> None:
    """An actuator killed before its outcome was confirmed: another does the command again."""
    scene = a_scene()
    scene.perform(isolate())
    untaint(scene)
    writes = len(scene.api.writes)

    outcome = scene.perform(isolate(action=action))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "overridden")
    assert len(scene.api.writes) == writes, "and takes no place"


def test_a_human_who_takes_our_taint_off_between_read_and_write_is_not_undone() -> None:
    scene = a_scene()
    scene.perform(isolate())
    scene.api.once("PATCH", path(), lambda: untaint(scene))

    assert scene.perform(isolate(holds=(HOLD_XID, HOLD_READY))).cause == "overridden"
    assert spec_of(scene)["taints"] == []


def test_a_later_command_isolates_again_what_a_controller_had_freed() -> None:
    scene = a_scene()
    scene.perform(isolate())
    untaint(scene)

    assert scene.perform(isolate(command="the-next", attempt=4)).result is OutcomeResult.DONE
    assert [taint["key"] for taint in spec_of(scene)["taints"]] == [ISOLATED]


def test_a_cancelled_isolation_is_taken_back() -> None:
    scene = a_scene()
    scene.perform(isolate())

    assert scene.perform(isolate(action="cancel", holds=())).result is OutcomeResult.DONE
    assert spec_of(scene) == {}
    assert marks_on(scene) == []
    assert scene.perform(isolate()).cause == "overridden", "it is not carried out once more"


@pytest.mark.parametrize("before", [True, False], ids=["isolated before", "carried out by nobody before"])
@pytest.mark.parametrize("action", ["begin", "look"])
def test_an_isolation_carried_out_after_the_release_that_followed_it_marks_nobody(
    action: str, before: bool
) -> None:
    """An actuator that stood still in the middle comes back: the holds have ended, and nobody would release the node again."""
    scene = a_scene()
    if before:
        scene.perform(isolate(command="first", attempt=1))
    assert scene.perform(release(command="second", attempt=2)).result is OutcomeResult.DONE
    writes = len(scene.api.writes)

    outcome = scene.perform(isolate(command="first", attempt=1, action=action))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "superseded")
    assert "taints" not in spec_of(scene)
    assert len(scene.api.writes) == writes, "and takes no place"


def test_a_release_between_read_and_write_of_an_older_isolation_stands() -> None:
    scene = a_scene()
    scene.api.once("PATCH", path(), lambda: released(scene, attempt=4))

    assert scene.perform(isolate(attempt=3)).cause == "superseded"
    assert "taints" not in spec_of(scene)


def released(scene: Scene, *, attempt: int) -> None:
    scene.api.objects[path()]["metadata"]["annotations"][ISOLATION_ORDER] = f"{attempt} another"
    scene.api.touch(path())


def test_a_release_carried_out_after_the_isolation_that_followed_it_frees_nobody() -> None:
    scene = a_scene()
    scene.perform(isolate(attempt=1))
    scene.perform(release(attempt=2))
    scene.perform(isolate(command="third", attempt=3))

    outcome = scene.perform(release(attempt=2))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "superseded")
    assert [taint["key"] for taint in spec_of(scene)["taints"]] == [ISOLATED]


def test_an_older_isolation_does_not_bring_back_holds_that_a_later_one_ended() -> None:
    scene = a_scene()
    scene.perform(isolate(attempt=1, holds=(HOLD_XID, HOLD_READY)))
    scene.perform(isolate(command="second", attempt=2, holds=(HOLD_READY,)))

    assert scene.perform(isolate(attempt=1, holds=(HOLD_XID, HOLD_READY))).cause == "superseded"
    assert len(holds_on(scene)) == 1


def test_a_later_isolation_that_changes_no_mark_is_known_to_be_the_last_all_the_same() -> None:
    scene = a_scene()
    scene.perform(isolate(command="first", attempt=1))
    scene.perform(isolate(command="third", attempt=3))

    assert scene.perform(release(attempt=2)).cause == "superseded"
    assert [words.reason for words in scene.said.words] == ["Isolated"]


@pytest.mark.parametrize("text", ["", "later", "x y", "-5 a", "9" * 5000 + " a"])
def test_an_order_that_cannot_be_read_forbids_nothing(text: str) -> None:
    scene = a_scene()
    scene.api.objects[path()]["metadata"]["annotations"][ISOLATION_ORDER] = text

    assert scene.perform(isolate()).result is OutcomeResult.DONE
    assert scene.perform(release(attempt=4)).result is OutcomeResult.DONE


@pytest.mark.parametrize("given", [{"command": "another"}, {"not_after": NOW - timedelta(days=1)}])
def test_a_cancel_takes_back_its_own_isolation_only_and_however_late_it_comes(given: dict[str, Any]) -> None:
    scene = a_scene()
    scene.perform(isolate())

    scene.perform(isolate(action="cancel", **given))

    assert (ISOLATED in str(spec_of(scene))) is ("command" in given)


def test_a_cancel_of_what_was_never_isolated_writes_nothing() -> None:
    scene = a_scene(node(unschedulable=True, taints=[THEIR_TAINT]), node(2), node(3))

    assert scene.perform(isolate(action="cancel")).result is OutcomeResult.DONE
    assert scene.api.writes == []


@pytest.mark.parametrize(
    ("writers", "stays"), [(["relight"], False), (["relight", "kubectl"], True), ([], True)]
)
def test_where_our_record_was_taken_off_only_a_cordon_that_nobody_else_wrote_goes(
    writers: list[str], stays: bool
) -> None:
    scene = a_scene()
    scene.perform(isolate())
    held = scene.api.objects[path()]
    del held["metadata"]["annotations"][ISOLATED]
    held["metadata"]["managedFields"] = [
        {"manager": name, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}} for name in writers
    ]
    scene.api.put(path(), held)

    scene.perform(release())

    assert ("unschedulable" in spec_of(scene)) is stays
    assert "taints" not in spec_of(scene)


def test_release_takes_off_ours_and_leaves_theirs() -> None:
    scene = a_scene(node(taints=[THEIR_TAINT]), node(2), node(3))
    scene.perform(isolate())

    assert scene.perform(release()).result is OutcomeResult.DONE

    assert spec_of(scene) == {"taints": [THEIR_TAINT]}
    assert marks_on(scene) == []


def test_a_cordon_that_was_there_before_stays_after_the_release() -> None:
    scene = a_scene(node(unschedulable=True), node(2), node(3))
    scene.perform(isolate())
    scene.perform(release())

    assert spec_of(scene) == {"unschedulable": True}


def test_a_node_we_did_not_isolate_is_not_released() -> None:
    scene = a_scene(node(unschedulable=True, taints=[THEIR_TAINT]))

    assert scene.perform(release()).effects == ()

    assert spec_of(scene) == {"unschedulable": True, "taints": [THEIR_TAINT]}
    assert scene.said.words == []
    assert node_writes(scene) == 1, "that an earlier isolation is over"
    scene.perform(release())
    assert node_writes(scene) == 1


def test_a_release_with_holds_left_is_refused() -> None:
    scene = a_scene()
    scene.perform(isolate())

    assert scene.perform(order(StepName.RELEASE_NODE, holds=(HOLD_XID,))).cause == "holds_left"
    assert spec_of(scene)["unschedulable"] is True


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (isolate(holds=()), "no_holds"),
        (isolate(subject="run/somebody"), "bad_subject"),
        (isolate(subject="node/another"), "bad_subject"),
        (isolate(not_after=NOW - timedelta(seconds=1)), "too_late"),
        (isolate(9), "node_gone"),
    ],
)
def test_what_is_not_as_it_should_be_isolates_nobody(given: Command, cause: str) -> None:
    scene = a_scene()

    outcome = scene.perform(given)

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, cause)
    assert node_writes(scene) == 0


def test_a_node_made_anew_under_its_name_is_neither_isolated_nor_released() -> None:
    scene = a_scene()
    another = node()
    another["metadata"]["uid"] = "another"
    scene.api.put(path(), another)

    assert scene.perform(isolate()).cause == "other_node"
    assert scene.perform(release()).cause == "other_node"
    assert node_writes(scene) == 0


def test_a_node_made_anew_between_read_and_write_is_not_isolated() -> None:
    scene = a_scene()
    another = node()
    another["metadata"]["uid"] = "another"
    scene.api.once("PATCH", path(), lambda: scene.api.put(path(), another))

    assert scene.perform(isolate()).result is OutcomeResult.REFUSED
    assert "unschedulable" not in spec_of(scene)


def test_a_taint_somebody_adds_in_between_is_not_lost() -> None:
    scene = a_scene()
    scene.api.once("PATCH", path(), lambda: scene.api.put(path(), node(taints=[THEIR_TAINT])))

    scene.perform(isolate())

    assert [taint["key"] for taint in spec_of(scene)["taints"]] == ["team", ISOLATED]


def test_a_pause_forbids_isolating_and_lets_a_release_through() -> None:
    scene = a_scene()
    scene.perform(isolate())
    scene.settings = ActingSettings(paused=True)

    assert scene.perform(isolate(2)).cause == "guard:paused"
    assert scene.perform(release(1)).result is OutcomeResult.DONE


def test_a_silent_api_isolates_nobody_and_says_so() -> None:
    scene = a_scene()
    scene.api.before = raising(ApiAway("no answer"), "LIST")

    assert scene.perform(isolate()).result is OutcomeResult.UNREACHABLE
    assert node_writes(scene) == 0


@pytest.mark.parametrize(("writer", "stays"), [("relight", False), ("kubectl-cordon", True)])
def test_a_cordon_a_human_set_after_ours_stays_after_the_release(writer: str, stays: bool) -> None:
    scene = a_scene()
    scene.perform(isolate())
    held = dict(scene.api.objects[path()])
    fields = [{"manager": writer, "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]
    held["metadata"] = {**held["metadata"], "managedFields": fields}
    scene.api.put(path(), held)

    scene.perform(release())

    assert ("unschedulable" in spec_of(scene)) is stays
    assert "taints" not in spec_of(scene)


def test_isolated_and_released_on_a_real_server(scene: RealScene, api: Cluster, namespace: str) -> None:
    names = [f"{letter}-{namespace[-8:]}" for letter in "ab"]
    labels = {"test": namespace}
    ours, _ = (api.create(paths.nodes(), {"metadata": {"name": name, "labels": labels}}) for name in names)
    guards = IsolationSettings(namespace=namespace, fewest_left=0, pool=f"test={namespace}")
    scene.settings = ActingSettings(isolation=guards)
    try:
        assert scene.perform(real(ours, StepName.ISOLATE_NODE, holds=[HOLD_XID])).result is OutcomeResult.DONE
        held = api.get(paths.nodes(names[0]))
        assert held["spec"]["unschedulable"] is True
        assert ISOLATED in {taint["key"] for taint in held["spec"]["taints"]}

        assert scene.perform(real(ours, StepName.RELEASE_NODE)).result is OutcomeResult.DONE
        free = api.get(paths.nodes(names[0]))
        assert "unschedulable" not in free["spec"]
        assert ISOLATED not in {taint["key"] for taint in free["spec"].get("taints", [])}
        ours_left = [key for key in free["metadata"].get("annotations") or {} if "relight" in key]
        assert ours_left == [ISOLATION_ORDER]
    finally:
        for name in names:
            api.delete(paths.nodes(name))


def real(one: Object, step: StepName, *, holds: list[dict[str, Any]] | None = None) -> Command:
    metadata = one["metadata"]
    arguments = {"node": metadata["uid"], "node_name": metadata["name"], "holds": holds or []}
    about = {"metadata": {**metadata, "namespace": ""}}
    return real_command(about, step, subject=f"node/{metadata['uid']}", epoch=0, arguments=arguments)
